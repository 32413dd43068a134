"""A state that is too large to be written down at one stroke: brokers are brought it a piece at each tick."""

from pathlib import Path

import pytest

from tank_controller import limits
from tank_controller.commands import machine
from tank_controller.leader.brokers import deltas
from tank_controller.state.codec import topic_message
from tank_node.cluster.registration import Registration
from tank_node.cluster.stream import ControllerStream
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import create
from tests.controller.office import TICK_MS, Broker, Office

PARTITIONS = 12


@pytest.fixture
def first(tmp_path: Path) -> Broker:
    """One that follows, and proposes."""
    office = Office(tmp_path)
    office.until(lambda: office.brokers.leads and office.state.peer_key)
    return office.broker(1)


@pytest.fixture
def large(first: Broker, monkeypatch: pytest.MonkeyPatch) -> Office:
    """Three topics, of which a tick brings three partitions."""
    office = first.office
    for number, name in enumerate(("a", "b", "c")):
        first.propose(create(name, PARTITIONS), number)
        first.outcome(number)
    monkeypatch.setattr(limits, "VIEW_PART", 3)
    monkeypatch.setattr(limits, "SNAPSHOT_PART", 1)
    return office


def heard(office: Office, broker: Broker) -> ControllerStream:
    """A broker's session that was sent all this."""
    registration = Registration(b"i" * 16, bytes([broker.broker_id]) * 16, True, "h", broker.broker_id)
    session = ControllerStream("", broker.broker_id, ["x:1"], registration, office.clock, lambda below: 0)
    end = _Nowhere()
    session.opened(end)
    for message in broker.line.sent:
        session.received(end, message)
    return session


class _Nowhere:
    """Of what the session says."""

    def send(self, message: pb.BrokerUp) -> None: ...
    def end(self) -> None: ...


def registered(office: Office, broker_id: int) -> Broker:
    """It is taken; its view is on the way."""
    broker = office.stream(broker_id)
    office.until(lambda: broker.line.all("registered"))
    return broker


def is_whole(broker: Broker) -> bool:
    return any(not message.view.more for message in broker.line.all("view"))


def topics_of(office: Office) -> dict[str, pb.Topic]:
    return {topic.name: topic_message(topic) for topic in office.state.topics.values()}


def assert_all_is_seen(office: Office, broker: Broker) -> None:
    view = heard(office, broker).view
    assert view.index == office.state.index
    assert sorted(view.brokers) == sorted(office.state.brokers)
    expected = topics_of(office)
    assert sorted(topic.name for topic in view.topics()) == sorted(expected)
    for topic in view.topics():
        leaders = [(p.leader, p.leader_epoch, p.partition_epoch) for p in topic.partitions]
        wanted = [(p.leader, p.leader_epoch, p.partition_epoch) for p in expected[topic.name].partitions]
        assert leaders == wanted


def test_between_the_pieces_time_passes_and_what_changes_meanwhile_comes_behind_them(
    large: Office, first: Broker
) -> None:
    second = registered(large, 2)
    began = large.clock.monotonic_ms()
    assert not is_whole(second)
    first.propose(create("d", 2), 7)
    first.outcome(7)
    gone = next(topic for topic in large.state.topics.values() if topic.name == "a")
    first.propose(pb.Command(delete_topic=pb.DeleteTopic(topic_id=gone.topic_id)), 8)
    first.outcome(8)
    failed = next(topic for topic in large.state.topics.values() if topic.name == "c")
    report = pb.ReportFailed(
        broker_id=1,
        broker_epoch=large.state.brokers[1].epoch,
        partitions=[pb.PartitionRef(topic_id=failed.topic_id, partition=n) for n in range(PARTITIONS)],
    )
    first.propose(pb.Command(report_failed=report), 9)
    first.outcome(9)
    assert not is_whole(second), "all this happened between two pieces"
    large.until(lambda: is_whole(second))
    assert large.clock.monotonic_ms() - began >= 3 * PARTITIONS // 3 * TICK_MS
    assert_all_is_seen(large, second)


def test_a_heartbeat_meanwhile_is_answered_and_says_nothing_of_what_is_yet_to_come(large: Office) -> None:
    second = registered(large, 2)
    for _ in range(4):
        second.beat()
        large.pass_ms(TICK_MS)
        assert heard(large, second).view.index == 0
    assert len(second.line.all("view")) >= 4
    large.until(lambda: is_whole(second))
    assert_all_is_seen(large, second)
    second.beat()
    large.until(lambda: not large.state.brokers[2].fenced)


def test_parts_are_of_whole_topics(large: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [part.ByteSize() for part in topics_of(large).values()]
    monkeypatch.setattr(machine, "WHOLE_PART_BYTES", min(sizes))
    second = registered(large, 2)
    large.until(lambda: is_whole(second))
    parts = [message.view for message in second.line.all("view") if message.view.whole]
    assert [[topic.name for topic in part.delta.topics] for part in parts] == [["a"], ["b"], ["c"], []]
    assert [part.more for part in parts] == [True, True, True, False]
    assert_all_is_seen(large, second)


def test_who_comes_in_the_middle_is_served_next_and_who_has_gone_holds_nobody_up(large: Office) -> None:
    second = registered(large, 2)
    third, fourth = registered(large, 3), registered(large, 4)
    large.brokers.closed(third.stream)
    large.until(lambda: is_whole(second))
    assert not is_whole(fourth)
    large.until(lambda: is_whole(fourth))
    assert not is_whole(third)
    assert_all_is_seen(large, second)
    assert_all_is_seen(large, fourth)
    fifth = registered(large, 5)
    large.brokers.closed(fifth.stream)
    sixth = registered(large, 6)
    began = large.clock.monotonic_ms()
    large.until(lambda: is_whole(sixth))
    pieces = len(topics_of(large)) * PARTITIONS // 3
    assert large.clock.monotonic_ms() - began < 1.5 * pieces * TICK_MS, "it need not wait for the other's"
    assert large.state.images == [], "nothing is kept for one that has gone"


def test_a_broker_that_much_came_for_meanwhile_comes_again(
    large: Office, first: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas, "HISTORY_DELTAS", 1)
    second = registered(large, 2)
    for number in range(3):
        first.propose(create(f"more{number}"), number)
        first.outcome(number)
    large.until(lambda: second.line.ended)
    again = registered(large, 2)
    large.until(lambda: is_whole(again))
    assert_all_is_seen(large, again)


def test_a_leader_that_falls_brings_nothing_more(large: Office) -> None:
    second = registered(large, 2)
    raft = large.driven.driver.raft
    raft.become_follower(raft.term + 1, None)
    large.brokers.tick()
    sent = len(second.line.sent)
    large.brokers.tick()
    assert second.line.ended
    assert len(second.line.sent) == sent
    assert large.state.images == []
