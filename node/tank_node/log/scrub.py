"""Reading stored batches again, a few at a time, to find what the disk has spoiled since."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tank_node.log.record import matches
from tank_node.log.recovery import batches

if TYPE_CHECKING:
    from tank_node.log.log import PartitionLog


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
