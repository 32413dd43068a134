"""Taking batches off the end of a log, and the producers' memory that goes with it."""

import contextlib
import os
from typing import TYPE_CHECKING

from tank_node.disk import read_file, sync_file, write_file
from tank_node.log import swap
from tank_node.log.errors import DiskFailed
from tank_node.log.index import SCAN_RECORDS
from tank_node.log.open_files import open_error
from tank_node.log.producers import Producers, check_snapshot
from tank_node.log.record import names_producers
from tank_node.log.segment import LOG, PRODUCERS, Segment, file_name

if TYPE_CHECKING:
    from tank_node.log.append import AppendableLog
    from tank_node.log.replica import ReplicaLog


def truncate(log: "ReplicaLog", last: int) -> None:
    """See `PartitionLog.truncate_to`."""
    log.drop_staged()
    if last >= log.written:
        return
    kept = sum(segment.base <= last + 1 for segment in log.segments)
    keep = 0
    end = last
    if kept:
        segment = log.segments[kept - 1]
        keep = segment.index.containing(last + 1)
        end = segment.index.record(keep - 1).last if keep else segment.base - 1
    log.synced = min(log.synced, end)
    log.before_truncation(log, end)
    if len(log.segments) > kept:
        while len(log.segments) > kept:
            remove_segment(log, log.segments[-1])
        try:  # before the next one is cut: what comes back after a power failure must leave no hole before it
            log.disk.sync_folder(log.folder)
        except OSError as error:
            raise DiskFailed(f"cannot make {log.folder} durable: {error.strerror}") from error
    if kept:
        segment = log.segments[-1]
        log.size_bytes -= segment.size_bytes
        segment.cut(keep)
        log.size_bytes += segment.size_bytes
    _after(log, end)
    # Or the numbers would begin again after a restart; or what comes next would stand behind what compaction
    # took, with no mark (BREAK) for readers, who count its messages on from those before.
    if end and (not kept or log.segments[-1].is_rewritten):
        log.begin_at(end + 1)


def _after(log: "ReplicaLog", end: int) -> None:
    """Brings what is in memory down to the log's new end."""
    log.last = log.written = end
    log.synced = min(log.synced, end)
    log.high_water_mark = min(log.high_water_mark, end)
    log.log_start = min(log.log_start, end + 1)
    log.compacted_through = min(log.compacted_through, end)
    lower_flushes(log, end)
    while log.epochs and log.epochs[-1][1] > end:
        log.epochs.pop()
    log.forget()
    drop_snapshots(log, end)
    log.changed = True


def lower_flushes(log: "ReplicaLog", end: int) -> None:
    """What is being synced makes nothing durable that is behind the log's new end."""
    work = log.flushing
    if work is not None:
        work.through = min(work.through, end)


def drop_snapshots(log: "AppendableLog", last: int) -> None:
    """Removes snapshots of producers that tell of batches behind `last`: those numbers will be given again.

    Raises StorageError: a snapshot that stays would be believed.
    """
    for base in snapshot_bases(log):
        if base > last + 1:
            _remove(log, snapshot_path(log, base))
            log.folder_dirty = True


def remove_segment(log: "AppendableLog", segment: Segment) -> None:
    """Deletes a segment and its files. Raises DiskFailed."""
    log.segments.remove(segment)
    log.size_bytes -= segment.size_bytes
    log.folder_dirty = True
    log.forget_cursors()
    try:
        swap.remove(log.disk, log.folder, segment.base)
    except OSError as error:
        raise DiskFailed(f"cannot delete {segment.path(LOG)}: {error.strerror}") from error
    finally:  # the names first: as long as a file is open, removing its name is quick
        for file in segment.files():
            log.files.forget(file)


