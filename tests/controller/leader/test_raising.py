"""Feature levels as brokers, other controllers and people meet them."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tank_controller.leader.raising import Raising
from tank_controller.raft.messages import HeartbeatAnswer, Message, NodeId
from tank_controller.raft.progress import Progress
from tank_controller.raft.state import Role
from tank_controller.raft_node.member import Member
from tank_controller.rpc.admin import AdminService
from tank_controller.rpc.brokers import ControllersService, House
from tank_controller.security.trust import NO_TRUST
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb
from tests.controller.office import Office
from tests.controller.raft.test_driver import Driven, Nowhere

OLD = Levels(1, 1)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    office = Office(tmp_path, Raising())
    office.until(lambda: office.desk.leads and office.state.peer_key)
    return office


def test_a_cluster_of_one_version_is_at_its_level_before_the_first_broker(office: Office) -> None:
    office.until(lambda: office.state.feature_level == 2)
    broker = office.broker(1)
    (whole,) = [each.view for each in broker.line.all("view") if each.view.whole]
    assert whole.delta.feature_level == 2


def test_the_last_old_broker_that_is_replaced_brings_the_next_level_to_all(tmp_path: Path) -> None:
    held: list[int] = [3]
    office = Office(tmp_path, Raising(lambda level: held))
    office.until(lambda: office.desk.leads and office.state.peer_key)
    first = office.broker(1)
    old = office.stream(2, levels=OLD)
    office.until(lambda: old.line.all("registered"))
    held.clear()
    office.pass_ms(3000)
    assert office.state.feature_level == 1, "an old one is there"
    office.desk.closed(old.stream)
    new = office.stream(2, incarnation=b"j" * 16)
    office.until(lambda: office.state.feature_level == 2)
    office.until(lambda: new.line.all("registered"))
    told = [each.view.delta.feature_level for each in first.line.all("view") if not each.view.whole]
    assert told.count(2) == 1


def test_a_broker_that_is_set_back_is_refused_for_good(office: Office) -> None:
    office.until(lambda: office.state.feature_level == 2)
    old = office.stream(1, levels=OLD)
    office.until(lambda: old.line.all("refused"))
    (refused,) = [each.refused for each in old.line.all("refused")]
    assert "start a version at least as new" in refused.message
    assert not refused.passing
    assert 1 not in office.state.brokers


def test_a_broker_that_is_too_new_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    office = Office(tmp_path, Raising(lambda level: [2]))
    office.until(lambda: office.desk.leads and office.state.peer_key)
    index = office.state.index
    new = office.stream(1, levels=Levels(2, 3))
    assert [each.refused.passing for each in new.line.all("refused")] == [False]
    office.pass_ms(1000)
    assert office.state.index == index


# --- controllers ---


@pytest.fixture
def driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driven:
    monkeypatch.setattr(Nowhere, "send", lambda self, messages: None)
    driven = Driven(tmp_path).lead()
    driven.run_until(lambda: driven.driver.ready)
    return driven


def test_controllers_are_behind_until_they_answer_a_heartbeat_and_again_when_their_stream_breaks(
    driven: Driven,
) -> None:
    two = NodeId(2, b"its disk")
    member = Member(driven.driver, {1: "one:1", 2: "two:2"})
    assert member.behind(2) == [], "it knows for itself"
    member.join(two)
    driven.run_until(lambda: two in driven.driver.raft.configuration.learners)
    raft = driven.driver.raft
    assert raft.role is Role.LEADER
    assert isinstance(raft.progress[two], Progress)
    assert member.behind(2) == [2], "a learner counts, too"
    for level, behind in ((1, [2]), (2, []), (3, []), (0, [2])):
        raft.step(Message("cluster", two, raft.own, raft.term, HeartbeatAnswer(0, level)))
        assert member.behind(2) == behind
    raft.step(Message("cluster", two, raft.own, raft.term, HeartbeatAnswer(0, 2)))
    raft.broken(two)
    assert member.behind(2) == [2], "the next process may be another version"


def house(feature_level: int) -> tuple[Any, list[NodeId]]:
    joined: list[NodeId] = []

    def join(node: NodeId) -> pb.JoinAnswer:
        joined.append(node)
        return pb.JoinAnswer()

    rooms = SimpleNamespace(
        member=SimpleNamespace(raft=SimpleNamespace(cluster_id="c"), join=join),
        metadata=SimpleNamespace(state=SimpleNamespace(feature_level=feature_level)),
        desk=SimpleNamespace(leads=True, duties=None),
    )
    return SimpleNamespace(rooms=rooms), joined


@pytest.mark.parametrize(
    ("in_force", "highest", "taken"), [(1, 0, True), (2, 2, True), (2, 0, False), (2, 1, False)]
)
def test_an_empty_controller_is_added_when_it_knows_the_level(
    in_force: int, highest: int, taken: bool
) -> None:
    there, joined = house(in_force)
    request = pb.JoinRequest(node=pb.RaftNode(ordinal=3, disk=b"d"), cluster_id="c", max_level=highest)
    context: Any = None
    answer = asyncio.run(ControllersService(there, NO_TRUST).Join(request, context))
    assert bool(joined) == taken
    assert (answer.kind == pb.JoinAnswer.REFUSED) == (not taken)
    assert taken or "start a version at least as new" in answer.message


def test_people_do_not_raise_it() -> None:
    there, _ = house(1)
    command = pb.Command(raise_level=pb.RaiseLevel(level=2, seen_index=9))
    answer = asyncio.run(AdminService(cast(House, there)).Change(command))
    assert answer.outcome.error == ErrorCode.INVALID_REQUEST
    assert "by themselves" in answer.outcome.message
