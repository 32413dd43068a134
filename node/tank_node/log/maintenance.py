"""What a log needs done from time to time: rolling by age, retention, mending. Called by the broker's
timer."""

import logging
from typing import TYPE_CHECKING

from tank_node.log.errors import StorageError
from tank_node.log.retention import SegmentFacts, expired
from tank_node.log.segment import PRODUCERS
from tank_node.log.truncation import keep_snapshot, remove_segment

if TYPE_CHECKING:
    from tank_node.log.log import PartitionLog
    from tank_node.log.replica import ReplicaLog

logger = logging.getLogger(__name__)


def roll_by_age(log: "PartitionLog", now_ms: int) -> None:
    """Seals an active segment that is old enough, or whose batches are all expired, so that retention and
    compaction can look at it though nobody appends any more. Raises StorageError."""
    settings = log.settings
    if not (settings.retention_ms or settings.compact) or not log.segments or not log.segments[-1].count:
        return
    active = log.segments[-1]
    aged = active.first_append_ms + log.roll_ms() <= now_ms
    gone = bool(settings.retention_ms) and active.last_append_ms + settings.retention_ms < now_ms
    if aged or gone:
        log.roll()


def apply_retention(log: "PartitionLog", now_ms: int, high_water_mark: int) -> int:
    """Removes the segments that have to go; returns how many. Raises StorageError."""
    settings = log.settings
    if len(log.segments) < 2 or not (
        settings.retention_ms or settings.retention_bytes or settings.retention_segments
    ):
        return 0
    facts = [
        SegmentFacts(
            following.base - 1, segment.size_bytes, segment.last_append_ms if settings.retention_ms else 0
        )
        for segment, following in zip(log.segments, log.segments[1:], strict=False)
    ]
    gone = expired(facts, log.segments[-1].size_bytes, settings, now_ms, high_water_mark)
    if gone:
        drop_segments(log, gone)
    return gone


def drop_segments(log: "ReplicaLog", count: int) -> None:
    """Removes the oldest segments, after what they say of producers is safe elsewhere. Raises
    StorageError."""
    kept = log.segments[count]
    try:
        keep_snapshot(log, kept.base)
        if log.folder_dirty:
            log.disk.sync_folder(log.folder)  # or the numbers would begin again if the kept names got lost
    except OSError as error:
        raise StorageError(f"cannot sync {kept.path(PRODUCERS)}: {error.strerror}") from error
    log.log_start = max(log.log_start, kept.base)
    for segment in log.segments[:count]:
        remove_segment(log, segment)
    # The epoch of the number before the first one stays: followers are asked whether they agree on it.
    held = [epoch for epoch in log.epochs if epoch[1] < log.log_start]
    del log.epochs[: max(len(held) - 1, 0)]
    log.changed = True


def mend_if_alone(log: "PartitionLog", now_ms: int) -> None:
    """A damaged log without other replicas goes on with what is left."""
    reason = log.reason
    try:
        sentence = log.mend(now_ms).sentence()
    except StorageError as error:
        logger.error("%s: %s; it cannot be mended: %s", log.folder, reason, error)
        return
    logger.error("%s: %s; %s", log.folder, reason, sentence)
