"""Opening a log, and checking it where a crash may have left it incomplete.

Batches up to the recovery point were synced, and are not checked. Behind it each record is checked against
the record before and its batch; both files are cut at the first mismatch without a good record behind it. If
the machine has not restarted since, any mismatch is damage: a process writes a batch before its record, so a
kill leaves no bad record. Kept batches are written again and synced, because the page cache may hold bytes
that the disk never got.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NoReturn

from tank_node.log.log import PartitionLog
from tank_node.log.recovery.checkpoint import CheckpointEntry
from tank_node.log.recovery.folder_files import FolderScan, rewrite, scan, take_over
from tank_node.log.recovery.mend import mend
from tank_node.segment import swap
from tank_node.segment.errors import DiskFailed
from tank_node.segment.read_back import end_of, good_in_a_row, is_good_behind
from tank_node.segment.record import RECORD_BYTES
from tank_node.segment.segment import INDEX, LOG, Segment


@dataclass(slots=True)
class Found:
    """What opening one log found."""

    messages: int = 0
    """Number of messages checked against their checksums."""
    bytes: int = 0
    """Bytes checked against their checksums."""
    cut: int = 0
    """Bytes behind the last whole batch that were cut."""
    sentence: str = ""
    """A sentence on damage, or on a loss by mending; empty when there is none."""


class _Damage(Exception):
    """Stored batches are missing or wrong. The log's `segments` hold those before."""

    def __init__(self, sentence: str, given_out: int = 0) -> None:
        super().__init__(sentence)
        self.given_out = given_out
        """The last number that was given out, though no good batch may have it; 0: unknown."""


def open_files_of(
    log: PartitionLog, entry: CheckpointEntry | None, now_ms: int, *, clean: bool, sure: bool
) -> Found:  # fmt: skip
    """Opens the files of a log's folder, and checks them if necessary.

    entry: the log's checkpoint; clean: whether that was written at an orderly stop; sure: whether the machine
    has not restarted since. A damaged log becomes DAMAGED or, with replication factor 1, is mended. Raises
    StorageError when the files can't be read.
    """
    files = scan(log)
    found = Found()
    entry = entry or CheckpointEntry(log.topic_id, log.partition)
    log.high_water_mark = entry.high_water_mark
    log.segments.log_start = entry.log_start
    log.segments.compacted_through = entry.compacted_through
    if clean and not entry.damaged and _matches(files, entry):
        _believe(log, files, entry)
        return found
    # The entry's log start may come from a first batch behind a gap that was truncated since: it would hide
    # the batches that came instead.
    log.segments.log_start = min(log.log_start, entry.recovery_point + 1)
    try:
        if entry.damaged:
            _take_damaged(log, files)
        _check(log, files, entry, found, sure=sure)
    except _Damage as damage:
        found.sentence = str(damage)
        log.health.recovery_point = max(entry.recovery_point, damage.given_out)
        log.segments.epochs = list(entry.epochs)
        log.tail.end_at(log.segments[-1].last if log.segments.list else 0)
        log.synced = min(log.last, entry.recovery_point)
        log.damage(found.sentence)
        if log.settings.replication_factor == 1:  # no other replica can be copied
            found.sentence += "; " + mend(log, now_ms).sentence()
    return found


def _matches(files: FolderScan, entry: CheckpointEntry) -> bool:
    """Whether the files have the names and sizes of the clean checkpoint."""
    if not files.logs and not files.indexes:
        return entry.recovery_point == 0
    base = entry.end_base
    return (
        files.logs.keys() == files.indexes.keys()
        and max(files.logs) == base
        and files.logs[base] == entry.end_log_bytes
        and files.indexes[base] == entry.end_records * RECORD_BYTES
    )


