"""The messages of a batch, and how they are split among tasks. Pure.

A range is [start, end): offsets are sequence numbers, the end is the first one that isn't read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark_tank.positions import Offsets

FIRST_OFFSET = 1  # sequence numbers begin at 1


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The messages `start` to `end - 1` of one partition. `topic_id` 0: it is not known."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: int = 0

    @property
    def size(self) -> int:
        return self.end - self.start


def ranges_between(
    start: Mapping[str, Mapping[int, int]], end: Offsets, topic_ids: Mapping[str, int] | None = None
) -> list[OffsetRange]:
    """One range for every partition of `end` that has something to read, by topic and partition.

    A partition that `start` doesn't know is new, and read from its first message.
    """
    ranges = []
    for topic in sorted(end):
        known = start.get(topic, {})
        topic_id = (topic_ids or {}).get(topic, 0)
        for partition in sorted(end[topic]):
            begin = known.get(partition, FIRST_OFFSET)
            if end[topic][partition] > begin:
                ranges.append(OffsetRange(topic, partition, begin, end[topic][partition], topic_id))
    return ranges


def split(
    ranges: list[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Splits the messages into more ranges: at least `min_partitions` (where there are as many messages), and
    none of more than `max_records`. The same input is always split in the same way.
    """
    if max_records is not None:
        ranges = [piece for part in ranges for piece in _cut(part, -(-part.size // max_records))]
    if min_partitions is None or min_partitions <= len(ranges) or not ranges:
        return ranges
    pieces = [1] * len(ranges)
    total = sum(part.size for part in ranges)
    for index, part in enumerate(ranges):
        pieces[index] = max(1, min(part.size, part.size * min_partitions // total))
    missing = min(min_partitions, total) - sum(pieces)
    while missing > 0:
        # The range whose pieces are largest gets one more.
        index = max(
            (i for i in range(len(ranges)) if pieces[i] < ranges[i].size),
            key=lambda i: (ranges[i].size / pieces[i], -i),
        )
        pieces[index] += 1
        missing -= 1
    return [piece for part, count in zip(ranges, pieces, strict=True) for piece in _cut(part, count)]


def advance(start: Mapping[str, Mapping[int, int]], end: Offsets, ranges: list[OffsetRange]) -> Offsets:
    """Returns the offsets after reading `ranges`: a partition of `end` that is not among them stays at its
    start.

    A start above the end (the topic was created again, or lost its last messages) becomes the end.
    """
    reached: Offsets = {}
    for topic, partitions in end.items():
        known = start.get(topic, {})
        reached[topic] = {
            partition: min(known.get(partition, FIRST_OFFSET), until)
            for partition, until in partitions.items()
        }
    for part in ranges:
        reached[part.topic][part.partition] = part.end
    return reached


def _cut(part: OffsetRange, pieces: int) -> list[OffsetRange]:
    """`part` in so many ranges of nearly the same size."""
    size = part.size
    bounds = [part.start + size * piece // pieces for piece in range(pieces + 1)]
    return [
        replace(part, start=bounds[piece], end=bounds[piece + 1])
        for piece in range(pieces)
        if bounds[piece + 1] > bounds[piece]
    ]
