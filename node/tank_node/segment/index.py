"""The index of one segment: its 64-byte records, searched by number, position and time.

The file is read in blocks and not mapped: with mmap a bad sector would end the process (SIGBUS). The newest
records stay in memory, so a read near the log's end touches no file. See
docs/decisions/0005-reading-the-index.md.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from tank_node.disk import Buffer
from tank_node.segment.errors import DiskFailed, LogDamaged
from tank_node.segment.open_files import OpenFile
from tank_node.segment.record import (
    APPEND_MS_AT,
    BREAK,
    FIRST_AT,
    FLAGS_AT,
    MAX_TIMESTAMP_AT,
    POSITION_AT,
    RECORD_BYTES,
    Record,
    read_record,
)

BLOCK_RECORDS: Final = 64
"""The records of one read while searching: a page of the page cache."""
TAIL_RECORDS: Final = 512
"""The fewest of the newest records that stay in memory; at most twice as many do, 64 KiB."""
SCAN_RECORDS: Final = 4096
"""The records of one read while scanning all."""

_POSITION: Final = f"{POSITION_AT}xI{RECORD_BYTES - POSITION_AT - 4}x"
_block_positions: Final = Struct("<" + BLOCK_RECORDS * _POSITION).unpack
_numbers: Final = Struct("<QI").unpack_from
_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")
_HAS_BREAK: Final = bytes(1 if flags & BREAK else 0 for flags in range(256))


class Index:
    """The records of one segment, in order. Its user writes the file, and tells it by `append` and `cut`."""

    __slots__ = ("_block_start", "_tail", "_tail_start", "base", "block", "count", "file", "positions")

    def __init__(self, file: OpenFile, count: int, base: int) -> None:
        self.file = file
        self.base = base
        """The segment's base: no number in it is lower."""
        self.count = count
        """Number of written records."""
        self._tail = bytearray()
        self._tail_start = count
        """The first record in `_tail`, which holds all from there on."""
        self.block = b""
        """The block of the file that was read last."""
        self._block_start = 0
        self.positions: tuple[int, ...] = ()
        """The positions in the log of the block's batches."""

    def append(self, records: bytes) -> None:
        """Adds records that the caller has written at the end of the file."""
        self._tail += records
        self.count += len(records) // RECORD_BYTES
        held = self.count - self._tail_start
        if held > 2 * TAIL_RECORDS:
            del self._tail[: (held - TAIL_RECORDS) * RECORD_BYTES]
            self._tail_start = self.count - TAIL_RECORDS

    def cut(self, count: int) -> None:
        """Forgets the records from `count` on; the caller cuts the file."""
        self.count = count
        if count <= self._tail_start:
            self._tail.clear()
            self._tail_start = count
        else:
            del self._tail[(count - self._tail_start) * RECORD_BYTES :]
        self.block = b""
        self.positions = ()

    def drop_memory(self) -> None:
        """Frees the records in memory; later reads take them from the file."""
        self.cut(self.count)
        self._tail.clear()
        self._tail_start = self.count

    def holder(self, i: int) -> tuple[Buffer, int]:
        """Returns a buffer that holds record `i`, and which record the buffer begins with. Raises
        StorageError."""
        if i >= self._tail_start:
            return self._tail, self._tail_start
        start = self._block_start
        if 0 <= i - start < len(self.positions):
            return self.block, start
        start = i - i % BLOCK_RECORDS
        block = self.read(start, min(BLOCK_RECORDS, self._tail_start - start))
        self.block = block
        self._block_start = start
        full = len(block) == BLOCK_RECORDS * RECORD_BYTES
        unpack = _block_positions if full else Struct("<" + len(block) // RECORD_BYTES * _POSITION).unpack
        self.positions = unpack(block)
        return block, start

    def read(self, start: int, count: int) -> bytes:
        """Reads the bytes of `count` records from the file. Raises StorageError."""
        file = self.file
        try:
            data = file.files.disk.read_at(file.files.use(file), count * RECORD_BYTES, start * RECORD_BYTES)
        except OSError as error:
            raise DiskFailed(f"cannot read {file.path}: {error.strerror}") from error
        if len(data) != count * RECORD_BYTES:
            raise LogDamaged(f"{file.path} has become shorter")
        return data

    def record(self, i: int) -> Record:
        holder, start = self.holder(i)
        return read_record(holder, (i - start) * RECORD_BYTES)

    def records(
        self, start: int = 0, end: int | None = None, at_once: int = SCAN_RECORDS
    ) -> Iterator[Record]:
        """Yields the records from `start` to `end` - 1; reads `at_once` of them at a time."""
        end = self.count if end is None else min(end, self.count)
        while start < end:
            piece = self.raw(start, min(start + at_once, end))
            for at in range(0, len(piece), RECORD_BYTES):
                yield read_record(piece, at)
            start += len(piece) // RECORD_BYTES

    def raw(self, start: int, end: int) -> bytes:
        """The bytes of the records from `start` to `end` - 1."""
        if start >= self._tail_start:
            from_ = (start - self._tail_start) * RECORD_BYTES
            return bytes(self._tail[from_ : (end - self._tail_start) * RECORD_BYTES])
        if end <= self._tail_start:
            return self.read(start, end - start)
        return self.read(start, self._tail_start - start) + self.raw(self._tail_start, end)

    def containing(self, number: int) -> int:
        """The first record whose batch ends at or behind `number`; `count` when there is none."""
        i = self._last_not_above(_U64, FIRST_AT, number, 0, self.base)
        if i < 0:
            return 0
        holder, start = self.holder(i)
        first, span = _numbers(holder, (i - start) * RECORD_BYTES)
        return i if first + span >= number else i + 1

    def last_ending_by(self, position: int, low: int, low_position: int) -> int:
        """The last record from `low` on whose batch ends at or before a position in the log; at least `low`.

        low_position: where the batch of `low` begins.
        """
        return max(self._last_not_above(_U32, POSITION_AT, position, low, low_position) - 1, low)

    def last_beginning_by(self, number: int, low: int, low_number: int) -> int:
        """The last record from `low` on whose batch begins at or below `number`; at least `low`.

        low_number: the first number of the batch of `low`.
        """
        return max(self._last_not_above(_U64, FIRST_AT, number, low, low_number), low)

    def first_at_time(self, timestamp_ms: int) -> int:
        """The first record with a running maximum of times at or after `timestamp_ms`; `count` if none."""
        return self._last_not_above(_U64, MAX_TIMESTAMP_AT, timestamp_ms - 1, 0) + 1

    def first_appended_at(self, append_ms: int) -> int:
        """The first record with an append time at or after `append_ms`; `count` if none."""
        return self._last_not_above(_U64, APPEND_MS_AT, append_ms - 1, 0) + 1

    def first_break(self, low: int, high: int) -> int:
        """The first record from `low` to `high` with BREAK; high + 1 if none."""
        at = self.raw(low, high + 1)[FLAGS_AT::RECORD_BYTES].translate(_HAS_BREAK).find(1)
        return low + at if at >= 0 else high + 1

    def _last_not_above(self, field: Struct, offset: int, value: int, low: int, low_value: int = -1) -> int:
        """The last record from `low` on whose field is <= value; low - 1 when there is none. The field never
        falls.

        low_value: about the field's value at `low`, for fields that rise evenly (numbers, positions): two
        guesses by proportion come before the bisection. -1: bisects at once. The records in memory are
        searched first.
        """
        read = field.unpack_from
        high = self.count  # the answer is in low - 1 .. high - 1
        high_value = -1
        start = self._tail_start
        if start < high:
            if start <= low or (high_value := read(self._tail, offset)[0]) <= value:
                first = max(start, low)
                return start + _bisect(read, self._tail, offset, value, first - start, high - start)
            high = start
        guesses = 2 if low_value >= 0 else 0
        while low < high:
            if guesses and high_value > low_value:
                guesses -= 1
                guess = low + (high - low) * (value - low_value) // (high_value - low_value)
                guess = min(max(guess, low), high - 1)
            elif guesses and high_value < 0:
                guess = high - 1  # its value is needed for a guess by proportion
            else:
                guess = (low + high) // 2
            holder, start = self.holder(guess)
            end = min(start + len(holder) // RECORD_BYTES, high)
            first = max(start, low)
            base = offset - start * RECORD_BYTES
            if (found := read(holder, base + first * RECORD_BYTES)[0]) > value:
                high, high_value = first, found
            elif (found := read(holder, base + (end - 1) * RECORD_BYTES)[0]) <= value:
                low, low_value = end, found
            else:
                return start + _bisect(read, holder, offset, value, first - start, end - start)
        return low - 1


def _bisect(
    read: Callable[[Buffer, int], tuple[int, ...]],
    holder: Buffer,
    offset: int,
    value: int,
    low: int,
    high: int,
) -> int:
    """The last record of a buffer, from `low` to `high` - 1, whose field is <= value; low - 1 when there is
    none."""
    while low < high:
        middle = (low + high) // 2
        if read(holder, offset + middle * RECORD_BYTES)[0] <= value:
            low = middle + 1
        else:
            high = middle
    return low - 1
