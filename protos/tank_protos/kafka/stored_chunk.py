"""Chunks of stored record batches, as brokers send them to TANK's own client: reads them into columns.

A message's number is its record's offset and 1. Control batches, and batches that compaction has emptied,
have numbers and no messages. Each batch is checked against its checksum. Malformed bytes raise
`InvalidRecords`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tank_protos.bundle import DamagedPart
from tank_protos.kafka.errors import InvalidRecords, invalid
from tank_protos.kafka.limits import MAX_UNPACKED_BYTES
from tank_protos.kafka.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    RecordBatchHeader,
    batches,
    columns_of,
    read_header,
    verify,
)
from tank_protos.kafka.records import Headers, placed_deltas
from tank_protos.wire.buffer import Buffer

_LAST: Final = 2**63 - 2
"""The greatest number of a message."""


class StoredColumns(NamedTuple):
    """Messages by column; all columns are of one length."""

    numbers: Sequence[int]
    """Rising; a range where no number is missing."""
    timestamps: list[int]
    """Milliseconds; -1: the client gave the record none."""
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: dict[int, Headers]
    """Of the messages that have some, by their place in the columns."""


class SoundBatches(NamedTuple):
    """Batches of a chunk that follow one another and can be read, and the wanted numbers in them, both
    included."""

    data: memoryview
    lower: int
    upper: int


class ChunkReach(NamedTuple):
    """What the headers of a chunk say, without its records."""

    last: int
    """The last number that the whole batches take up, at most the upper bound; 0: there is no whole batch."""
    whole: bool
    """Whether there is a whole batch."""
    may_show: bool
    """Whether there may be a message between the bounds."""
    surely_shows: bool
    """Whether there is one for certain, because a batch that lies in the bounds lacks no record."""


def reach(chunk: Buffer, lower: int, upper: int) -> ChunkReach:
    """Returns how far the chunk's batches go. Raises InvalidRecords at a bad header, unless batches before it
    reach `lower`."""
    last, whole, may_show, surely_shows = 0, False, False, False
    try:
        for batch in batches(chunk):
            header = read_header(batch)
            first = header.base_offset + 1
            if not max(last, 0) < first <= _LAST or header.last_offset_delta < 0:
                raise invalid(f"a batch at offset {header.base_offset}, behind number {last}")
            whole = True
            if first > upper:
                break
            last = first + header.last_offset_delta
            if last >= lower and _has_messages(header):
                may_show = True
                if header.records_count > header.last_offset_delta:
                    surely_shows = True
    except InvalidRecords:
        if last < lower:
            raise
        # The batches before the bad one are good; the next fetch begins with the bad one.
    return ChunkReach(min(last, upper), whole, may_show, surely_shows)


def read_columns(
    chunk: Buffer, lower: int = 0, upper: int = _LAST, *, max_bytes: int = MAX_UNPACKED_BYTES
) -> StoredColumns:
    """Returns the messages of a chunk from number `lower` to `upper`. `max_bytes` bounds the unpacked size of
    a batch. A partial last batch is left out. Raises InvalidRecords."""
    return joined(list(iterate(chunk, lower, upper, max_bytes=max_bytes)))


def iterate(
    chunk: Buffer, lower: int = 0, upper: int = _LAST, *, max_bytes: int = MAX_UNPACKED_BYTES
) -> Iterator[StoredColumns]:
    """Yields the messages from number `lower` to `upper`: one StoredColumns, never empty, for each batch.
    Raises InvalidRecords where a bad batch is reached."""
    for batch in batches(chunk):
        header = verify(batch)
        first = header.base_offset + 1
        if first > upper:
            return
        if first + header.last_offset_delta >= lower and _has_messages(header):
            columns = _between(_columns(batch, header, max_bytes), lower, upper)
            if columns.values:
                yield columns


def joined(parts: list[StoredColumns]) -> StoredColumns:
    """Joins columns with rising numbers into one."""
    if len(parts) == 1:
        return parts[0]
    numbers: list[int] = []
    timestamps: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: dict[int, Headers] = {}
    for part in parts:
        at = len(values)
        headers.update((at + place, found) for place, found in part.headers.items())
        numbers += part.numbers
        timestamps += part.timestamps
        keys += part.keys
        values += part.values
    is_dense = bool(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1
    all_numbers = range(numbers[0], numbers[-1] + 1) if is_dense else numbers
    return StoredColumns(all_numbers, timestamps, keys, values, headers)


def split_damaged(
    chunk: Buffer, lower: int, upper: int, max_bytes: int = MAX_UNPACKED_BYTES
) -> list[SoundBatches | DamagedPart]:
    """Cuts a chunk with a bad batch into readable and unreadable parts, by rising numbers. For readers that
    got InvalidRecords; decodes everything once more. A batch without a readable header takes all numbers up
    to `upper`."""
    view = memoryview(chunk)
    parts: list[SoundBatches | DamagedPart] = []
    begin = at = last = 0
    try:
        for batch in batches(view):
            header = read_header(batch)
            first, last_of = header.base_offset + 1, header.base_offset + 1 + header.last_offset_delta
            if not last < first <= last_of:
                raise invalid(f"a batch at offset {header.base_offset}, behind number {last}")
            if first > upper:
                break
            try:
                _columns(batch, verify(batch), max_bytes)
            except InvalidRecords as error:
                _close(parts, view[begin:at], lower, min(first - 1, upper))
                begin = at + len(batch)
                if last_of >= lower:
                    parts.append(DamagedPart(max(first, lower), min(last_of, upper), str(error)))
            at += len(batch)
            last = last_of
    except InvalidRecords as error:
        _close(parts, view[begin:at], lower, min(last, upper))
        if last < upper:
            parts.append(DamagedPart(max(last + 1, lower), upper, str(error)))
        return parts
    _close(parts, view[begin:at], lower, min(last, upper))
    return parts


def _close(parts: list[SoundBatches | DamagedPart], data: memoryview, lower: int, through: int) -> None:
    if len(data) and through >= lower:
        parts.append(SoundBatches(data, lower, through))


def _has_messages(header: RecordBatchHeader) -> bool:
    return header.records_count > 0 and not header.attributes & CONTROL


def _columns(batch: memoryview, header: RecordBatchHeader, max_bytes: int) -> StoredColumns:
    if not _has_messages(header):
        return StoredColumns(range(0), [], [], [], {})
    records = columns_of(batch, header, max_bytes)
    first = header.base_offset + 1
    deltas = placed_deltas(records.offset_deltas, header.last_offset_delta)
    base_ms, stamps = header.base_timestamp_ms, records.timestamp_deltas
    if header.attributes & LOG_APPEND_TIME:
        times = [header.max_timestamp_ms] * len(stamps)
    elif base_ms < 0 or base_ms + max(stamps) > _LAST or base_ms + min(stamps) < 0:
        times = [header.timestamp_ms(delta) for delta in stamps]
    else:
        times = [base_ms + delta for delta in stamps]
    if isinstance(deltas, range):
        numbers: Sequence[int] = range(first, first + len(deltas))
    else:
        numbers = [first + delta for delta in deltas]
    return StoredColumns(numbers, times, records.keys, records.values, records.headers)


def _between(columns: StoredColumns, lower: int, upper: int) -> StoredColumns:
    numbers = columns.numbers
    begin, stop = bisect_left(numbers, lower), bisect_right(numbers, upper)
    if stop - begin == len(numbers):
        return columns
    headers = columns.headers
    if headers:
        wanted = range(begin, stop)
        headers = {place - begin: found for place, found in headers.items() if place in wanted}
    return StoredColumns(
        numbers[begin:stop],
        columns.timestamps[begin:stop],
        columns.keys[begin:stop],
        columns.values[begin:stop],
        headers,
    )
