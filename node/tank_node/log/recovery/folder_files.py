"""Work on the files of a log's folder that recovery and mending share: listing them, writing them again, and
setting the log's state from them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tank_node.log.log import PartitionLog
from tank_node.log.recovery.checkpoint import CheckpointEntry
from tank_node.segment import swap
from tank_node.segment.errors import DiskFailed
from tank_node.segment.read_back import READ_BYTES, end_of
from tank_node.segment.record import RECORD_BYTES
from tank_node.segment.segment import INDEX, LOG, Appender, Segment


@dataclass(slots=True)
class FolderScan:
    """The sizes of the segments' files, by base."""

    logs: dict[int, int]
    indexes: dict[int, int]

    @property
    def bases(self) -> list[int]:
        return sorted(self.logs.keys() | self.indexes.keys())


def scan(log: PartitionLog) -> FolderScan:
    """Lists the segments in the folder, after finishing interrupted swaps. Raises StorageError."""
    found = FolderScan({}, {})
    try:
        try:
            entries = log.disk.entries(log.folder)
        except FileNotFoundError:
            return found
        if swap.finish_swaps(log.disk, log.folder, entries):
            entries = log.disk.entries(log.folder)
    except OSError as error:
        raise DiskFailed(f"cannot read {log.folder}: {error.strerror}") from error
    for entry in entries:
        stem, suffix = os.path.splitext(entry.name)
        if len(stem) == 20 and stem.isdigit():
            if suffix == LOG:
                found.logs[int(stem)] = entry.size_bytes
            elif suffix == INDEX:
                found.indexes[int(stem)] = entry.size_bytes
    return found


def rewrite(kept: list[tuple[Segment, int]]) -> None:
    """Writes the batches of each segment from a record on again, and syncs them. Raises DiskFailed.

    If the process before died after a failed fsync, the page cache may call pages clean that never reached
    the disk: an fsync covers them only when they are written again.
    """
    for segment, start in kept:
        if start == segment.count:
            continue
        try:
            _rewrite_file(segment.log_end, end_of(segment, start))
            _rewrite_file(segment.index_end, start * RECORD_BYTES)
        except OSError as error:
            raise DiskFailed(f"cannot make {segment.path(LOG)} durable: {error.strerror}") from error


def _rewrite_file(end: Appender, start: int) -> None:
    file = end.file
    disk = file.files.disk
    fd = file.files.use(file)
    position = start
    file.dirty = True
    while position < end.length:
        data = disk.read_at(fd, min(READ_BYTES, end.length - position), position)
        if not data:
            raise OSError(5, f"{file.path} has become shorter")
        done = 0
        while done < len(data):
            done += disk.write_at(fd, [memoryview(data)[done : done + 64 * 1024]], position + done)
        position += len(data)
    file.sync()


def take_over(log: PartitionLog, last: int, entry: CheckpointEntry | None) -> None:
    """Sets the log's numbers and epochs from its good files. entry: the log's checkpoint, whose epochs up to
    the recovery point are used; None: all epochs are read from the records."""
    segments = log.segments
    log.tail.end_at(last)
    log.producers.drop_behind(last)
    log.high_water_mark = min(log.high_water_mark, last)
    segments.log_start = min(segments.log_start, last + 1)
    found = segments.list
    if entry is not None and not entry.recovery_point and found and found[0].base == 1:
        segments.log_start = max(segments.log_start, found[0].first)  # a log may begin at any number
    base = found[0].base if found else last + 1
    if entry is None or not entry.epochs or not found or base > entry.recovery_point + 1:
        segments.epochs, start = [], 0
    else:
        segments.epochs = [epoch for epoch in entry.epochs if epoch[1] <= entry.recovery_point]
        start = entry.recovery_point + 1
    before = start - 1
    if not start:
        before = base - 1
    for at, segment in enumerate(found):
        if at + 1 < len(found) and found[at + 1].base <= start:
            continue
        for record in segment.index.records(segment.index.containing(start)):
            if not segments.epochs or segments.epochs[-1][0] != record.leader_epoch:
                segments.epochs.append((record.leader_epoch, before + 1))
            before = record.last
    try:
        point = entry.recovery_point if entry is not None else -1
        # Files that are new since the checkpoint may have names that are not durable yet.
        if segments.folder_dirty or last > point or (found and found[-1].base > point):
            segments.sync_names()
            segments.folder_dirty = False
    except OSError as error:
        raise DiskFailed(f"cannot make {log.folder} durable: {error.strerror}") from error
    log.synced = last
    segments.changed = True
