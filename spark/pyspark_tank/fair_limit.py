"""How the messages of a limited batch are shared out among partitions, so that none starves. Pure."""

from __future__ import annotations

from dataclasses import replace

from pyspark_tank.offsets import OffsetRange


class FairLimit:
    """The limit of one query's batches (`maxOffsetsPerTrigger`). It remembers whose turn is next."""

    def __init__(self) -> None:
        self._last: tuple[str, int] | None = None
        """The partition that got the last message of a turn; the next turn begins behind it."""

    def limit(self, ranges: list[OffsetRange], most: int) -> list[OffsetRange]:
        """Shortens `ranges` (sorted by topic and partition, none empty) to at most `most` messages together.
        First each partition gets one message, in turns that continue where the last batch's ended; the rest
        is shared in proportion to the waiting messages. So no partition waits for ever.
        """
        waiting = sum(part.size for part in ranges)
        if waiting <= most:
            return ranges
        turn = self._turn(ranges)
        shares = [0] * len(ranges)
        for index in turn[:most]:
            shares[index] = 1
        left = most - min(most, len(ranges))
        unshared = waiting - len(ranges)
        if left:
            for index, part in enumerate(ranges):
                shares[index] += (part.size - 1) * left // unshared
        # What rounding leaves is less than one message for each partition that has more than its share.
        rounding = most - sum(shares)
        for index in turn:
            if rounding == 0:
                break
            if shares[index] < ranges[index].size:
                shares[index] += 1
                rounding -= 1
        last = ranges[turn[min(most, len(turn)) - 1]]
        self._last = last.topic, last.partition
        return [
            replace(part, end=part.start + share) for part, share in zip(ranges, shares, strict=True) if share
        ]

    def _turn(self, ranges: list[OffsetRange]) -> list[int]:
        """The indexes of `ranges` in the order of this turn."""
        count = len(ranges)
        if self._last is None:
            # A query that is started for each batch has no memory: its offsets decide where to begin.
            first = sum(part.start for part in ranges) % count
        else:
            behind = (i for i, part in enumerate(ranges) if (part.topic, part.partition) > self._last)
            first = next(behind, 0)
        return [(first + step) % count for step in range(count)]