def _believe(log: PartitionLog, files: FolderScan, entry: CheckpointEntry) -> None:
    for base in files.bases:
        _add_segment(log, base, files.logs[base], files.indexes[base] // RECORD_BYTES)
    log.tail.end_at(entry.recovery_point)
    log.synced = entry.recovery_point
    log.segments.epochs = list(entry.epochs)
    log.segments.changed = False


def _take_damaged(log: PartitionLog, files: FolderScan) -> NoReturn:
    """Takes over a log that was damaged before the last stop, and is so even if its files look whole. Raises
    _Damage."""
    for base in files.bases:
        if base in files.logs and base in files.indexes:
            _add_segment(log, base, files.logs[base], files.indexes[base] // RECORD_BYTES)
    raise _Damage("bad batches were found before the last stop")


def _add_segment(log: PartitionLog, base: int, log_bytes: int, records: int) -> Segment:
    segment = Segment(log.segments.files, log.folder, base, log_bytes, records)
    log.segments.add(segment)
    return segment


def _check(log: PartitionLog, files: FolderScan, entry: CheckpointEntry, found: Found, *, sure: bool) -> None:
    """Takes over the segments and checks those behind the recovery point. Raises _Damage."""
    point = entry.recovery_point
    bases = files.bases
    if not bases and point:
        raise _Damage(f"the folder {log.folder} is empty, though messages up to {point} were stored")
    if not bases:
        return
    first_checked = _take_covered(log, files, point)
    last = log.segments[-1].last if log.segments.list else 0
    kept: list[tuple[Segment, int]] = []
    for at, base in enumerate(bases[first_checked:], first_checked):
        if base not in files.indexes or base not in files.logs:
            if files.logs.get(base, 0) or files.indexes.get(base, 0) or at < len(bases) - 1 or last < point:
                raise _Damage(_missing(log, base, files))
            _remove_rest(log, files, bases[at:], found)
            break
        if log.segments.list and base - 1 > max(last, point):
            # Batches before this segment never reached the disk: compaction removes none above the point.
            if last < point or _any_good(log, files, bases[at:]):
                raise _Damage(f"the messages {last + 1} to {base - 1} are missing, and good ones follow")
            _remove_rest(log, files, bases[at:], found)
            break
        log_bytes = files.logs[base]
        segment = Segment(
            log.segments.files, log.folder, base, log_bytes, files.indexes[base] // RECORD_BYTES
        )
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
        log.segments.list.append(segment)
        log.segments.size_bytes += end
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
    """The last number given out by the bad records: as far as each follows the one before, and one number at
    least."""
    end, through = end_of(segment, good), last + 1
    for record in segment.index.records(good):
        if (record.first, record.position) != (last + 1, end):
            break
        through = last = record.last
        end = record.end
    return through


def _end_at(log: PartitionLog, segment: Segment, good: int) -> None:
    """Takes over the good batches of a damaged segment, in memory only."""
    segment.index.cut(good)
    segment.log_end.length = end_of(segment, good)
    log.segments.add(segment)


def _take_covered(log: PartitionLog, files: FolderScan, point: int) -> int:
    """Takes over the segments wholly below the recovery point, without a check. Returns their number: the
    next segment may hold the recovery point. Raises _Damage."""
    bases = files.bases
    covered = max((i for i, base in enumerate(bases) if base <= point), default=0)
    for base in bases[:covered]:
        if base not in files.logs or base not in files.indexes:
            raise _Damage(_missing(log, base, files))
        _add_segment(log, base, files.logs[base], files.indexes[base] // RECORD_BYTES)
    return covered


def _first_behind(segment: Segment, point: int) -> int:
    """The first record that the recovery point does not cover.

    After a loss of power records behind it may be zeros, which must not mislead the search: so only records
    with numbers of this segment count as covered.
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
    """Counts the good records in a row from `start` on. Returns their number, the records before `start`
    included, and their last number. last: the number that the first must be above.
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
    """Whether any of these segments holds a record that matches its batch."""
    for base in bases:
        records = files.indexes.get(base, 0) // RECORD_BYTES
        log_bytes = files.logs.get(base, 0)
        if (
            records
            and log_bytes
            and is_good_behind(
                Segment(log.segments.files, log.folder, base, log_bytes, records), -1, log_bytes
            )
        ):
            return True
    return False


def _cut(segment: Segment, count: int, end: int) -> None:
    """Cuts both files behind the good batches: the index first, with an fsync."""
    try:
        segment.index.cut(count)
        segment.index_end.cut_back(count * RECORD_BYTES)
        segment.index_end.file.sync()
        segment.log_end.cut_back(end)
    except OSError as error:
        raise DiskFailed(f"cannot cut {segment.path(LOG)}: {error.strerror}") from error


def _remove_rest(log: PartitionLog, files: FolderScan, bases: list[int], found: Found) -> None:
    """Removes segments without good batches, the last first, so that a crash leaves no gap."""
    for base in reversed(bases):
        found.cut += files.logs.get(base, 0)
        try:
            swap.remove(log.disk, log.folder, base)
        except OSError as error:
            raise DiskFailed(f"cannot remove segment {base} of {log.folder}: {error}") from error
        log.segments.folder_dirty = True
