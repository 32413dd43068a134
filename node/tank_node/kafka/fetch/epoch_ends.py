"""Where leader epochs end in a partition's log, as Kafka's clients ask it."""

from typing import Final

from tank_node.log.log import PartitionLog
from tank_node.partition.partition import Partition
from tank_node.segment.errors import StorageError

NO_END: Final = (-1, -1)
"""Stands in answers for an epoch and an end that aren't known."""


def end_of(partition: Partition, epoch: int) -> tuple[int, int]:
    """The greatest epoch with records that is not above this one, and the offset behind its last record;
    NO_END for an epoch above the leader's. A client that knows a later epoch has read another log: that of a
    topic which was deleted and made again, perhaps. It begins anew then by its own rule, where any other
    answer might have it go on in the middle.

    The present epoch ends where the log ends, committed or not, also without records of its own. Where the
    log holds records of greater epochs alone, because those of this one are gone from its front, this one
    ends where the log begins: after NO_END consumers would take what they have read for lost. What compaction
    has removed before the next epoch's first batch counts as this one's, for the same reason."""
    if not 0 <= epoch <= partition.leader_epoch:
        return NO_END
    log = partition.log
    if epoch == partition.leader_epoch:
        return epoch, log.written
    later = 0
    for own, first in reversed(log.epochs):
        if own <= epoch:
            return own, _end_before(log, later)
        later = first
    return epoch, _end_before(log, later)


def _end_before(log: PartitionLog, later: int) -> int:
    """The end of what is before a later epoch, which began at this number; 0: there is no later one."""
    if not later:
        return log.written
    try:
        # The history of a log that was copied from a compacted one counts removed numbers to the later epoch.
        if (found := log.segments.find(later)) is not None:
            segment, i = found
            later = max(later, segment.index.record(i).first)
    except StorageError:
        pass  # a read says so
    return max(later, log.first_available) - 1
