"""Reading stored batches again, to find what the disk has spoiled: before the first read of what an earlier
process wrote, and all of it, a few at a time."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tank_node.log.errors import LogDamaged
from tank_node.log.read_back import batches
from tank_node.log.record import matches
from tank_node.log.segment import INDEX, LOG, Segment

if TYPE_CHECKING:
    from tank_node.log.log import PartitionLog


FIRST_READ_BYTES = 512 * 1024
"""Of a segment that isn't checked to its end, a read takes so much at most: checking it takes under a
millisecond, or some where batches are tiny."""


def is_checked(segment: Segment, i: int) -> bool:
    """Whether everything from record `i` on was written by this process or has been checked by it."""
    first, end = segment.trusted
    return i >= segment.inherited or (first <= i and end >= segment.inherited)


def check_before_reading(segment: Segment, start: int, stop: int, number: int | None = None) -> None:
    """Checks the records from `start` up to `stop`, and their batches, as far as that wasn't done before.

    With a `number`: `start` must be the record that holds it, or the next; a spoiled index may have led the
    search astray, so the record before is checked, too. Raises LogDamaged.
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
    """How far the scrub of one log has come."""

    number: int = 0
    """It goes on at this one."""
    position: int = 0
    """Where the batch before it ends, in its segment."""


@dataclass(slots=True, frozen=True)
class Scrubbed:
    """What one step did. `bad` is a sentence about the first bad batch, else empty; `wrapped`: at the end."""

    bytes: int
    bad: str
    wrapped: bool


def scrub(log: "PartitionLog", place: ScrubPlace, max_bytes: int) -> Scrubbed:
    """Checks about `max_bytes` of written batches and their records. Raises StorageError when they can't be
    read."""
    checked = 0
    # By their names: what their records say is yet to be checked.
    first = max(bisect_right(log.segments, place.number, key=lambda segment: segment.base) - 1, 0)
    for segment in log.segments[first:]:
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
        if checked >= max_bytes and segment is not log.segments[-1]:
            return Scrubbed(checked, "", False)
    place.number = 0
    return Scrubbed(checked, "", True)


def _where(segment: Segment, place: ScrubPlace) -> tuple[int, int, int, int]:
    """The record where the scrub goes on, the one to begin with, and the number and the position behind which
    that one has to lie.

    The search may have been led astray by the very record that is to be checked, and answer the one behind
    it. Where the record before is not the one that was checked last, it is checked, too: it may also be
    another one since a compaction.
    """
    goes_on = start = segment.index.containing(place.number) if place.number else 0
    last, position = _end_before(segment, start)
    if start and (last + 1, position) != (place.number, place.position):
        start -= 1
        last, position = _end_before(segment, start)
    return goes_on, start, last, position


def _end_before(segment: Segment, i: int) -> tuple[int, int]:
    """The number and the position behind which record `i` has to lie."""
    if not i:
        return segment.base - 1, 0
    before = segment.index.record(i - 1)
    return before.last, before.end
