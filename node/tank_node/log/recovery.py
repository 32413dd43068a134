"""Opening a log: what the files hold, checked where a crash may have left it in pieces.

Up to the recovery point everything was synced and is believed. Behind it every record is checked against the
one before it and against its bytes; both files are cut at the first mismatch that has no good record behind
it. Where the machine has run on since, such a record is damage: a batch is written before its record, so what
a killed process leaves unfinished has none. What is kept is written again and synced, because after a crash
the page cache may hold what the disk never got.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tank_node.log import swap
from tank_node.log.checkpoint import Entry
from tank_node.log.errors import DiskFailed
from tank_node.log.read_back import READ_BYTES, end_of, good_in_a_row, is_good_behind
from tank_node.log.record import RECORD_BYTES
from tank_node.log.segment import INDEX, LOG, Appender, Segment
from tank_node.log.truncation import drop_snapshots

if TYPE_CHECKING:
    from tank_node.log.log import PartitionLog


@dataclass(slots=True)
class Found:
    """What opening one log came across."""

    messages: int = 0
    bytes: int = 0
    """Checked against their checksums."""
    cut: int = 0
    """Bytes at the end that belonged to no whole batch."""
    sentence: str = ""
    """What is damaged, or was mended with loss; empty when nothing."""


class _Damage(Exception):
    """Stored batches are missing or wrong. `segments` of the log hold what comes before."""

    def __init__(self, sentence: str, given_out: int = 0) -> None:
        super().__init__(sentence)
        self.given_out = given_out
        """Numbers up to this one are in use, though no good batch has them."""


@dataclass(slots=True)
class FolderScan:
    """The segments' files by base, with their sizes."""

    logs: dict[int, int]
    indexes: dict[int, int]

    @property
    def bases(self) -> list[int]:
        return sorted(self.logs.keys() | self.indexes.keys())


def scan(log: PartitionLog) -> FolderScan:
    """Which segments the folder holds, after unfinished compactions were ended. Raises StorageError."""
    found = FolderScan({}, {})
    try:
        entries = log.disk.entries(log.folder)
        if swap.finish_swaps(log.disk, log.folder, entries):
            entries = log.disk.entries(log.folder)
    except FileNotFoundError:
        return found
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


def open_files_of(
    log: PartitionLog, entry: Entry | None, now_ms: int, *, clean: bool, sure: bool
) -> Found:  # fmt: skip
    """Fills a new log with what its folder holds.

    entry: what the checkpoint says of it; clean: whether it was written at an orderly stop; sure: whether the
    machine has run on since it was written. Damage ends in the state DAMAGED, or, with replication factor 1,
    in a mended log. Raises StorageError when nothing can be read.
    """
    files = scan(log)
    found = Found()
    entry = entry or Entry(log.topic_id, log.partition)
    log.high_water_mark = entry.high_water_mark
    log.log_start = entry.log_start
    log.compacted_through = entry.compacted_through
    if clean and not entry.damaged and _matches(files, entry):
        _believe(log, files, entry)
        return found
    # A first batch behind a gap may have set it and been truncated since: what came then would be hidden.
    log.log_start = min(log.log_start, entry.recovery_point + 1)
    try:
        if entry.damaged:
            _take_damaged(log, files)
        _check(log, files, entry, found, sure=sure)
    except _Damage as damage:
        found.sentence = str(damage)
        log.recovery_point = max(entry.recovery_point, damage.given_out)
        log.epochs = list(entry.epochs)
        log.last = log.written = log.segments[-1].last if log.segments else 0
        log.synced = min(log.last, entry.recovery_point)
        log.damage(found.sentence)
        if log.settings.replication_factor == 1:  # nobody can refill it
            found.sentence += "; " + log.mend(now_ms).sentence()
    return found


def _matches(files: FolderScan, entry: Entry) -> bool:
    """Whether the files are those of the clean checkpoint, as far as names and sizes tell."""
    if not files.logs and not files.indexes:
        return entry.recovery_point == 0
    base = entry.end_base
    return (
        files.logs.keys() == files.indexes.keys()
        and max(files.logs) == base
        and files.logs[base] == entry.end_log_bytes
        and files.indexes[base] == entry.end_records * RECORD_BYTES
    )