def _remove(log: "AppendableLog", path: str) -> None:
    try:
        log.disk.remove(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise DiskFailed(f"cannot delete {path}: {error.strerror}") from error


def snapshot_bases(log: "AppendableLog") -> list[int]:
    """The numbers of the snapshots of producers that the folder holds, rising. Raises StorageError."""
    try:
        names = [entry.name for entry in log.disk.entries(log.folder)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise open_error(error, log.folder) from error
    return sorted(int(name[:20]) for name in names if name.endswith(PRODUCERS) and name[:20].isdigit())


def snapshot_producers(log: "AppendableLog") -> None:
    """Writes the producers' memory as it is at the log's end, if it was used. Raises StorageError.

    Without an fsync: a torn one is not believed, and the one before it and the records say the same. Where a
    whole one lies already it may be the only one, and stays: behind what retention took there are neither.
    """
    producers = log.producers_if_loaded
    if producers is None or not len(producers):
        return
    with contextlib.suppress(ValueError):
        check_snapshot(_read_snapshot(log, log.written + 1))
        return
    path = snapshot_path(log, log.written + 1)
    try:
        write_file(log.disk, path, producers.snapshot(), sync=False)
    except OSError as error:
        raise DiskFailed(f"cannot write {path}: {error.strerror}") from error


def snapshot_path(log: "AppendableLog", base: int) -> str:
    """Where the snapshot of producers lies that a segment begins with."""
    return os.path.join(log.folder, file_name(base, PRODUCERS))


def restore_producers(log: "AppendableLog", end: int) -> Producers:
    """What is known of producers below number `end`: by the newest snapshot that is whole, and every record
    behind it. Raises StorageError."""
    producers = Producers()
    start = 0
    for base in reversed(snapshot_bases(log)):
        if base > end:
            continue
        try:
            producers = Producers.restore(_read_snapshot(log, base))
        except ValueError:  # torn, or gone
            continue
        start = base
        break
    for at, segment in enumerate(log.segments):
        if segment.base >= end:
            break
        if at + 1 == len(log.segments) or log.segments[at + 1].base > start:
            _replay(producers, segment, segment.index.containing(start), segment.index.containing(end))
    return producers


def snapshot_before(log: "AppendableLog", number: int) -> bytes:
    """What is known of producers below this number, as a snapshot; empty: nothing. Raises StorageError.

    As the folder has it, where it does: 100,000 producers are not restored for each push that begins there.
    """
    content = _read_snapshot(log, number)
    try:
        return content if check_snapshot(content) else b""
    except ValueError:
        producers = restore_producers(log, number)
        return producers.snapshot() if len(producers) else b""


def keep_snapshot(log: "AppendableLog", base: int) -> None:
    """Makes a segment's snapshot durable before what is older goes. It was written without an fsync: one that
    a loss of power tore is made anew. Raises OSError and StorageError."""
    path = snapshot_path(log, base)
    try:
        check_snapshot(_read_snapshot(log, base))
    except ValueError:
        producers = restore_producers(log, base)
        if len(producers):
            write_file(log.disk, path, producers.snapshot())
            log.folder_dirty = True
        return
    sync_file(log.disk, path)


def _read_snapshot(log: "AppendableLog", base: int) -> bytes:
    """What a snapshot holds, whole or not; nothing where an older one, and the records behind that, say the
    same. Raises StorageError: of the first segment's there is no older one."""
    path = snapshot_path(log, base)
    try:
        return read_file(log.disk, path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        if log.segments and base > log.segments[0].base:
            return b""
        raise open_error(error, path) from error


def _replay(producers: Producers, segment: Segment, start: int, stop: int) -> None:
    """Takes the records in from `start` to before `stop`; pieces without any producer, the usual ones, at a
    glance: a segment may have 16 million records, and the event loop waits."""
    index = segment.index
    for begin in range(start, stop, SCAN_RECORDS):
        end = min(begin + SCAN_RECORDS, stop)
        if names_producers(index.raw(begin, end)):
            producers.replay(index.records(begin, end))
        else:
            producers.pass_over(index.record(end - 1).append_ms)
