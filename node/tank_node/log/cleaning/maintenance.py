"""The maintenance of a log at intervals: rolling by age, retention, compaction, mending. The broker's timer
calls it."""

import contextlib
import logging
from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

from tank_node.log.cleaning import compaction
from tank_node.log.cleaning.compaction import CompactionWork, SpoiledBatch
from tank_node.log.cleaning.retention import SegmentFacts, expired
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.recovery.mend import mend
from tank_node.segment import swap
from tank_node.segment.errors import StorageError
from tank_node.segment.segment import LOG, Segment

logger = logging.getLogger(__name__)


class Background(Protocol):
    """Runs long jobs in a thread, one at a time, then a function on the loop: `flusher.Flusher`."""

    def run_long(
        self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]
    ) -> None: ...


def maintain(
    log: PartitionLog,
    now_ms: int,
    high_water_mark: int,
    flusher: Background | None = None,
    *,
    retain: bool = True,
    forgets: bool = False,
) -> None:
    """Rolls by age, applies retention, begins a compaction, or mends a damaged log without other replicas.

    Removes no message above `high_water_mark`. flusher: its thread compacts; None: compacts at once. retain:
    whether to apply retention; a follower instead takes over its leader's log start
    (`PartitionLog.retain_from`). forgets: whether all replicas have what is below the mark, so that
    compaction may remove tombstones. Raises StorageError.
    """
    log.high_water_mark = max(log.high_water_mark, high_water_mark)
    if log.state is LogState.DAMAGED and log.settings.replication_factor == 1:
        _mend_alone(log, now_ms)
    if log.state is not LogState.ACTIVE:
        return
    _roll_by_age(log, now_ms)
    log.drop_below_start()
    if retain:
        _apply_retention(log, now_ms, high_water_mark)
    if log.settings.compact and log.compaction is None and now_ms >= log.compact_after_ms:
        _compact(log, now_ms, high_water_mark, flusher, forgets=forgets)


def _roll_by_age(log: PartitionLog, now_ms: int) -> None:
    """Seals the active segment when it is old enough, or all its batches are expired, so that retention and
    compaction apply to it even without further batches. Raises StorageError."""
    settings = log.settings
    if not (settings.retention_ms or settings.compact) or not log.segments.list or not log.segments[-1].count:
        return
    active = log.segments[-1]
    aged = active.first_append_ms + log.tail.roll_ms() <= now_ms
    gone = bool(settings.retention_ms) and active.last_append_ms + settings.retention_ms < now_ms
    if aged or gone:
        log.roll()


def _apply_retention(log: PartitionLog, now_ms: int, high_water_mark: int) -> None:
    """Removes the expired segments. Raises StorageError."""
    settings, segments = log.settings, log.segments.list
    if len(segments) < 2 or not (
        settings.retention_ms or settings.retention_bytes or settings.retention_segments
    ):
        return
    facts = [
        SegmentFacts(
            following.base - 1, segment.size_bytes, segment.last_append_ms if settings.retention_ms else 0
        )
        for segment, following in pairwise(segments)
    ]
    gone = expired(facts, segments[-1].size_bytes, settings, now_ms, high_water_mark)
    if gone:
        log.drop_oldest(gone)


def _compact(
    log: PartitionLog, now_ms: int, high_water_mark: int, flusher: Background | None, *, forgets: bool
) -> None:
    """Begins a compaction if enough of the log is new. Raises StorageError."""
    segments = log.segments
    work = compaction.plan(
        segments.list,
        segments.compacted_through,
        min(high_water_mark, log.synced),
        log.settings,
        log.folder,
        log.producers_before,
        now_ms,
        forgets=forgets,
        tombstones_due_ms=log.tombstones_due_ms,
    )
    if work is None:
        return
    log.compact_after_ms = now_ms + compaction.RETRY_MS
    log.before_compaction(log, work.through)
    log.compaction = work
    if flusher is None:
        work.run(log.disk)
        end_compaction(log, work)
    else:
        flusher.run_long(
            lambda: work.run(log.disk),
            lambda: end_compaction(log, work),
            lambda: work.cancel(log.disk),
        )


def end_compaction(log: PartitionLog, work: CompactionWork) -> None:
    """Puts the rewritten segments in place of the old ones, on the loop."""
    log.compaction = None
    if log.state is not LogState.ACTIVE:
        with contextlib.suppress(OSError):  # a deleted topic's folder doesn't exist
            work.cancel(log.disk)
    if work.cancelled:
        return
    segments = log.segments
    for segment, size, count in work.rewritten:
        if segment not in segments.list:  # retention removed it, with its new files
            continue
        try:
            swap.put_in_place(log.disk, log.folder, segment.base)
        except OSError as error:
            # One of the two files may be new, the other old: not to be read until the next start finishes the
            # swap.
            log.spoiled(f"compaction could not replace {segment.path(LOG)}: {error.strerror}")
            return
        segments.replace(segment, Segment(segments.files, log.folder, segment.base, size, count))
    log.cursors.clear()
    if work.error is not None:
        logger.error("compaction of %s stopped: %s", log.folder, work.error)
        if isinstance(work.error, SpoiledBatch):
            log.spoiled(str(work.error))
    else:
        log.compact_after_ms = 0
        log.tombstones_due_ms = work.tombstones_due_ms
        segments.compacted_through = work.through
        segments.changed = True


def _mend_alone(log: PartitionLog, now_ms: int) -> None:
    """Mends a damaged log that has no other replica."""
    reason = log.reason
    try:
        sentence = mend(log, now_ms).sentence()
    except StorageError as error:
        logger.error("%s: %s; it cannot be mended yet: %s", log.folder, reason, error)
        return
    logger.error("%s: %s; %s", log.folder, reason, sentence)
