"""What a replica that comes back after a lossy election keeps: no more than the leader that it chose."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.segment.errors import DiskFailed
from tank_node.segment.record import RECORD_BYTES
from tank_node.segment.segments import Segments
from tank_protos.error_codes import PushError
from tank_protos.storage.stretch import Stretch
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.leader_line import (
    all_of,
    following,
    leader_log,
    opened,
    place,
    push_of,
    the_answer,
)
from tests.support.nodes.replicas import assert_copies
from tests.support.storage.logs import Folder, append, append_sparse, read_all


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with following(tmp_path / "data") as node:
        yield node


def empty_behind(end: int, *, previous_epoch: int = 5, mark: int = 0) -> tuple[int, Stretch]:
    """What a leader in epoch 6 asks that has written nothing yet, and whose log ends there."""
    return end + 1, Stretch(10, 6, previous_epoch, mark, 1, b"", b"")


def test_after_a_lossy_election_what_was_committed_may_go(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    line.send(push_of(1, all_of(theirs, mark=3)))
    others = Folder()
    append(others.log(), b"what is left", epoch=6)
    place(node, "a", 10, leader_epoch=6, lossy_epoch=6)
    told = the_answer(line.send(push_of(2, all_of(others, epoch=6))))
    assert (told.error, told.matched) == (PushError.NONE, 1)
    partition = node.broker.topics["a"].partitions[0]
    assert_copies(others.log(), partition.log)
    assert partition.high_water_mark == 0


def test_nothing_is_taken_over_what_is_committed_while_the_view_is_behind(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    line.send(push_of(1, all_of(theirs, mark=3)))
    others = leader_log(1)
    append_sparse(others.log(), [10], b"behind what was lost", epoch=6)
    log = node.broker.topics["a"].partitions[0].log
    told = the_answer(line.send(push_of(2, all_of(others, 2, epoch=6))))
    assert (told.error, log.last) == (PushError.NOT_READY, 3), "2 and 3 may be lost, not compacted away"
    place(node, "a", 10, leader_epoch=6, lossy_epoch=6)
    told = the_answer(line.send(push_of(3, all_of(others, 2, epoch=6))))
    assert (told.error, told.matched) == (PushError.NONE, 10)
    assert read_all(log) == {1: b"value-0", 10: b"behind what was lost"}


def test_it_ends_where_the_leader_does_though_nothing_is_written_there(node: BenchNode) -> None:
    line = opened(node)
    line.send(push_of(1, all_of(leader_log(), mark=3)))
    partition = node.broker.topics["a"].partitions[0]
    told = the_answer(line.send(push_of(2, empty_behind(1, mark=1))))
    assert (told.error, partition.log.last) == (PushError.NOT_READY, 3), "the view may yet tell of the loss"
    place(node, "a", 10, leader_epoch=6, lossy_epoch=6)
    told = the_answer(line.send(push_of(3, empty_behind(1, mark=1))))
    assert (told.error, told.matched) == (PushError.NONE, 1)
    assert (partition.log.last, partition.high_water_mark) == (1, 1)


def test_what_was_never_committed_may_stay_until_it_differs(node: BenchNode) -> None:
    line = opened(node)
    line.send(push_of(1, all_of(leader_log(), mark=1)))
    place(node, "a", 10, leader_epoch=6, lossy_epoch=6)
    told = the_answer(line.send(push_of(2, empty_behind(1, mark=1))))
    log = node.broker.topics["a"].partitions[0].log
    assert (told.error, told.matched, log.last) == (PushError.NONE, 1, 3)


def test_a_batch_over_the_leaders_end_goes_and_is_asked_for(node: BenchNode) -> None:
    line, theirs = opened(node), Folder()
    append(theirs.log(), b"kept", epoch=5)
    append_sparse(theirs.log(), [3, 5], b"from 3", b"to 5", epoch=5)
    line.send(push_of(1, all_of(theirs, mark=5)))
    place(node, "a", 10, leader_epoch=6, lossy_epoch=6)
    # The leader has lost that batch, and its log ends in a hole.
    told = the_answer(line.send(push_of(2, empty_behind(4, mark=1))))
    assert (told.error, told.log_end) == (PushError.DISAGREES, 1)


def test_what_was_compacted_for_what_is_lost_is_copied_anew(node: BenchNode) -> None:
    line = opened(node)
    line.send(push_of(1, all_of(leader_log(), mark=3)))
    log = node.broker.topics["a"].partitions[0].log
    log.segments.compacted_through = 2  # as the checkpoint says
    place(node, "a", 10, leader_epoch=6, lossy_epoch=6)
    told = the_answer(line.send(push_of(2, empty_behind(1, mark=1))))
    assert (told.error, told.log_end) == (PushError.DISAGREES, 0)
    chosen = leader_log(1)
    told = the_answer(line.send(push_of(3, all_of(chosen, 1, epoch=6, mark=1))))
    assert (told.error, told.matched, log.last) == (PushError.NONE, 1, 1)
    assert_copies(chosen.log(), log)


@pytest.mark.plain_node
def test_a_log_that_cannot_be_read_is_answered_for_and_the_connection_stays(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = opened(node)
    line.send(push_of(1, all_of(leader_log(), mark=3)))
    log = node.broker.topics["a"].partitions[0].log
    place(node, "a", 10, leader_epoch=6, lossy_epoch=6)

    def refuse(segments: Segments) -> int:
        raise DiskFailed("its index can't be read")

    monkeypatch.setattr(Segments, "may_be_compacted_through", refuse)
    assert the_answer(line.send(push_of(2, empty_behind(1)))).error == PushError.STORAGE
    assert node.metrics.storage_errors == 1
    log.damage("a bad batch")
    told = the_answer(line.send(push_of(3, all_of(leader_log(1), 1, epoch=6))))
    assert (told.error, told.matched) == (PushError.NONE, 1), "it is filled anew, unread"


def test_whole_logs_are_dropped_one_in_a_tick(node: BenchNode) -> None:
    line = opened(node)
    for topic_id, name in ((10, "a"), (11, "b")):
        place(node, name, topic_id)
        line.send(push_of(topic_id, all_of(leader_log(), mark=3, topic_id=topic_id), topic=name))
        node.broker.topics[name].partitions[0].log.segments.compacted_through = 2
        place(node, name, topic_id, leader_epoch=6, lossy_epoch=6)
    chosen = leader_log(1)

    def pushed(topic_id: int, name: str) -> PushError:
        stretch = all_of(chosen, 1, epoch=6, topic_id=topic_id)
        return PushError(the_answer(line.send(push_of(99, stretch, topic=name))).error)

    assert [pushed(10, "a"), pushed(11, "b")] == [PushError.NONE, PushError.NOT_READY]
    node.pass_ms(1)
    assert pushed(11, "b") is PushError.NONE


def test_half_a_copy_behind_a_compacted_front_goes_on(node: BenchNode) -> None:
    line, theirs = opened(node), Folder()
    append_sparse(theirs.log(), [3], b"the first that is left", epoch=5)
    append(theirs.log(), b"another", epoch=5)
    place(node, "a", 10, leader_epoch=6, lossy_epoch=6)
    log = node.broker.topics["a"].partitions[0].log
    first, half = all_of(theirs, 1, epoch=6)
    half = Stretch(
        10,
        6,
        0,
        0,
        1,
        half.records[:RECORD_BYTES],
        bytes(half.batches)[: theirs.log().segments[0].index.record(0).length],
    )
    assert not the_answer(line.send(push_of(1, (first, half)))).error
    told = the_answer(line.send(push_of(2, empty_behind(4))))
    assert (told.error, told.log_end) == (PushError.DISAGREES, 3), "it goes on behind what was copied"
    assert log.first_available == 1
