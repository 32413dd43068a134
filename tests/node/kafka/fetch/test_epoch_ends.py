"""Where leader epochs end in a log from which compaction has removed batches."""

from dataclasses import dataclass

from tank_node.kafka.fetch.epoch_ends import end_of
from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import PartitionLog
from tank_node.log.settings import LogSettings
from tests.support.nodes.replicas import push
from tests.support.storage.logs import Folder, append, read_all

COMPACTED = LogSettings(segment_bytes=120, compact=True, min_cleanable_ratio=0.0, replication_factor=3)


@dataclass
class Led:
    """What is asked of a partition."""

    log: PartitionLog
    leader_epoch: int


def end(log: PartitionLog, epoch: int) -> tuple[int, int]:
    return end_of(Led(log, 9), epoch)  # type: ignore[arg-type]


def copy_of_a_compacted_log(before: int) -> PartitionLog:
    """`before` batches of epoch 1 that stay, three of one key that a fourth one, of epoch 2, replaces."""
    log, copy = Folder(settings=COMPACTED).log(), Folder(settings=COMPACTED).log()
    for number in range(before):
        append(log, b"stays", keys=[b"s%d" % number])
    for _ in range(3):
        append(log, b"earlier", keys=[b"k"])
    append(log, b"latest", keys=[b"k"], epoch=2)
    log.roll()
    log.flush()
    maintain(log, 10_000, log.last)
    push(log, copy)
    assert list(read_all(copy)) == [*range(1, before + 1), before + 4]
    return copy


def test_a_consumer_that_read_what_compaction_removed_is_not_elsewhere() -> None:
    """The copy's history can't tell of which epoch the removed numbers were."""
    copy = copy_of_a_compacted_log(before=0)
    assert copy.epochs == [(2, 1)]
    assert end(copy, 1) == (1, 3)
    copy = copy_of_a_compacted_log(before=2)
    assert copy.epochs == [(1, 1), (2, 3)]
    assert end(copy, 1) == (1, 5)
    assert end(copy, 2) == (2, copy.written)


def test_without_removed_batches_an_epoch_ends_where_the_next_one_begins() -> None:
    log = Folder(settings=COMPACTED).log()
    append(log, b"a", b"b")
    append(log, b"c", epoch=3)
    assert [end(log, epoch) for epoch in (1, 2, 3, 4)] == [(1, 2), (1, 2), (3, 3), (3, 3)]
