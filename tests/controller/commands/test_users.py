"""Commands about users of Iggy's clients and their tokens."""

from collections.abc import Callable

import pytest

from tank_controller import limits
from tank_controller.state.iggy.users import UserState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.generated import control_pb2 as pb
from tank_protos.users.permissions import (
    ALL_RIGHTS,
    GlobalRight,
    Permissions,
    StreamPermissions,
    StreamRight,
    TopicPermissions,
    TopicRight,
)
from tests.controller.commands_for_tests import apply, error_of
from tests.controller.users_for_tests import (
    change_password,
    create_token,
    create_user,
    delete_token,
    delete_user,
    digest,
    found_root,
    hashed,
    the,
    update_permissions,
    update_user,
    with_users,
)

READER = Permissions(GlobalRight.READ_STREAMS)
NOBODY = UserState(9, "nobody", 0, 4711, hashed("x"), 4711)


def accepted(state: ClusterState, command: pb.Command) -> pb.Delta:
    outcome = apply(state, command)
    assert outcome.rejection is None, outcome.rejection
    return outcome.delta


# --- users ---


def test_the_first_root_user_wins_and_has_all_rights() -> None:
    state = with_users()
    root = the(state, "iggy")
    assert (root.number, root.active, root.permissions) == (0, True, ALL_RIGHTS.encode())
    assert error_of(state, found_root("iggy", "another")) is ErrorCode.USER_EXISTS
    assert error_of(state, found_root("admin")) is ErrorCode.USER_EXISTS
    again = apply(state, found_root())
    assert again.rejection is None, "the same command, whose answer was lost"
    assert not again.delta.users


def test_users_come_after_the_root_user() -> None:
    state = with_users()
    state.users.remove(0)
    assert error_of(state, create_user("alice")) is ErrorCode.INVALID_REQUEST


def test_a_user_gets_the_lowest_free_number_and_a_birth_of_its_own() -> None:
    state = with_users("alice", "bob", "carol")
    assert [the(state, name).number for name in ("alice", "bob", "carol")] == [1, 2, 3]
    before = the(state, "bob")
    assert list(accepted(state, delete_user(before)).removed_users) == [2]
    outcome = apply(state, create_user("dave"))
    assert outcome.number == 2
    assert the(state, "dave").born == state.index > before.born
    (told,) = outcome.delta.users
    assert (told.number, told.name, told.born, told.created_ms) == (2, "dave", state.index, 7)
    assert told.password_hash == hashed("davesecret")
    assert not told.inactive
    assert not told.HasField("permissions")


def test_a_user_may_begin_inactive_and_with_permissions() -> None:
    state = with_users()
    accepted(state, create_user("alice", permissions=READER, inactive=True))
    alice = the(state, "alice")
    assert (alice.active, alice.permissions) == (False, READER.encode())


def test_names_are_unique_and_follow_iggys_rule() -> None:
    state = with_users("alice", "bob")
    assert error_of(state, create_user("alice", "other")) is ErrorCode.USER_EXISTS
    assert error_of(state, create_user("iggy")) is ErrorCode.USER_EXISTS
    assert error_of(state, create_user("ab")) is ErrorCode.INVALID_NAME
    assert error_of(state, create_user("x" * 51)) is ErrorCode.INVALID_NAME
    assert error_of(state, update_user(the(state, "bob"), "alice")) is ErrorCode.USER_EXISTS
    assert error_of(state, update_user(the(state, "bob"), "b\n")) is ErrorCode.INVALID_NAME


def test_a_command_that_is_repeated_creates_nobody() -> None:
    state = with_users("alice")
    outcome = apply(state, create_user("alice"))
    assert (outcome.rejection, outcome.number, list(outcome.delta.users)) == (None, 1, [])


def test_what_is_no_hash_is_no_password() -> None:
    state = with_users("alice")
    for wrong in ("wonder", hashed("").replace("m=19456", "m=9999999"), ""):
        create = pb.Command(create_user=pb.CreateUser(name="bob", password_hash=wrong))
        change = change_password(the(state, "alice"), "x")
        change.change_password.password_hash = wrong
        for command in (create, change):
            assert error_of(state, command) is ErrorCode.INVALID_REQUEST
            rejection = apply(state, command).rejection
            assert rejection is not None
            assert "wonder" not in rejection.message


