"""Refilling: emptying a replica's log, to copy it anew from its leader. It is for a log with a bad batch or a
lost file, and for one that ends before its leader's log start.

The log counts as damaged until the copy is complete: after a crash the copy begins again.
"""

from tank_node.disk import write_file
from tank_node.log.log import LogState, PartitionLog
from tank_node.segment.errors import DiskFailed, StorageError


def begin_anew(log: PartitionLog, number: int, previous_epoch: int, producers: bytes = b"") -> None:
    """Empties a log, whole or damaged: its next batch comes at or behind `number`, the leader's log start.

    previous_epoch: the leader's epoch at number - 1. producers: the leader's snapshot of the producers there.
    Unless the log was whole and ended below `number`, it is `refilling` until it is copied
    (`PartitionLog.refilled_through`). Raises StorageError.
    """
    health, segments = log.health, log.segments
    if health.state not in (LogState.ACTIVE, LogState.DAMAGED):
        health.refuse()
    log.cancel_compaction()
    if health.state is LogState.DAMAGED or number <= log.written:
        # A whole log too: otherwise a start in the middle would compare the copy with the old log's
        # checkpoint.
        health.refilling = True
        log.before_refill(log)
    log.forget_files()
    try:
        _empty(log, number, producers)
    except OSError as error:
        log.damage("it could not be emptied")  # the files left are unknown, and the memory of them is gone
        raise DiskFailed(f"cannot empty {log.folder}: {error.strerror}") from error
    health.restore()
    log.emptied(number, previous_epoch)
    try:
        segments.begin(number, b"")
    except StorageError:
        if producers:  # the snapshot was removed with the segment, and no batch may be stored without it
            log.damage("it could not be begun anew")
        raise


def _empty(log: PartitionLog, number: int, producers: bytes) -> None:
    """Replaces the log's folder by an empty one, with the producers' snapshot. Raises OSError."""
    if log.disk.exists(log.folder):
        log.discard()
    log.disk.make_folders(log.folder)
    # Before new files: otherwise a power failure could bring old ones back beside them.
    log.segments.sync_names()
    if producers:  # durable before the first batch, because no record repeats it
        write_file(log.disk, log.producers.path(number), producers, sync=True)
