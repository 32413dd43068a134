"""The records of a batch of magic 2, uncompressed: reads them into columns, checks them, and writes them.

A record is `varint length, i8 attributes, varint timestamp_delta, varint offset_delta, varint key length,
key, varint value length, value, varint headers`, and for each header `varint key length, key, varint value
length, value`. A length of -1 means null; the key of a header is never null. The attributes have no meaning:
writers set them to 0, and readers ignore them. No function here allocates memory by the claim of a length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from tank_protos.kafka.errors import InvalidRecords, invalid
from tank_protos.kafka.varint import encode as _varint
from tank_protos.kafka.varint import read_i32, read_i64
from tank_protos.kernel import twin
from tank_protos.wire.buffer import Buffer

RECORD_BYTES: Final = 7
"""The size of the smallest record: length, attributes, two deltas, two lengths, no headers."""
_BLOCK: Final = 256
"""The number of records that `iterate` has in memory at once."""
_NO_ATTRIBUTES: Final = b"\0"

Headers: TypeAlias = tuple[tuple[bytes, bytes | None], ...]
"""Names and values, in the order in which the client sent them. A name may occur twice."""


class KafkaRecord(NamedTuple):
    """One record of a batch."""

    key: bytes | None
    value: bytes | None
    offset_delta: int
    """The record's offset less the batch's base offset."""
    timestamp_delta: int
    """The record's timestamp less the batch's base timestamp, in milliseconds."""
    headers: Headers = ()


class RecordColumns(NamedTuple):
    """Records in columns. All lists have one entry for each record."""

    offset_deltas: list[int]
    timestamp_deltas: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: dict[int, Headers]
    """Of the records that have headers, by their place in the columns."""


@twin("kafka_records")
def read_columns(payload: bytes, count: int) -> RecordColumns:
    """Returns all records of a payload, which must be `count`. Raises InvalidRecords."""
    _check_count(len(payload), count)
    columns, at = _read(payload, 0, 0, count)
    _check_end(len(payload), at, count)
    return columns


def iterate(payload: bytes, count: int) -> Iterator[KafkaRecord]:
    """Yields the records of a payload, with few of them in memory at once. Raises InvalidRecords at the first
    wrong record."""
    _check_count(len(payload), count)
    at = done = 0
    while done < count:
        columns, at = _read(payload, at, done, min(_BLOCK, count - done))
        find = columns.headers.get
        for place, (offset, timestamp, key, value) in enumerate(zip(*columns[:4], strict=True)):
            yield KafkaRecord(key, value, offset, timestamp, find(place, ()))
        done += len(columns.values)
    _check_end(len(payload), at, count)


def _read(payload: bytes, at: int, first: int, count: int) -> tuple[RecordColumns, int]:
    """Returns `count` records from place `at` on, and the place behind them. `first`: the index of the first
    of them in the batch."""
    end = len(payload)
    offsets: list[int] = []
    timestamps: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: dict[int, Headers] = {}
    index = 0
    try:
        for index in range(count):
            # Most numbers have one byte; a call for each number would take half of the time.
            raw = payload[at]
            if raw < 0x80 and not raw & 1:
                at += 1
                stop = at + (raw >> 1)
            else:
                length, at = read_i32(payload, at)
                stop = at + length
            if not at < stop <= end:
                raise invalid("the record's length leads out of its batch", first + index)
            at += 1
            raw = payload[at]
            if raw < 0x80:
                at += 1
                timestamps.append((raw >> 1) ^ -(raw & 1))
            else:
                delta, at = read_i64(payload, at)
                timestamps.append(delta)
            raw = payload[at]
            if raw < 0x80:
                at += 1
                offsets.append((raw >> 1) ^ -(raw & 1))
            else:
                delta, at = read_i32(payload, at)
                offsets.append(delta)
            if payload[at] == 1:
                at += 1
                keys.append(None)
            else:
                key, at = _bytes(payload, at)
                keys.append(key)
            value, at = _bytes(payload, at)
            values.append(value)
            if payload[at]:
                headers[index], at = _headers(payload, at, stop)
            else:
                at += 1
            if at != stop:
                raise invalid(f"the record's parts end {at - stop:+} bytes from its length", first + index)
    except InvalidRecords as error:
        error.index = first + index if error.index is None else error.index
        raise
    except IndexError:
        raise invalid("the records end inside a record", first + index) from None
    return RecordColumns(offsets, timestamps, keys, values, headers), at


def _bytes(payload: bytes, at: int) -> tuple[bytes | None, int]:
    raw = payload[at]
    if raw < 0x80 and not raw & 1:
        at += 1
        length = raw >> 1
    else:
        length, at = read_i32(payload, at)
        if length < 0:
            return None, _null(length, at)
    stop = at + length
    # A slice beyond the end is short, but `stop` is not, and differs from the end of the record.
    return payload[at:stop], stop


def _null(length: int, at: int) -> int:
    if length != -1:
        raise invalid(f"a length of {length}")
    return at


def _headers(payload: bytes, at: int, stop: int) -> tuple[Headers, int]:
    count, at = read_i32(payload, at)
    # Each takes two bytes at least.
    if count < 0 or 2 * count > stop - at:
        raise invalid(f"{count} headers in {stop - at} bytes")
    found: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        key, at = _bytes(payload, at)
        if key is None:
            raise invalid("a header without a key")
        value, at = _bytes(payload, at)
        found.append((key, value))
    return tuple(found), at


def placed_deltas(offset_deltas: list[int], last_offset_delta: int) -> Sequence[int]:
    """Returns the offset deltas of a stored batch if they rise and end at its last one or before; else 0, 1,
    2 and so on. Brokers store records without a look at them, and a reader must not meet an offset twice."""
    count = len(offset_deltas)
    dense = range(count)
    if not count or offset_deltas == list(dense):
        return dense
    rising = all(before < after for before, after in pairwise(offset_deltas))
    return (
        offset_deltas
        if rising and offset_deltas[0] >= 0 and offset_deltas[-1] <= last_offset_delta
        else dense
    )


@twin("kafka_records")
def walk(
    payload: Buffer, count: int, last_offset_delta: int, *, dense: bool = True, keyed: bool = False
) -> None:
    """Checks all records of a payload without making objects of them. Raises InvalidRecords.

    The payload must be `count` records, with rising offset deltas up to `last_offset_delta`. dense: the
    deltas must be 0, 1, 2 and so on, as producers write them. keyed: each record must have a key, as
    compacted topics need it.
    """
    end = len(payload)
    _check_count(end, count)
    at = index = 0
    previous = -1
    try:
        for index in range(count):
            length, at = read_i32(payload, at)
            stop = at + length
            if not at < stop <= end:
                raise invalid("the record's length leads out of its batch", index)
            at += 1
            if payload[at] < 0x80:
                at += 1
            else:
                _, at = read_i64(payload, at)
            delta, at = read_i32(payload, at)
            if (delta != index) if dense else not previous < delta <= last_offset_delta:
                raise invalid(f"the record has the offset delta {delta} behind {previous}", index)
            previous = delta
            if keyed and payload[at] & 1:
                raise invalid("the record has no key, which a compacted topic wants", index)
            # A length below 64 is its one byte, halved.
            raw = payload[at]
            at = at + 1 + (raw >> 1) if raw < 0x80 and not raw & 1 else _skip(payload, at, True)
            raw = payload[at]
            at = at + 1 + (raw >> 1) if raw < 0x80 and not raw & 1 else _skip(payload, at, True)
            at = _skip_headers(payload, at, stop) if payload[at] else at + 1
            if at != stop:
                raise invalid(f"the record's parts end {at - stop:+} bytes from its length", index)
    except InvalidRecords as error:
        error.index = index if error.index is None else error.index
        raise
    except IndexError:
        raise invalid("the records end inside a record", index) from None
    _check_end(end, at, count)


def _skip_headers(payload: Buffer, at: int, stop: int) -> int:
    count, at = read_i32(payload, at)
    if count < 0 or 2 * count > stop - at:
        raise invalid(f"{count} headers in {stop - at} bytes")
    for _ in range(count):
        at = _skip(payload, _skip(payload, at, False), True)
    return at


def _skip(payload: Buffer, at: int, may_be_null: bool) -> int:
    """Returns the place behind a length and its content, which may be behind the record's end: the caller
    compares."""
    length, at = read_i32(payload, at)
    if length < 0:
        if not may_be_null:
            raise invalid("a header without a key")
        return _null(length, at)
    return at + length


def _check_count(size: int, count: int) -> None:
    if count < 0 or count * RECORD_BYTES > size:
        raise invalid(f"{count} records in {size} bytes")


def _check_end(size: int, at: int, count: int) -> None:
    if at != size:
        raise invalid(f"{size - at} bytes follow the {count} records of the batch")


def encode(records: Iterable[KafkaRecord]) -> bytes:
    """Returns the records as a batch holds them, uncompressed."""
    return b"".join(map(_encoded, records))


@twin("kafka_encode")
def encode_columns(
    offset_deltas: Sequence[int],
    timestamp_deltas: Sequence[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Mapping[int, Headers] | None = None,
) -> bytes:
    """Returns records as a batch holds them, uncompressed. The columns have one length; `headers` has those
    of the records that have some, by their place in the columns."""
    parts: list[bytes] = []
    find = headers.get if headers else None
    rows = zip(offset_deltas, timestamp_deltas, keys, values, strict=True)
    for index, (offset, timestamp, key, value) in enumerate(rows):
        head = _NO_ATTRIBUTES + _varint(timestamp) + _varint(offset)
        head += b"\x01" if key is None else _varint(len(key)) + key
        found = find(index) if find is not None else None
        tail = _encoded_headers(found) if found else b"\0"
        if value is None:
            parts.append(_varint(len(head) + 1 + len(tail)) + head + b"\x01" + tail)
        else:
            head += _varint(len(value))
            parts += (_varint(len(head) + len(value) + len(tail)) + head, value, tail)
    return b"".join(parts)


def _encoded_headers(headers: Headers) -> bytes:
    parts = [_varint(len(headers))]
    for key, value in headers:
        parts += (_varint(len(key)), key, *_nullable(value))
    return b"".join(parts)


def _encoded(record: KafkaRecord) -> bytes:
    parts = [
        _NO_ATTRIBUTES,
        _varint(record.timestamp_delta),
        _varint(record.offset_delta),
        *_nullable(record.key),
        *_nullable(record.value),
        _encoded_headers(record.headers),
    ]
    body = b"".join(parts)
    return _varint(len(body)) + body


def _nullable(content: bytes | None) -> tuple[bytes, bytes]:
    return (b"\x01", b"") if content is None else (_varint(len(content)), content)