def test_a_user_is_renamed_and_made_inactive() -> None:
    state = with_users("alice")
    accepted(state, update_user(the(state, "alice"), "alicia"))
    assert state.users.named("alice") is None
    (told,) = accepted(state, update_user(the(state, "alicia"), inactive=True)).users
    assert (told.name, told.inactive) == ("alicia", True)
    assert not accepted(state, update_user(the(state, "alicia"), "alicia", True)).users, "nothing changed"
    accepted(state, update_user(the(state, "alicia"), inactive=False))
    assert the(state, "alicia").active
    accepted(state, create_user("alice"))
    assert the(state, "alice").number == 2


def test_a_new_password_is_of_its_entry() -> None:
    state = with_users("alice")
    before = the(state, "alice")
    assert before.credentials_index == before.born
    accepted(state, change_password(before, "new"))
    after = the(state, "alice")
    assert (after.password_hash, after.credentials_index) == (hashed("new"), state.index)
    assert not accepted(state, change_password(after, "new")).users
    assert the(state, "alice").credentials_index < state.index


def test_the_root_user_is_neither_deleted_nor_stripped() -> None:
    state = with_users()
    root = the(state, "iggy")
    assert error_of(state, delete_user(root)) is ErrorCode.ROOT_USER
    assert error_of(state, update_user(root, inactive=True)) is ErrorCode.ROOT_USER
    assert error_of(state, update_permissions(root, None)) is ErrorCode.ROOT_USER
    assert error_of(state, update_permissions(root, READER)) is ErrorCode.ROOT_USER
    accepted(state, update_user(root, "admin"))
    accepted(state, change_password(root, "better"))
    accepted(state, create_token(the(state, "admin"), "laptop"))


@pytest.mark.parametrize(
    "command",
    [
        delete_user,
        lambda user: update_user(user, "other"),
        lambda user: change_password(user, "other"),
        lambda user: update_permissions(user, READER),
        lambda user: create_token(user, "laptop"),
        lambda user: delete_token(user, "laptop"),
    ],
)
def test_a_command_for_a_user_that_is_gone_does_nothing_to_another_with_its_number(
    command: Callable[[UserState], pb.Command],
) -> None:
    state = with_users("alice")
    before = the(state, "alice")
    accepted(state, delete_user(before))
    assert error_of(state, command(before)) is ErrorCode.UNKNOWN_USER
    accepted(state, create_user("bob"))
    assert the(state, "bob").number == before.number
    assert error_of(state, command(before)) is ErrorCode.UNKNOWN_USER
    assert error_of(state, command(NOBODY)) is ErrorCode.UNKNOWN_USER


@pytest.mark.parametrize(
    "command",
    [
        found_root(),
        create_user("alice"),
        delete_user(NOBODY),
        update_user(NOBODY, "other"),
        change_password(NOBODY, "other"),
        update_permissions(NOBODY, READER),
        create_token(NOBODY, "laptop"),
        delete_token(NOBODY, "laptop"),
    ],
)
def test_below_the_level_of_iggy_there_are_no_users(command: pb.Command) -> None:
    state = ClusterState(feature_level=NATIVE_GROUPS)
    assert error_of(state, command) is ErrorCode.LEVEL_TOO_LOW


def test_a_password_is_replaced_where_it_was_proved_or_by_an_operator() -> None:
    state = with_users("alice")
    before = the(state, "alice")
    change = change_password(before, "second")
    accepted(state, change)
    assert not accepted(state, change).users, "a repeat"
    late = change_password(before, "third")
    assert error_of(state, late) is ErrorCode.STALE_USER, "the first one was proved, which is no more"
    accepted(state, change_password(the(state, "alice"), "fourth"))
    assert error_of(state, change) is ErrorCode.STALE_USER, "a repeat that comes late"
    accepted(state, change_password(before, "fifth", operator=True))
    assert the(state, "alice").password_hash == hashed("fifth")


