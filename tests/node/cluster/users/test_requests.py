"""What a broker asks of the controllers about users."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tank_node.cluster.iggy.parts import IggyTopicView
from tank_node.cluster.pending import PendingRequests
from tank_node.cluster.requests import ControllerRequests
from tank_node.cluster.users.link import NewUser, UserDone, UserOutcome, UserRequests
from tank_node.cluster.view import ClusterView, TopicView
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import TopicSettings
from tank_protos.users.permissions import (
    GlobalRight,
    Permissions,
    StreamPermissions,
    StreamRight,
    TopicPermissions,
    TopicRight,
)
from tests.node.users.users_for_tests import user
from tests.support.controllers.instant_controller import InstantController
from tests.support.controllers.shown_topics import show
from tests.support.manual_clock import ManualClock

ALICE = user(3, "alice")
REF = pb.UserRef(number=3, born=13)
READER = Permissions(GlobalRight.READ_STREAMS)
Asking = Callable[[UserRequests, UserDone], None]

ASKED: list[tuple[Asking, pb.Command]] = [
    (
        lambda to, done: to.found_root("iggy", "hash", done),
        pb.Command(create_user=pb.CreateUser(name="iggy", password_hash="hash", root=True)),
    ),
    (
        lambda to, done: to.create_user(NewUser("bob", "hash", False, READER), done),
        pb.Command(
            create_user=pb.CreateUser(
                name="bob", password_hash="hash", inactive=True, permissions=READER.encode()
            )
        ),
    ),
    (
        lambda to, done: to.delete_user(ALICE, done),
        pb.Command(delete_user=pb.DeleteUser(user=REF)),
    ),
    (
        lambda to, done: to.update_user(ALICE, "alicia", None, done),
        pb.Command(update_user=pb.UpdateUser(user=REF, name="alicia")),
    ),
    (
        lambda to, done: to.update_user(ALICE, None, True, done),
        pb.Command(update_user=pb.UpdateUser(user=REF, inactive=False)),
    ),
    (
        lambda to, done: to.change_password(ALICE, "hash", done),
        pb.Command(change_password=pb.ChangePassword(user=REF, password_hash="hash", credentials_index=13)),
    ),
    (
        lambda to, done: to.update_permissions(ALICE, None, done),
        pb.Command(update_permissions=pb.UpdatePermissions(user=REF)),
    ),
    (
        lambda to, done: to.update_permissions(ALICE, READER, done),
        pb.Command(update_permissions=pb.UpdatePermissions(user=REF, permissions=READER.encode())),
    ),
    (
        lambda to, done: to.create_token(ALICE, "laptop", b"d" * 32, 9, done),
        pb.Command(create_token=pb.CreateToken(user=REF, name="laptop", digest=b"d" * 32, expires_us=9)),
    ),
    (
        lambda to, done: to.delete_token(ALICE, "laptop", done),
        pb.Command(delete_token=pb.DeleteToken(user=REF, name="laptop")),
    ),
]


class Broker:
    """A broker's requests, and what goes to the controllers."""

    def __init__(self, level: int = feature_levels.IGGY) -> None:
        self.pending = PendingRequests(
            view := ClusterView("c", 1, feature_level=level), ManualClock(), lambda: 0
        )
        self.sent: list[pb.BrokerUp] = []
        self.pending.line_taken(self.sent.append)
        self.view = view
        self.requests = ControllerRequests(view, self.pending).users
        self.told: list[UserOutcome] = []

    def answer(self, **said: object) -> UserOutcome:
        request_id = self.sent.pop(0).proposal.request_id
        self.pending.on_outcome(pb.ProposalOutcome(request_id=request_id, **said))  # type: ignore[arg-type]
        return self.told.pop()


@pytest.mark.parametrize(("ask", "command"), ASKED)
def test_each_request_is_a_command(ask: Asking, command: pb.Command) -> None:
    broker = Broker()
    ask(broker.requests, broker.told.append)
    (sent,) = broker.sent
    command.now_ms = sent.proposal.command.now_ms
    assert sent.proposal.command == command
    assert broker.answer(number=4) == UserOutcome(ErrorCode.NONE, "", 4)


