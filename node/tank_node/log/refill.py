"""Dropping what a replica has, to copy everything from its leader: the one way back for a log with a bad
batch, a lost index, an emptied disk, or an end before its leader's log start. And the cut at the log start
that the leader pushes.

A log that was damaged stays it until the copy is whole: a crash in the middle finds it damaged, and the copy
begins again.
"""

from typing import TYPE_CHECKING

from tank_node.disk import write_file
from tank_node.log.errors import DiskFailed, StorageError
from tank_node.log.maintenance import drop_segments
from tank_node.log.truncation import snapshot_path

if TYPE_CHECKING:
    from tank_node.log.replica import ReplicaLog


def begin_anew(log: "ReplicaLog", number: int, previous_epoch: int, producers: bytes) -> None:
    """See `PartitionLog.begin_anew`."""
    log.drop_files()
    try:
        if log.disk.exists(log.folder):
            log.discard()
        log.disk.make_folders(log.folder)
        # Before a new name is there: what comes back after a power failure must not lie before it.
        for folder in log.folders:
            log.disk.sync_folder(folder)
        if producers:  # no record says it again: it must be there when the first batch is
            write_file(log.disk, snapshot_path(log, number), producers, sync=True)
    except OSError as error:
        log.damage("it could not be emptied")  # nobody knows what is left, and all of it was forgotten here
        raise DiskFailed(f"cannot empty {log.folder}: {error.strerror}") from error
    log.emptied(number, previous_epoch)
    try:
        log.begin_segment(number, b"")
    except StorageError:
        if producers:  # they went with the segment: nothing may go on from here without them
            log.damage("it could not be begun anew")
        raise


def retain_from(log: "ReplicaLog", number: int) -> None:
    """See `PartitionLog.retain_from`."""
    if number <= log.log_start or not log.segments:
        return
    if number > log.written and log.segments[-1].count:
        log.roll()
    gone = sum(following.base <= number for following in log.segments[1:])
    if gone:
        drop_segments(log, gone)
    log.log_start = max(log.log_start, min(number, log.written + 1))
    log.forget_cursors()  # there is none below the first available number
    log.changed = True