def test_users_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_USERS", 2)
    state = with_users("alice")
    assert error_of(state, create_user("bob")) is ErrorCode.LIMIT_REACHED
    assert limits.MAX_USERS == 2


# --- permissions ---


def document(*streams: StreamPermissions) -> Permissions:
    return Permissions(GlobalRight(0), streams)


def test_permissions_hang_on_the_streams_and_topics_that_have_the_numbers_when_they_are_given() -> None:
    state = with_users("alice")
    stream = pb.Command(now_ms=1, create_stream=pb.CreateStream(name="main"))
    accepted(state, stream)
    stream_born = state.index
    accepted(
        state,
        pb.Command(
            create_iggy_topic=pb.CreateIggyTopic(stream=0, born=stream_born, name="events", partitions=1)
        ),
    )
    topic_born = state.index
    given = document(
        StreamPermissions(5, StreamRight.READ_STREAM),
        StreamPermissions(
            0,
            StreamRight.READ_STREAM,
            (TopicPermissions(3, TopicRight.READ_TOPIC), TopicPermissions(0, TopicRight.READ_TOPIC)),
        ),
    )
    meant = (0, stream_born, 0, topic_born)
    (told,) = accepted(state, update_permissions(the(state, "alice"), given, *meant)).users
    assert told.permissions == given.encode(), "exactly as it was given"
    assert tuple(told.births) == meant
    accepted(state, pb.Command(purge_topic=pb.PurgeTopic(topic_id=topic_born)))
    again = update_permissions(the(state, "alice"), given, *meant)
    assert not accepted(state, again).users, "a purged topic is the same topic"
    accepted(state, pb.Command(delete_stream=pb.DeleteStream(stream=0, born=stream_born)))
    accepted(state, stream)
    assert the(state, "alice").births == meant, "the new stream is another"
    new_born = state.index
    accepted(state, create_user("bob", "secret", given, 0, new_born, 0, 0))
    assert the(state, "bob").births == (0, new_born, 0, 0)
    for late in (create_user("carol", "secret", given, *meant), again):
        accepted(state, late)
    assert the(state, "carol").births == the(state, "alice").births == (0, 0, 0, 0), "meant was the old one"
    assert error_of(state, create_user("dave", "secret", given, 0)) is ErrorCode.INVALID_REQUEST
    assert error_of(state, update_permissions(the(state, "bob"), given)) is ErrorCode.INVALID_REQUEST


def test_the_root_user_has_all_rights_whatever_the_command_says() -> None:
    state = with_users()
    state.users.remove(0)
    create = found_root()
    create.create_user.permissions = READER.encode()
    create.create_user.births.append(7)
    accepted(state, create)
    assert (the(state, "iggy").permissions, the(state, "iggy").births) == (ALL_RIGHTS.encode(), ())


def test_permissions_are_taken_away() -> None:
    state = with_users("alice")
    accepted(state, update_permissions(the(state, "alice"), READER))
    assert state.users.permissions_bytes == len(ALL_RIGHTS.encode()) + len(READER.encode())
    (told,) = accepted(state, update_permissions(the(state, "alice"), None)).users
    assert not told.HasField("permissions")
    assert state.users.permissions_bytes == len(ALL_RIGHTS.encode())


def test_permissions_are_bounded_and_a_whole_document(monkeypatch: pytest.MonkeyPatch) -> None:
    state = with_users("alice")
    alice = the(state, "alice")
    assert error_of(state, update_permissions(alice, READER.encode() + b"\0")) is ErrorCode.INVALID_REQUEST
    assert error_of(state, update_permissions(alice, b"")) is ErrorCode.INVALID_REQUEST
    assert error_of(state, update_permissions(alice, bytes(70_000))) is ErrorCode.TOO_LARGE
    create = create_user("bob")
    create.create_user.permissions = b"nonsense"
    assert error_of(state, create) is ErrorCode.INVALID_REQUEST
    accepted(state, update_permissions(alice, READER))
    monkeypatch.setattr(limits, "MAX_PERMISSIONS_BYTES", state.users.permissions_bytes)
    accepted(state, update_permissions(the(state, "alice"), Permissions(GlobalRight.SEND_MESSAGES)))
    assert error_of(state, create_user("bob", permissions=READER)) is ErrorCode.LIMIT_REACHED


