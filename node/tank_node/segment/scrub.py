"""Checking stored batches against their records, to find bytes that the disk changed: before the first read
of batches that an earlier process wrote, and of all batches by the scrub, a few at a time."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from tank_node.segment.errors import LogDamaged
from tank_node.segment.read_back import batches
from tank_node.segment.record import matches
from tank_node.segment.segment import INDEX, LOG, Segment

FIRST_READ_BYTES = 512 * 1024
"""The most bytes that one read takes of a segment not checked to its end: checking them takes under a
millisecond, or some milliseconds where batches are tiny."""


def is_checked(segment: Segment, i: int) -> bool:
    """Whether this process has written or checked all batches from record `i` on."""
    first, end = segment.trusted
    return i >= segment.inherited or (first <= i and end >= segment.inherited)


def check_before_reading(segment: Segment, start: int, stop: int, number: int | None = None) -> None:
    """Checks the batches of the records from `start` to `stop` - 1 that were not checked before. Raises
    LogDamaged.

    number: `start` must be the record that holds this number, or the next record. A bad index may have misled
    the search, so the record before is checked too.
    """
    index = segment.index
    astray = number is not None and (
        index.record(start).last < number or (start > 0 and index.record(start - 1).last >= number)
    )
    stop = min(stop, segment.inherited)
    first, end = segment.trusted
    if not astray and (start >= stop or (first <= start and stop <= end)):
        return
    for i, record, batch in batches(segment, max(start - 1, 0), segment.size_bytes, FIRST_READ_BYTES):
        if i >= stop:
            break
        if not matches(record, batch):
            raise LogDamaged(f"batch {i} of {segment.path(LOG)} does not match its checksum")
    if astray:
        raise LogDamaged(f"the records of {segment.path(INDEX)} around number {number} are out of order")
    if first <= stop and start <= end:
        segment.trusted = (min(first, start), max(end, stop))
    elif stop - start > end - first:
        segment.trusted = (start, stop)


@dataclass(slots=True)
class ScrubPlace:
    """The place where the scrub of one log goes on."""

    number: int = 0
    """The next number to check."""
    position: int = 0
    """The position in its segment behind the batch that was checked last."""


@dataclass(slots=True, frozen=True)
class Scrubbed:
    """The result of one step. bad: a sentence on a bad batch, or empty. wrapped: whether the log's end was
    reached."""

    bytes: int
    bad: str
    wrapped: bool


def scrub(segments: Sequence[Segment], place: ScrubPlace, max_bytes: int) -> Scrubbed:
    """Checks about `max_bytes` of written batches against their records. Raises StorageError when they can't
    be read."""
    checked = 0
    # Segments are found by their names, because their records are not checked yet.
    first = max(bisect_right(segments, place.number, key=lambda segment: segment.base) - 1, 0)
    for segment in segments[first:]:
        goes_on, start, last, position = _where(segment, place)
        for i, record, batch in batches(segment, start, segment.size_bytes, max_bytes):
            if record.position != position or record.first <= last or not matches(record, batch):
                place.number = 0
                sentence = (
                    f"batch {i} of {segment.path('.log')} (behind number {last}) does not match its checksum"
                )
                return Scrubbed(checked, sentence, False)
            last, position = record.last, record.end
            checked += record.length
            if i < goes_on:
                continue
            place.number, place.position = last + 1, position
            if checked >= max_bytes and i + 1 < segment.count:
                return Scrubbed(checked, "", False)
        if position != segment.size_bytes:
            place.number = 0
            return Scrubbed(
                checked, f"{segment.path('.log')} has bytes behind number {last} without a record", False
            )
        if checked >= max_bytes and segment is not segments[-1]:
            return Scrubbed(checked, "", False)
    place.number = 0
    return Scrubbed(checked, "", True)


def _where(segment: Segment, place: ScrubPlace) -> tuple[int, int, int, int]:
    """Returns the record where the scrub goes on, the record to begin with, and the number and position
    behind which the latter must lie.

    A bad record may mislead the search to the record behind it. So the scrub begins one record earlier,
    unless that is the one checked last; a compaction may also have replaced it.
    """
    goes_on = start = segment.index.containing(place.number) if place.number else 0
    last, position = _end_before(segment, start)
    if start and (last + 1, position) != (place.number, place.position):
        start -= 1
        last, position = _end_before(segment, start)
    return goes_on, start, last, position


def _end_before(segment: Segment, i: int) -> tuple[int, int]:
    """The number and the position behind which record `i` must lie."""
    if not i:
        return segment.base - 1, 0
    before = segment.index.record(i - 1)
    return before.last, before.end
