"""Requests about groups that come late, after their clients went on by way of another broker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeletePositionsRequest,
    DeletePositionsResponse,
    GroupHeartbeatResponse,
    PositionsOfTopic,
    PositionToCommit,
)
from tank_protos.wire.names import GROUPS_TOPIC
from tests.node.peers.group_cell import (
    MEMBER_ID,
    TOPIC,
    answered,
    ask,
    beat,
    cell_of,
    commit,
    commit_of,
    fetched,
    joins,
    line,
    numbers,
)
from tests.support.nodes.broker_cell import BrokerCell


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    """Three brokers; broker 1 coordinates all groups."""
    cell = cell_of(tmp_path)
    yield cell
    cell.close()


def test_a_commit_that_comes_after_its_group_went_on_is_refused(cell: BrokerCell) -> None:
    slow, quick = cell.nodes[2].client(), cell.nodes[3].client()
    commit(cell, slow, 5)
    commit(cell, quick, 6)
    commit(cell, slow, 7)  # its broker has heard of the other one's
    slow.send(commit_of(8))
    far = line(cell, 2, 1)
    assert far.other is not None
    far.other.send()
    held = bytes(far.received)
    assert held
    far.received.clear()
    commit(cell, quick, 9)
    far.received += held
    told = answered(cell, slow, CommitPositionsResponse)
    assert told.error == ErrorCode.TIMED_OUT
    assert numbers(fetched(cell, quick)) == {(TOPIC, 0): 9}
    assert cell.nodes[1].metrics.refused["late_position"] == 1
    commit(cell, slow, 10)
    assert numbers(fetched(cell, quick)) == {(TOPIC, 0): 10}


@pytest.mark.parametrize("epoch", [0, 1, -1], ids=["it joins", "it has nothing yet", "it leaves"])
def test_a_heartbeat_that_comes_after_its_member_went_on_is_refused(cell: BrokerCell, epoch: int) -> None:
    """Else the member would have given up, without a word to it, what it reads."""
    slow, quick = cell.nodes[2].client(), cell.nodes[3].client()
    commit(cell, slow, 5, "another")
    slow.send(beat(epoch, []))
    far = line(cell, 2, 1)
    assert far.other is not None
    far.other.send()
    held = bytes(far.received)
    assert held
    far.received.clear()
    told = ask(cell, quick, joins(), GroupHeartbeatResponse)
    assert (told.member_epoch, [each.partitions for each in told.assignment]) == (1, [[0, 1, 2, 3]])
    far.received += held
    assert answered(cell, slow, GroupHeartbeatResponse).error == ErrorCode.TIMED_OUT
    assert cell.nodes[1].metrics.refused["late_heartbeat"] == 1
    told = ask(cell, quick, beat(1, [0, 1, 2, 3]), GroupHeartbeatResponse)
    assert (told.error, told.member_epoch) == (0, 1)
    told = ask(cell, slow, beat(1, [0, 1, 2, 3]), GroupHeartbeatResponse)
    assert (told.error, told.member_epoch) == (0, 1), "its broker has heard of it now"


@pytest.mark.parametrize("what", ["a commit", "a deletion of the group", "a deletion of positions"])
def test_a_refused_request_keeps_no_other_broker_from_committing(cell: BrokerCell, what: str) -> None:
    member, other = cell.nodes[2].client(), cell.nodes[3].client()
    joined = ask(cell, member, joins(), GroupHeartbeatResponse)
    assert joined.member_epoch > 0
    committing = CommitPositionsRequest(
        1,
        9,
        "g",
        member_id=MEMBER_ID,
        member_epoch=joined.member_epoch,
        positions=[PositionToCommit(TOPIC, 0, 5)],
    )
    assert ask(cell, member, committing, CommitPositionsResponse).error == 0
    if what == "a commit":
        refused = ask(cell, other, commit_of(9), CommitPositionsResponse).error
        assert refused == ErrorCode.UNKNOWN_MEMBER
    elif what == "a deletion of the group":
        [told] = ask(cell, other, DeleteGroupsRequest(0, 3, ["g"]), DeleteGroupsResponse).results
        assert told.error == ErrorCode.GROUP_NOT_EMPTY
    else:
        topics = [PositionsOfTopic(TOPIC, [0])]
        asked = DeletePositionsRequest(0, 3, "g", topics)
        [found] = ask(cell, other, asked, DeletePositionsResponse).results
        assert found.error == ErrorCode.SUBSCRIBED
    member.send(committing)
    assert answered(cell, member, CommitPositionsResponse).error == 0


def test_a_commit_from_before_the_coordinator_is_refused(cell: BrokerCell) -> None:
    """The request was meant for this broker, and lay in the network until others had coordinated."""
    slow, quick = cell.nodes[2].client(), cell.nodes[3].client()
    commit(cell, slow, 5)
    slow.send(commit_of(8))
    far = line(cell, 2, 1)
    assert far.other is not None
    far.other.send()
    held = bytes(far.received)
    far.received.clear()
    cell.change(0, GROUPS_TOPIC, leader=3)
    cell.run(300)
    commit(cell, quick, 9)
    cell.change(0, GROUPS_TOPIC, leader=1)
    cell.run(300)
    assert numbers(fetched(cell, quick)) == {(TOPIC, 0): 9}
    slow.answers()
    far.received += held
    cell.run(300)
    assert numbers(fetched(cell, quick)) == {(TOPIC, 0): 9}