# --- tokens ---


def test_a_token_is_kept_as_its_digest_in_the_order_of_creation() -> None:
    state = with_users("alice")
    accepted(state, create_token(the(state, "alice"), "laptop"))
    (told,) = accepted(state, create_token(the(state, "alice"), "backup", expires_us=9_000)).users
    assert [(token.name, token.digest, token.expires_us) for token in told.tokens] == [
        ("laptop", digest("laptop"), 0),
        ("backup", digest("backup"), 9_000),
    ]
    (told,) = accepted(state, delete_token(the(state, "alice"), "laptop")).users
    assert [token.name for token in told.tokens] == ["backup"]
    assert error_of(state, delete_token(the(state, "alice"), "laptop")) is ErrorCode.UNKNOWN_TOKEN


def test_a_users_tokens_have_different_names() -> None:
    state = with_users("alice", "bob")
    accepted(state, create_token(the(state, "alice"), "laptop", "one"))
    assert not accepted(state, create_token(the(state, "alice"), "laptop", "one")).users, "a repeat"
    assert error_of(state, create_token(the(state, "alice"), "laptop", "two")) is ErrorCode.TOKEN_EXISTS
    assert error_of(state, create_token(the(state, "bob"), "laptop", "one")) is ErrorCode.TOKEN_EXISTS
    accepted(state, create_token(the(state, "bob"), "laptop", "two"))
    assert error_of(state, create_token(the(state, "bob"), "la")) is ErrorCode.INVALID_NAME
    short = create_token(the(state, "bob"), "short")
    short.create_token.digest = b"short"
    assert error_of(state, short) is ErrorCode.INVALID_REQUEST


def test_a_token_that_was_deleted_does_not_come_back_with_a_repeat() -> None:
    state = with_users("alice")
    create = create_token(the(state, "alice"), "laptop")
    accepted(state, create)
    accepted(state, delete_token(the(state, "alice"), "laptop"))
    assert error_of(state, create) is ErrorCode.STALE_USER
    accepted(state, create_token(the(state, "alice"), "laptop", "another"))
    assert error_of(state, create) is ErrorCode.TOKEN_EXISTS


def test_tokens_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TOKENS_PER_USER", 2)
    monkeypatch.setattr(limits, "MAX_TOKENS", 3)
    state = with_users("alice", "bob")
    for name in ("one", "two"):
        accepted(state, create_token(the(state, "alice"), name, expires_us=5_000))
    assert error_of(state, create_token(the(state, "alice"), "three")) is ErrorCode.LIMIT_REACHED
    accepted(state, create_token(the(state, "bob"), "three"))
    assert error_of(state, create_token(the(state, "bob"), "four")) is ErrorCode.LIMIT_REACHED


def test_expired_tokens_go_when_their_user_gets_or_loses_another() -> None:
    state = with_users("alice")
    for name in ("one", "two", "three"):
        accepted(state, create_token(the(state, "alice"), name, expires_us=5_000))
    accepted(state, create_token(the(state, "alice"), "for ever"))
    accepted(state, create_token(the(state, "alice"), "one", "another", now_ms=5))
    assert [token.name for token in the(state, "alice").tokens] == ["for ever", "one"]
    assert state.users.owners.keys() == {digest("for ever"), digest("another")}
    accepted(state, create_token(the(state, "alice"), "short", expires_us=6_000, now_ms=5))
    accepted(state, delete_token(the(state, "alice"), "one", now_ms=6))
    assert [token.name for token in the(state, "alice").tokens] == ["for ever"]


def test_a_deleted_users_tokens_go_with_it() -> None:
    state = with_users("alice", "bob")
    accepted(state, create_token(the(state, "alice"), "laptop", "one"))
    accepted(state, delete_user(the(state, "alice")))
    assert not state.users.owners
    accepted(state, create_token(the(state, "bob"), "laptop", "one"))
