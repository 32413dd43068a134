"""Brokers that come while nobody leads: they wait, and hear at once who does."""

from pathlib import Path

import pytest

from tank_controller.leader.brokers.waiting_streams import LATE_TICKS, WAIT_TICKS
from tank_controller.raft.messages import Configuration, EntryKind, LogEntry, NodeId
from tests.controller.office import Office


@pytest.fixture
def office(tmp_path: Path) -> Office:
    office = Office(tmp_path)
    office.until(lambda: office.brokers.leads and office.state.peer_key)
    return office


def test_while_nobody_leads_a_broker_waits_and_is_told_at_once_who_does(office: Office) -> None:
    raft = office.driven.driver.raft
    raft.become_follower(raft.term + 1, None)
    waiting, gone = office.stream(1), office.stream(2)
    waiting.beat()
    office.brokers.tick()
    assert waiting.line.sent == [], "an election is under way"
    office.brokers.closed(gone.stream)
    raft.become_follower(raft.term, NodeId(2, b"another"))
    office.brokers.tick()
    assert [m.WhichOneof("message") for m in waiting.line.sent] == ["not_leader"]
    assert waiting.line.ended
    assert gone.line.sent == []


def test_a_broker_that_waits_is_taken_by_the_one_that_is_elected(office: Office) -> None:
    raft = office.driven.driver.raft
    raft.become_follower(raft.term + 1, None)
    waiting = office.stream(1)
    raft.campaign_alone()
    office.driven.driver.tick()

    def taken() -> bool:
        office.brokers.tick()
        return any(message.HasField("registered") for message in waiting.line.sent)

    office.until(taken)
    assert office.brokers.streams[1] is waiting.stream


def test_where_nobody_is_elected_for_too_long_a_broker_is_told_to_go(office: Office) -> None:
    raft = office.driven.driver.raft
    raft.become_follower(raft.term + 1, None)
    early = office.stream(1)
    office.brokers.tick()
    late = office.stream(2)
    for _ in range(WAIT_TICKS - 1):
        office.brokers.tick()
    assert early.line.sent == []
    office.brokers.tick()
    assert [m.WhichOneof("message") for m in early.line.sent] == ["not_leader"]
    assert early.line.ended
    assert late.line.sent == [], "it came later"
    office.brokers.tick()
    assert late.line.ended


def test_a_broker_that_comes_while_the_leader_is_late_is_not_sent_to_it(office: Office) -> None:
    raft = office.driven.driver.raft
    raft.become_follower(raft.term + 1, NodeId(2, b"another"))
    raft.election_elapsed = LATE_TICKS - 1
    sent_on = office.stream(1)
    raft.election_elapsed = LATE_TICKS
    waiting = office.stream(2)
    office.brokers.tick()
    assert [m.WhichOneof("message") for m in sent_on.line.sent] == ["not_leader"]
    assert waiting.line.sent == []
    raft.election_elapsed = 0
    office.brokers.tick()
    assert waiting.line.ended, "the leader is heard again, and named"


def test_a_controller_that_was_taken_away_lets_nobody_wait(office: Office) -> None:
    raft = office.driven.driver.raft
    raft.become_follower(raft.term + 1, None)
    before = office.stream(1)
    without = Configuration((NodeId(2, b"another"),)).encode()
    raft.log.append([LogEntry(raft.log.last_index + 1, raft.term, EntryKind.CONFIGURATION, without)])
    after = office.stream(2)
    assert [m.WhichOneof("message") for m in after.line.sent] == ["not_leader"]
    assert after.line.ended
    office.brokers.tick()
    assert before.line.ended
