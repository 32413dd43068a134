"""The users in a broker's view."""

from dataclasses import replace

from tank_node.cluster.users.view import UsersView, user_view
from tank_protos.generated import control_pb2 as pb
from tank_protos.users.secret import Secret
from tank_protos.users.tokens import token_digest
from tests.node.users.users_for_tests import user, view_of, with_token


def names(view: UsersView) -> list[str]:
    return [each.name for each in view.all()]


def test_users_are_found_by_number_name_and_token() -> None:
    alice = with_token(user(2, "alice"), "token")
    view = view_of(user(3, "bob"), alice, user(0, "iggy"))
    assert names(view) == ["iggy", "alice", "bob"]
    assert view.by_number(2) is view.by_name("alice") is alice
    assert view.by_token(token_digest(Secret(b"token"))) == (alice, alice.tokens[0])
    assert view.by_token(b"\0" * 32) is None
    assert view.by_number(1) is view.by_name("carol") is None


def test_a_change_takes_the_place_of_what_was_there() -> None:
    alice = with_token(user(2, "alice"), "token")
    view = view_of(alice)
    version = view.version
    view.put([replace(alice, name="alicia", tokens=())])
    assert view.version > version
    assert view.by_name("alice") is None
    assert view.by_token(alice.tokens[0].digest) is None
    assert names(view) == ["alicia"]
    view.put([], [2])
    assert len(view) == 0
    view.put([user(2, "bob")], [2])
    assert names(view) == ["bob"], "another user has the number"


def test_names_may_go_from_one_to_another_at_once() -> None:
    alice, bob = user(1, "alice"), user(2, "bob")
    view = view_of(alice, bob)
    view.put([replace(alice, name="bob"), replace(bob, name="alice")])
    assert (view.by_name("bob"), view.by_name("alice")) == (view.by_number(1), view.by_number(2))


def test_nothing_new_is_no_new_version() -> None:
    view = view_of(user(1, "alice"))
    version = view.version
    view.put([])
    assert view.version == version


def test_all_users_are_replaced_at_once() -> None:
    view = view_of(user(1, "alice"), user(2, "bob"))
    view.replace([user(2, "bob"), user(3, "carol")])
    assert names(view) == ["bob", "carol"]
    assert view == view_of(user(3, "carol"), user(2, "bob"))
    assert view != view_of(user(3, "carol"))


def test_a_message_of_the_controllers_is_read() -> None:
    message = pb.User(
        number=4,
        name="dave",
        created_ms=5,
        born=44,
        password_hash="hash",
        credentials_index=45,
        inactive=True,
        births=[1, 0],
        tokens=[pb.UserToken(name="laptop", digest=b"d", expires_us=9)],
    )
    found = user_view(message)
    assert (found.number, found.name, found.created_ms, found.born) == (4, "dave", 5, 44)
    assert (found.password_hash, found.credentials_index, found.active) == ("hash", 45, False)
    assert (found.permissions, found.births) == (None, (1, 0))
    assert [(each.name, each.digest, each.expires_us) for each in found.tokens] == [("laptop", b"d", 9)]
    message.permissions = b""
    assert user_view(message).permissions == b""