@pytest.mark.parametrize(("ask", "command"), ASKED)
def test_below_the_level_of_iggy_nothing_is_sent(ask: Asking, command: pb.Command) -> None:
    broker = Broker(feature_levels.NATIVE_GROUPS)
    ask(broker.requests, broker.told.append)
    assert not broker.sent
    (told,) = broker.told
    assert told.error is ErrorCode.LEVEL_TOO_LOW
    assert "level 5" in told.message


def test_the_outcome_comes_when_the_view_has_the_change() -> None:
    broker = Broker()
    broker.requests.delete_user(ALICE, broker.told.append)
    request_id = broker.sent.pop().proposal.request_id
    broker.pending.on_outcome(pb.ProposalOutcome(request_id=request_id, index=30))
    assert not broker.told, "the view is at an earlier entry"
    broker.view.index = 30
    broker.pending.view_moved()
    assert broker.told == [UserOutcome(ErrorCode.NONE)]


def test_permissions_name_what_this_broker_sees() -> None:
    broker = Broker()
    part = IggyTopicView(2, 1, "t", born=19)
    show(broker.view, TopicView(7, "main.t", 1, TopicSettings(), {}, [], part))
    broker.view.iggy.apply(pb.Delta(streams=[pb.IggyStream(number=2, name="main", born=17)]))
    right = TopicPermissions(1, TopicRight.READ_TOPIC)
    nothing = TopicPermissions(3, TopicRight.READ_TOPIC)
    in_both = [StreamPermissions(number, StreamRight(0), (right, nothing)) for number in (2, 4)]
    given = Permissions(GlobalRight(0), tuple(in_both))
    broker.requests.update_permissions(ALICE, given, broker.told.append)
    broker.requests.create_user(NewUser("bob", "hash", permissions=given), broker.told.append)
    update, create = (each.proposal.command for each in broker.sent)
    assert list(update.update_permissions.births) == [17, 19, 0, 0, 0, 0]
    assert create.create_user.births == update.update_permissions.births


def test_a_token_names_the_last_deletion_that_this_broker_sees() -> None:
    broker = Broker()
    seen = replace(ALICE, token_deleted_index=21)
    broker.requests.create_token(seen, "laptop", b"d" * 32, 9, broker.told.append)
    assert broker.sent[0].proposal.command.create_token.token_deleted_index == 21


def test_a_refusal_is_passed_on() -> None:
    broker = Broker()
    broker.requests.delete_user(ALICE, broker.told.append)
    refused = broker.answer(error=ErrorCode.ROOT_USER, message="why")
    assert refused == UserOutcome(ErrorCode.ROOT_USER, "why")
    broker.requests.delete_user(ALICE, broker.told.append)
    assert broker.answer(error=0x7FFF).error is ErrorCode.INVALID_REQUEST, "of a newer version"


def test_names_that_are_no_text_are_refused_here() -> None:
    broker = Broker()
    broker.requests.create_user(NewUser("b\udcff", "hash"), broker.told.append)
    broker.requests.update_user(ALICE, "b\udcff", None, broker.told.append)
    broker.requests.create_token(ALICE, "b\udcff", b"d" * 32, 0, broker.told.append)
    broker.requests.delete_token(ALICE, "b\udcff", broker.told.append)
    assert not broker.sent
    assert [each.error for each in broker.told] == [*[ErrorCode.INVALID_NAME] * 3, ErrorCode.UNKNOWN_TOKEN]


def test_the_view_has_the_change_when_the_outcome_comes() -> None:
    controller = InstantController()
    controller.view.feature_level = feature_levels.IGGY
    told: list[UserOutcome] = []
    encoded = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$" + "A" * 43
    controller.requests.users.found_root("iggy", encoded, told.append)
    controller.requests.users.create_user(NewUser("alice", encoded), told.append)
    assert [(each.error, each.number) for each in told] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]
    assert [each.name for each in controller.view.users.all()] == ["iggy", "alice"]
