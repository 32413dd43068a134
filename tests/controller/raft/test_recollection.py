"""What a controller does that starts and asks the others what it may have promised."""

import pytest

from tank_controller.raft.core import Raft
from tank_controller.raft.messages import (
    Configuration,
    EndAnswer,
    EndRequest,
    EntryKind,
    HardState,
    Heartbeat,
    LogEntry,
    NodeId,
    RaftMessage,
)
from tank_controller.raft.recollection import may_vote
from tank_controller.raft.settings import Settings

ONE, TWO, THREE = NodeId(1, b"1"), NodeId(2, b"2"), NodeId(3, b"3")
MEMBERS = Configuration((ONE, TWO, THREE))
SETTINGS = Settings()


@pytest.fixture
def raft() -> Raft:
    """Of controller 1, which has started on a disk with one entry of term 1."""
    founding = LogEntry(1, 1, EntryKind.CONFIGURATION, MEMBERS.encode())
    return Raft(ONE, "c", HardState(1, None, 1), None, [founding], lambda most: 0, SETTINGS, recollects=True)


def hear(raft: Raft, sender: NodeId, body: Heartbeat | EndAnswer) -> None:
    raft.step(RaftMessage("c", sender, ONE, 1, body))


def pass_elections(raft: Raft, count: int) -> None:
    for _ in range(count * 2 * SETTINGS.election_ticks):
        raft.tick()


def test_it_votes_for_no_log_before_the_others_have_answered(raft: Raft) -> None:
    assert not may_vote(raft, (9, 9))
    nonce = next(m.body.nonce for m in raft.outbox if isinstance(m.body, EndRequest))
    hear(raft, TWO, EndAnswer(nonce, 1, 1))
    assert not may_vote(raft, (9, 9))
    hear(raft, THREE, EndAnswer(nonce, 1, 1))
    assert may_vote(raft, (1, 1))


def test_one_that_waits_for_entries_which_never_come_forgets_a_leader_that_is_silent(raft: Raft) -> None:
    """As one that was removed while it was away: another one's log is longer, and no leader sends it."""
    nonce = next(m.body.nonce for m in raft.outbox if isinstance(m.body, EndRequest))
    hear(raft, TWO, Heartbeat(1, 1))
    led_by: list[NodeId | None] = [raft.leader]
    for _ in range(3):
        hear(raft, THREE, EndAnswer(nonce, 5, 1))
        pass_elections(raft, 2)
    led_by.append(raft.leader)
    hear(raft, TWO, Heartbeat(1, 2))
    led_by.append(raft.leader)
    assert led_by == [TWO, None, TWO], "one that speaks again leads"
