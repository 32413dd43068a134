"""Finding records by time, to the record: an index record only knows the running maximum of its batch."""

from collections.abc import Iterator
from typing import NamedTuple

from tank_node.limits import WALKED_BACK_BATCHES, WALKED_BATCHES, WALKED_BYTES, WALKED_MESSAGES
from tank_node.log.log import PartitionLog
from tank_node.segment.batch_format import InvalidBatch, Times
from tank_node.segment.batch_formats import format_of
from tank_node.segment.errors import DiskFailed
from tank_node.segment.record import Record


class FoundRecord(NamedTuple):
    """A record, and its own timestamp."""

    number: int
    timestamp_ms: int


class TimeSearch:
    """Searches one log, among the records that can be read up to number `through`."""

    __slots__ = ("_first", "_log", "_through", "walked_messages")

    def __init__(self, log: PartitionLog, through: int) -> None:
        self._log = log
        self._first = log.first_available
        self._through = through
        self.walked_messages = 0
        """The messages in the batches that were decoded: what the search has cost."""

    def first_at(self, timestamp_ms: int) -> FoundRecord | None:
        """The first record with a timestamp at or after `timestamp_ms`; None when there is none.

        A search that reaches a bound, or a batch that can't be decoded, ends with the first number that it
        has not looked at: a consumer that begins there misses nothing. Raises StorageError.
        """
        named, named_ms = self._log.find_time(timestamp_ms)
        walk = _BatchesByTime(self._log, self._begin(named), self._through)
        for times in walk:
            self.walked_messages += len(times.numbers)
            for number, own_ms in zip(*times, strict=True):
                if own_ms >= timestamp_ms and self._first <= number <= self._through:
                    return FoundRecord(number, own_ms)
        if walk.ended_early and walk.number <= self._through:
            return FoundRecord(walk.number, max(named_ms, timestamp_ms))
        return None

    def greatest(self) -> FoundRecord | None:
        """The first record with the greatest timestamp; None when none has a timestamp. Raises
        StorageError."""
        newest = self._newest()
        if newest is None:
            return None
        named, greatest_ms = self._log.find_time(newest.max_timestamp_ms)
        best = FoundRecord(0, -1)
        for times in _BatchesByTime(self._log, self._begin(named), self._through):
            self.walked_messages += len(times.numbers)
            for number, own_ms in zip(*times, strict=True):
                if own_ms > best.timestamp_ms and self._first <= number <= self._through:
                    best = FoundRecord(number, own_ms)
            # The greatest time that the index knows may be that of a record which is deleted.
            if times.numbers and times.numbers[-1] >= named and best.timestamp_ms >= greatest_ms:
                break
        return best if best.number else None

    def _begin(self, named: int) -> int:
        """The number to begin with, for the batch that the index names by its first number: some batches
        before, where these may hold later messages than the index knows."""
        if format_of(self._log.settings.format).tells_greatest_time:
            return max(named, self._first)
        back = WALKED_BACK_BATCHES
        for segment in reversed(self._log.segments.list):
            if segment.base < named:
                behind = segment.index.containing(named)
                if behind >= back:
                    return max(segment.index.record(behind - back).first, self._first)
                back -= behind
        return self._first

    def _newest(self) -> Record | None:
        """The last index record that begins at or below `through`."""
        for segment in reversed(self._log.segments.list):
            if segment.count and segment.first <= self._through:
                index = segment.index
                return index.record(index.last_beginning_by(self._through, 0, segment.first))
        return None


class _BatchesByTime:
    """The times of one batch after another, within the bounds."""

    __slots__ = ("_log", "_through", "ended_early", "number")

    def __init__(self, log: PartitionLog, number: int, through: int) -> None:
        self._log = log
        self.number = number
        """The first number that was not looked at."""
        self._through = through
        self.ended_early = False
        """Whether a bound ended the walk, or a batch that can't be decoded."""

    def __iter__(self) -> Iterator[Times]:
        size = messages = 0
        for _ in range(WALKED_BATCHES):
            found = self._next()
            if found is None:
                return
            record, batch = found
            self.number = max(record.first, self._log.first_available)
            size, messages = size + record.length, messages + record.messages
            if messages > WALKED_MESSAGES:
                break
            try:
                yield format_of(record.format).times(batch, record.first, WALKED_BYTES)
            except InvalidBatch:
                break
            if size > WALKED_BYTES:
                break
            self.number = record.last + 1
        self.ended_early = True

    def _next(self) -> tuple[Record, memoryview] | None:
        """The next batch that can be read, and its record."""
        stretch = self._log.read(self.number, 1, self._through)
        if stretch is None:
            return None
        file = stretch.file
        try:
            batch = file.files.disk.read_at(file.fd, stretch.length, stretch.position)
        except OSError as error:
            raise DiskFailed(f"cannot read {file.path}: {error.strerror}") from error
        finally:
            file.release()
        place = self._log.segments.find(stretch.first)
        assert place is not None, "a batch that was read has a record"
        segment, at = place
        return segment.index.record(at), memoryview(batch)
