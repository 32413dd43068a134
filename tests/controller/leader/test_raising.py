"""Feature levels as brokers, other controllers and people meet them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tank_controller.leader.raising import Raising
from tank_controller.node import NodeHost
from tank_controller.raft.messages import HeartbeatAnswer, NodeId, RaftMessage
from tank_controller.raft.progress import MemberProgress
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node.member import RaftMember
from tank_controller.rpc.admin import AdminService
from tank_controller.rpc.brokers import ControllersService
from tank_controller.security.trust import NO_TRUST
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import create, delete
from tests.controller.office import Office
from tests.support.controllers.driven import Driven, Nowhere
from tests.support.processes import next_level

OLD, NEW = Levels(1, 1), Levels(1, 2)


@pytest.fixture(autouse=True)
def _the_next_level_is_known() -> Iterator[None]:
    with next_level.known():
        yield


@pytest.fixture
def office(tmp_path: Path) -> Office:
    office = Office(tmp_path, Raising(max_level=2))
    office.until(lambda: office.brokers.leads and office.state.peer_key)
    return office


def test_a_cluster_of_one_version_is_at_its_level_before_the_first_broker(office: Office) -> None:
    office.until(lambda: office.state.feature_level == 2)
    broker = office.broker(1, levels=NEW)
    (whole,) = [each.view for each in broker.line.all("view") if each.view.whole]
    assert whole.delta.feature_level == 2


def test_the_last_old_broker_that_is_replaced_brings_the_next_level_to_all(tmp_path: Path) -> None:
    held: list[int] = [3]
    office = Office(tmp_path, Raising(lambda level: held, max_level=2))
    office.until(lambda: office.brokers.leads and office.state.peer_key)
    first = office.broker(1, levels=NEW)
    old = office.stream(2, levels=OLD)
    office.until(lambda: old.line.all("registered"))
    held.clear()
    office.pass_ms(3000)
    assert office.state.feature_level == 1, "an old one is there"
    office.brokers.closed(old.stream)
    new = office.stream(2, incarnation=b"j" * 16, levels=NEW)
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
    office = Office(tmp_path, Raising(lambda level: [2], max_level=2))
    office.until(lambda: office.brokers.leads and office.state.peer_key)
    index = office.state.index
    new = office.stream(1, levels=Levels(2, 3))
    assert [each.refused.passing for each in new.line.all("refused")] == [False]
    office.pass_ms(1000)
    assert office.state.index == index


def test_a_topic_of_a_user_in_the_way_is_told_to_the_log_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held: list[int] = [3]
    office = Office(tmp_path, Raising(lambda level: held, max_level=2))
    office.until(lambda: office.brokers.leads and office.state.peer_key)
    broker = office.broker(1, levels=NEW)
    broker.propose(create("__consumer_offsets"))
    assert broker.outcome().error == ErrorCode.NONE
    held.clear()
    office.pass_ms(3000)
    assert office.state.feature_level == 1
    (told,) = [each.message for each in caplog.records if "is not raised" in each.message]
    assert "level 2 is not raised: brokers need the name __consumer_offsets" in told
    broker.propose(delete(office.state.topic_ids["__consumer_offsets"]), 2)
    office.until(lambda: office.state.feature_level == 2)


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
    member = RaftMember(driven.driver, {1: "one:1", 2: "two:2"})
    assert member.behind(2) == [], "it knows for itself"
    member.join(two)
    driven.run_until(lambda: two in driven.driver.raft.configuration.learners)
    raft = driven.driver.raft
    assert raft.role is RaftRole.LEADER
    assert isinstance(raft.progress[two], MemberProgress)
    assert member.behind(2) == [2], "a learner counts, too"
    for level, behind in ((1, [2]), (2, []), (3, []), (0, [2])):
        raft.step(RaftMessage("cluster", two, raft.own, raft.term, HeartbeatAnswer(0, level)))
        assert member.behind(2) == behind
    raft.step(RaftMessage("cluster", two, raft.own, raft.term, HeartbeatAnswer(0, 2)))
    raft.broken(two)
    assert member.behind(2) == [2], "the next process may be another version"


def host_of(feature_level: int) -> tuple[Any, list[NodeId]]:
    joined: list[NodeId] = []

    def join(node: NodeId) -> pb.JoinAnswer:
        joined.append(node)
        return pb.JoinAnswer()

    node = SimpleNamespace(
        member=SimpleNamespace(raft=SimpleNamespace(cluster_id="c"), join=join),
        metadata=SimpleNamespace(state=SimpleNamespace(feature_level=feature_level)),
        brokers=SimpleNamespace(leads=True, tasks=None),
    )
    return SimpleNamespace(node=node), joined


@pytest.mark.parametrize(
    ("in_force", "highest", "taken"), [(1, 1, True), (1, 0, False), (2, 2, True), (2, 1, False)]
)
def test_an_empty_controller_is_added_when_it_knows_the_level(
    in_force: int, highest: int, taken: bool
) -> None:
    there, joined = host_of(in_force)
    request = pb.JoinRequest(
        node=pb.RaftNode(ordinal=3, disk=b"d"), cluster_id="c", min_level=1, max_level=highest
    )
    context: Any = None
    answer = asyncio.run(ControllersService(there, NO_TRUST).Join(request, context))
    assert bool(joined) == taken
    assert (answer.kind == pb.JoinAnswer.REFUSED) == (not taken)
    assert taken or "start a version at least as new" in answer.message


def test_people_do_not_raise_it() -> None:
    there, _ = host_of(1)
    command = pb.Command(raise_level=pb.RaiseLevel(level=2, seen_index=9))
    answer = asyncio.run(AdminService(cast(NodeHost, there)).Change(command))
    assert answer.outcome.error == ErrorCode.INVALID_REQUEST
    assert "by themselves" in answer.outcome.message
