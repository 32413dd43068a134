"""Reading stored batches again, to find what the disk has spoiled: before the first read of what an earlier
process wrote, and all of it, a few at a time."""

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
    """How far the scrub of one log has come: it goes on at this number."""

    number: int = 0


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
    for segment in log.segments:
        if segment.last < place.number and segment is not log.segments[-1]:
            continue
        start = segment.index.containing(place.number) if place.number else 0
        if start:
            before = segment.index.record(start - 1)
            last, position = before.last, before.end
        else:
            last, position = segment.base - 1, 0
        for i, record, batch in batches(segment, start, segment.size_bytes, max_bytes):
            if record.position != position or record.first <= last or not matches(record, batch):
                place.number = 0
                sentence = (
                    f"batch {i} of {segment.path('.log')} (behind number {last}) does not match its checksum"
                )
                return Scrubbed(checked, sentence, False)
            last, position = record.last, record.end
            checked += record.length
            place.number = last + 1
            if checked >= max_bytes:
                return Scrubbed(checked, "", False)
        if position != segment.size_bytes:
            place.number = 0
            return Scrubbed(
                checked, f"{segment.path('.log')} has bytes behind number {last} without a record", False
            )
    place.number = 0
    return Scrubbed(checked, "", True)