def _believe(log: PartitionLog, files: FolderScan, entry: Entry) -> None:
    for base in files.bases:
        _add_segment(log, base, files.logs[base], files.indexes[base] // RECORD_BYTES)
    log.last = log.written = log.synced = entry.recovery_point
    log.epochs = list(entry.epochs)
    log.changed = False


def _take_damaged(log: PartitionLog, files: FolderScan) -> NoReturn:
    """A log that was found damaged before the last stop: looking whole now proves nothing. Raises _Damage."""
    for base in files.bases:
        if base in files.logs and base in files.indexes:
            _add_segment(log, base, files.logs[base], files.indexes[base] // RECORD_BYTES)
    raise _Damage("bad batches were found before the last stop")


def _add_segment(log: PartitionLog, base: int, log_bytes: int, records: int) -> Segment:
    segment = Segment(log.files, log.folder, base, log_bytes, records)
    log.segments.append(segment)
    log.size_bytes += log_bytes
    return segment


def _check(log: PartitionLog, files: FolderScan, entry: Entry, found: Found, *, sure: bool) -> None:
    """Takes over the segments and checks those behind the recovery point. Raises _Damage."""
    point = entry.recovery_point
    bases = files.bases
    if not bases and point:
        raise _Damage(f"the folder {log.folder} is empty, though messages up to {point} were stored")
    if not bases:
        return
    first_checked = _take_covered(log, files, point)
    last = log.segments[-1].last if log.segments else 0
    kept: list[tuple[Segment, int]] = []
    for at, base in enumerate(bases[first_checked:], first_checked):
        if base not in files.indexes or base not in files.logs:
            if files.logs.get(base, 0) or files.indexes.get(base, 0) or at < len(bases) - 1 or last < point:
                raise _Damage(_missing(log, base, files))
            _remove_rest(log, files, bases[at:], found)
            break
        if log.segments and base - 1 > max(last, point):
            # Where the log ended by its name never reached the disk: compaction takes only what is promised.
            if last < point or _any_good(log, files, bases[at:]):
                raise _Damage(f"the messages {last + 1} to {base - 1} are missing, and good ones follow")
            _remove_rest(log, files, bases[at:], found)
            break
        log_bytes = files.logs[base]
        segment = Segment(log.files, log.folder, base, log_bytes, files.indexes[base] // RECORD_BYTES)
        start = _first_behind(segment, point)
        good, last = _good_records(segment, start, max(last, base - 1), log_bytes, found)
        if good < segment.count and (
            sure or is_good_behind(segment, good, log_bytes) or _any_good(log, files, bases[at + 1 :])
        ):
            given_out = _given_out(segment, good, last) if sure else 0
            _end_at(log, segment, good)
            why = "and it was written whole" if sure else "and good ones follow"
            raise _Damage(f"the batch behind number {last} does not match its checksum, {why}", given_out)
        end = end_of(segment, good)
        if end > log_bytes:
            raise _Damage(f"bytes of {segment.path(LOG)} before number {last} are missing")
        kept.append((segment, start))
        log.segments.append(segment)
        log.size_bytes += end
        if good < segment.count or end < log_bytes or files.indexes[base] % RECORD_BYTES:
            is_end = at == len(bases) - 1 or not _any_good(log, files, bases[at + 1 :])
            if last < point or not is_end:
                segment.index.cut(good)
                segment.log_end.length = end
                raise _Damage(
                    f"the log ends at {last}, though messages up to {point} were stored"
                    if is_end
                    else f"bytes of {segment.path(LOG)} behind number {last} are missing or have no record"
                )
            found.cut += log_bytes - end
            _cut(segment, good, end)
            _remove_rest(log, files, bases[at + 1 :], found)
            break
    if last < point:
        raise _Damage(f"the log ends at {last}, though messages up to {point} were stored")
    rewrite(kept)
    take_over(log, last, entry)


def _given_out(segment: Segment, good: int, last: int) -> int:
    """The last number of the records behind the good ones: as far as each goes on from the one before it, and
    one at least."""
    end, through = end_of(segment, good), last + 1
    for record in segment.index.records(good):
        if (record.first, record.position) != (last + 1, end):
            break
        through = last = record.last
        end = record.end
    return through


def _end_at(log: PartitionLog, segment: Segment, good: int) -> None:
    """Takes over what is good of a damaged segment, in memory alone."""
    segment.index.cut(good)
    segment.log_end.length = end_of(segment, good)
    log.segments.append(segment)
    log.size_bytes += segment.size_bytes


def _take_covered(log: PartitionLog, files: FolderScan, point: int) -> int:
    """Takes over the segments wholly below the recovery point, which are believed. Returns how many: the next
    one, which may hold it, is looked into. Raises _Damage."""
    bases = files.bases
    covered = max((i for i, base in enumerate(bases) if base <= point), default=0)
    for base in bases[:covered]:
        if base not in files.logs or base not in files.indexes:
            raise _Damage(_missing(log, base, files))
        _add_segment(log, base, files.logs[base], files.indexes[base] // RECORD_BYTES)
    return covered


def _first_behind(segment: Segment, point: int) -> int:
    """The first record that the recovery point does not cover.

    Behind it anything may lie: after a loss of power zeros, where a file grew and its bytes never came. They
    must not lead the search astray, so only what a record of this segment can be counts as covered.
    """
    low, high = 0, segment.count
    while low < high:
        middle = (low + high) // 2
        record = segment.index.record(middle)
        if segment.base <= record.first and record.last <= point:
            low = middle + 1
        else:
            high = middle
    return low


def _missing(log: PartitionLog, base: int, files: FolderScan) -> str:
    lost = INDEX if base not in files.indexes else LOG
    return f"the file {os.path.join(log.folder, f'{base:020d}{lost}')} is missing"


def _good_records(segment: Segment, start: int, last: int, log_bytes: int, found: Found) -> tuple[int, int]:
    """How many records are good in one row from `start` on (those before it included), and their last number.

    last: the number that the first of them must be above.
    """
    good = start
    if start:
        last = segment.index.record(start - 1).last
    for record in good_in_a_row(segment, start, last, log_bytes):
        found.messages += record.messages
        found.bytes += record.length
        good, last = good + 1, record.last
    return good, last


def _any_good(log: PartitionLog, files: FolderScan, bases: list[int]) -> bool:
    """Whether one of these segments holds a record that matches its bytes."""
    for base in bases:
        records = files.indexes.get(base, 0) // RECORD_BYTES
        log_bytes = files.logs.get(base, 0)
        if (
            records
            and log_bytes
            and is_good_behind(Segment(log.files, log.folder, base, log_bytes, records), -1, log_bytes)
        ):
            return True
    return False


def _cut(segment: Segment, count: int, end: int) -> None:
    """Cuts both files behind the good batches: index first, and synced."""
    try:
        segment.index.cut(count)
        segment.index_end.cut_back(count * RECORD_BYTES)
        segment.index_end.file.sync()
        segment.log_end.cut_back(end)
    except OSError as error:
        raise DiskFailed(f"cannot cut {segment.path(LOG)}: {error.strerror}") from error


def _remove_rest(log: PartitionLog, files: FolderScan, bases: list[int], found: Found) -> None:
    """Removes segments that hold nothing good; the last first, so that a crash leaves no gap."""
    for base in reversed(bases):
        found.cut += files.logs.get(base, 0)
        try:
            swap.remove(log.disk, log.folder, base)
        except OSError as error:
            raise DiskFailed(f"cannot remove segment {base} of {log.folder}: {error}") from error
        log.folder_dirty = True


def rewrite(kept: list[tuple[Segment, int]]) -> None:
    """Writes again what is kept behind the recovery point, and syncs it.

    After a crash of the machine's disk, or a process that died between a failed fsync and its report, pages
    may be marked clean that never reached the disk: only writing them again makes an fsync cover them.
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
            raise OSError(5, f"{file.path} is shorter than it was")
        done = 0
        while done < len(data):
            done += disk.write_at(fd, [memoryview(data)[done : done + 64 * 1024]], position + done)
        position += len(data)
    file.sync()


def take_over(log: PartitionLog, last: int, entry: Entry | None) -> None:
    """The log's numbers and epochs, after its files were found good; without an entry all are read."""
    log.last = log.written = last
    drop_snapshots(log, last)
    log.high_water_mark = min(log.high_water_mark, last)
    log.log_start = min(log.log_start, last + 1)
    if entry is not None and not entry.recovery_point and log.segments and log.segments[0].base == 1:
        log.log_start = max(log.log_start, log.segments[0].first)  # it may begin anywhere
    base = log.segments[0].base if log.segments else last + 1
    if entry is None or not entry.epochs or not log.segments or base > entry.recovery_point + 1:
        log.epochs, start = [], 0
    else:
        log.epochs = [epoch for epoch in entry.epochs if epoch[1] <= entry.recovery_point]
        start = entry.recovery_point + 1
    before = start - 1
    if not start:
        before = base - 1
    for at, segment in enumerate(log.segments):
        if at + 1 < len(log.segments) and log.segments[at + 1].base <= start:
            continue
        for record in segment.index.records(segment.index.containing(start)):
            if not log.epochs or log.epochs[-1][0] != record.leader_epoch:
                log.epochs.append((record.leader_epoch, before + 1))
            before = record.last
    try:
        point = entry.recovery_point if entry is not None else -1
        # The names may be as new as the batches behind the recovery point, or as a segment without any.
        if log.folder_dirty or last > point or (log.segments and log.segments[-1].base > point):
            for folder in log.folders:
                log.disk.sync_folder(folder)
            log.folder_dirty = False
    except OSError as error:
        raise DiskFailed(f"cannot make {log.folder} durable: {error.strerror}") from error
    log.synced = last
    log.changed = True
