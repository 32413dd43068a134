"""Converts record batches to TANK's batches and back, for topics that clients of both protocols use.

A record that could not come back as its client wrote it is refused, with its index. A lenient topic accepts
it without the parts that do not fit, which are counted; the record itself always stays, because the client
computes offsets by it. An offset is the sequence number less 1. A batch of TANK's is a bundle with its length
before it. Bundles have neither headers nor nulls; in a compacted topic, a key with empty content is a
tombstone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from tank_protos import bundle
from tank_protos.bundle import MAX_KEY_BYTES, MAX_SEQUENCE_NUMBER, Codec, Columns
from tank_protos.kafka.codecs import KafkaCodec, pack
from tank_protos.kafka.errors import InvalidRecords, RecordsFault, invalid
from tank_protos.kafka.limits import MAX_CONVERTED_RECORDS, MAX_UNPACKED_BYTES
from tank_protos.kafka.record_batch import (
    ANY_TIME,
    CONTROL,
    LOG_APPEND_TIME,
    MAGIC,
    NO_EPOCH,
    NO_PRODUCER,
    NO_TIMESTAMP,
    RecordBatchHeader,
    columns_of,
    seal,
)
from tank_protos.kafka.records import RecordColumns, encode_columns, placed_deltas
from tank_protos.kernel import twin
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import InvalidBundle

_MOST_DELTA: Final = 2**31 - 1
_ADVICE: Final = "a topic with log.format=kafka keeps it"


class Losses(NamedTuple):
    """The numbers of records that lost a part, because TANK's format cannot hold it."""

    keys: int = 0
    """Keys that are empty, which TANK reads as no key, or have more than 255 bytes."""
    values: int = 0
    """Null values that became empty; in a compacted topic, empty values that became tombstones."""
    headers: int = 0
    timestamps: int = 0
    """Timestamps before 1970 or beyond an i64; the records have the time of the append instead."""


class TankBatch(NamedTuple):
    """Records in TANK's format."""

    data: bytes
    """The bundle, with its length before it; empty if the batch has no records for clients."""
    losses: Losses


class _Misfits(NamedTuple):
    """The indexes of records with a part that TANK's format cannot hold, for each part of `Losses`."""

    keys: list[int]
    values: list[int]
    headers: list[int]
    timestamps: list[int]


@twin("kafka_to_tank")
def produced_to_tank(
    batch: Buffer,
    header: RecordBatchHeader,
    *,
    append_ms: int,
    compacted: bool,
    lenient: bool,
    payload: bytes | None = None,
    max_bytes: int = MAX_UNPACKED_BYTES,
) -> TankBatch:
    """Converts a Kafka client's batch for a topic of TANK's format: to a dense bundle, compressed if the
    batch is.

    `header` is the result of `record_batch.check`. append_ms: the time for records without a timestamp.
    compacted: the topic is compacted, so that null values are tombstones and each record needs a key.
    payload: the records, if the caller has unpacked them. Raises InvalidRecords for the first record that
    does not fit; lenient: only for a key that a compacted topic cannot hold.
    """
    columns = columns_of(batch, header, max_bytes, payload)
    times, odd_times = _times(header, columns.timestamp_deltas, append_ms)
    misfits = _Misfits(
        _odd_keys(columns.keys), _odd_values(columns.values, compacted), sorted(columns.headers), odd_times
    )
    if compacted:
        _check_keys(columns.keys, misfits.keys)
    if any(misfits) and not lenient:
        raise _refusal(misfits, columns)
    return TankBatch(
        bundle.as_batch(
            bundle.encode(
                columns.values,
                timestamps=times,
                keys=_without(columns.keys, misfits.keys),
                codec=_tank_codec(header),
            )
        ),
        Losses(*map(len, misfits)),
    )


@twin("kafka_to_tank")
def stored_to_tank(
    batch: Buffer,
    header: RecordBatchHeader,
    *,
    append_ms: int,
    sparse: bool,
    max_bytes: int = MAX_UNPACKED_BYTES,
) -> TankBatch:
    """Converts a stored record batch for a TANK client: to a bundle, compressed if the batch is.

    The bundle is sparse if the offsets have gaps, or if `sparse` asks for it, as behind a gap between
    batches. append_ms: the time for records without a timestamp. Control batches, and batches that compaction
    has emptied, give no bytes. Raises InvalidRecords.
    """
    if header.attributes & CONTROL or not header.records_count:
        return TankBatch(b"", Losses())
    columns = columns_of(batch, header, max_bytes)
    times, odd_times = _times(header, columns.timestamp_deltas, append_ms)
    misfits = _Misfits(_odd_keys(columns.keys), [], sorted(columns.headers), odd_times)
    keys = _without(columns.keys, misfits.keys)
    codec = _tank_codec(header)
    deltas = placed_deltas(columns.offset_deltas, header.last_offset_delta)
    if sparse or not isinstance(deltas, range):
        first = header.base_offset + 1
        if not 1 <= first <= MAX_SEQUENCE_NUMBER - header.last_offset_delta:
            raise invalid(f"a stored batch at offset {header.base_offset}")
        numbers = [first + delta for delta in deltas]
        made = bundle.encode_sparse(numbers, columns.values, timestamps=times, keys=keys, codec=codec)
    else:
        made = bundle.encode(columns.values, timestamps=times, keys=keys, codec=codec)
    return TankBatch(bundle.as_batch(made), Losses(*map(len, misfits)))


@twin("tank_to_kafka")
def produced_to_kafka(batch: Buffer, *, compacted: bool, max_bytes: int = MAX_UNPACKED_BYTES) -> bytes:
    """Converts a TANK client's batch for a topic of Kafka's format: to a record batch, compressed by snappy
    if the bundle is compressed.

    The offsets are those of a sparse bundle, or from 0 on. compacted: see `stored_to_kafka`. Raises
    InvalidBundle, and InvalidRecords for a message that does not fit.
    """
    columns, codec = _messages(batch, 1, max_bytes)
    numbers = columns.numbers
    if numbers[-1] - numbers[0] > _MOST_DELTA:
        index = bisect_right(numbers, numbers[0] + _MOST_DELTA)
        raise invalid(f"number {numbers[index]} is too far from the batch's first, {numbers[0]}", index)
    if max(columns.timestamps) > ANY_TIME:
        index = next(index for index, stamp in enumerate(columns.timestamps) if stamp > ANY_TIME)
        raise InvalidRecords(
            RecordsFault.INVALID_TIMESTAMP,
            f"record batches have no place for the timestamp {columns.timestamps[index]}",
            index,
        )
    return _record_batch(columns, NO_EPOCH, compacted, KafkaCodec.SNAPPY if codec else KafkaCodec.NONE)


@twin("tank_to_kafka")
def stored_to_kafka(
    batch: Buffer,
    first: int,
    *,
    leader_epoch: int,
    compacted: bool,
    max_bytes: int = MAX_UNPACKED_BYTES,
) -> bytes:
    """Converts a stored batch of TANK's for a Kafka client: to an uncompressed record batch, or to several if
    the numbers are too far apart for one.

    `first` is the number of a dense bundle's first message. compacted: the topic is compacted, and empty
    content with a key becomes a null value. Timestamps beyond an i64 become the greatest i64. Raises
    InvalidBundle.
    """
    columns, _ = _messages(batch, first, max_bytes)
    if max(columns.timestamps) > ANY_TIME:
        columns = columns._replace(timestamps=[min(stamp, ANY_TIME) for stamp in columns.timestamps])
    parts: list[bytes] = []
    begin, count = 0, len(columns.values)
    while begin < count:
        stop = bisect_right(columns.numbers, columns.numbers[begin] + _MOST_DELTA, begin)
        part = columns if stop - begin == count else _part(columns, begin, stop)
        parts.append(_record_batch(part, leader_epoch, compacted, KafkaCodec.NONE))
        begin = stop
    return b"".join(parts)


def _messages(batch: Buffer, first: int, max_bytes: int) -> tuple[Columns, Codec]:
    """Returns the messages of a bundle with its length before it, and the bundle's codec."""
    header = bundle.validate(memoryview(batch))
    if header.messages > MAX_CONVERTED_RECORDS:
        raise InvalidBundle(f"a bundle of {header.messages} messages, which are too many to be converted")
    return bundle.decode_columns(batch, first, max_bytes=max_bytes), header.codec


def _part(columns: Columns, begin: int, stop: int) -> Columns:
    return Columns(
        columns.numbers[begin:stop],
        columns.timestamps[begin:stop],
        None if columns.keys is None else columns.keys[begin:stop],
        columns.values[begin:stop],
    )


def _record_batch(columns: Columns, leader_epoch: int, compacted: bool, codec: KafkaCodec) -> bytes:
    numbers, stamps, keys, values = columns
    first, base_ms, count = numbers[0], stamps[0], len(values)
    contents: Sequence[bytes | None] = values
    if compacted and keys is not None and b"" in values:
        contents = [value if value or key is None else None for key, value in zip(keys, values, strict=True)]
    deltas = range(count) if isinstance(numbers, range) else [number - first for number in numbers]
    payload = encode_columns(
        deltas, [stamp - base_ms for stamp in stamps], [None] * count if keys is None else keys, contents
    )
    header = RecordBatchHeader(
        first - 1,
        0,
        leader_epoch,
        MAGIC,
        0,
        codec,
        deltas[-1],
        base_ms,
        max(stamps),
        *NO_PRODUCER,
        count,
    )
    return seal(header, pack(codec, payload))


def _tank_codec(header: RecordBatchHeader) -> Codec:
    return Codec.SNAPPY if header.codec else Codec.NONE


def _odd_keys(keys: list[bytes | None]) -> list[int]:
    # Three passes in C take less time than one in Python, and mostly all keys fit.
    if b"" not in keys and max(map(len, filter(None, keys)), default=0) <= MAX_KEY_BYTES:
        return []
    return [index for index, key in enumerate(keys) if key is not None and not 0 < len(key) <= MAX_KEY_BYTES]


def _odd_values(values: list[bytes | None], compacted: bool) -> list[int]:
    odd = b"" if compacted else None
    return [index for index, value in enumerate(values) if value == odd] if odd in values else []


def _times(header: RecordBatchHeader, deltas: list[int], append_ms: int) -> tuple[list[int] | int, list[int]]:
    """Returns the records' timestamps, as one number if all are the same, and the indexes of those that do
    not fit. A record without a timestamp, or with one that does not fit, has `append_ms`."""
    if header.attributes & LOG_APPEND_TIME:
        return max(header.max_timestamp_ms, 0), []
    base_ms = header.base_timestamp_ms
    least, greatest = base_ms + min(deltas), base_ms + max(deltas)
    if least >= 0 and greatest <= ANY_TIME:
        return least if least == greatest else [base_ms + delta for delta in deltas], []
    stamps = [base_ms + delta for delta in deltas]
    return (
        [stamp if 0 <= stamp <= ANY_TIME else append_ms for stamp in stamps],
        [index for index, stamp in enumerate(stamps) if not NO_TIMESTAMP <= stamp <= ANY_TIME],
    )


def _without(keys: list[bytes | None], odd: list[int]) -> list[bytes | None] | None:
    """Returns the keys without those at the `odd` indexes; None if no record has a key."""
    if odd:
        keys = keys.copy()
        for index in odd:
            keys[index] = None
    return keys if any(keys) else None


def _check_keys(keys: list[bytes | None], odd: list[int]) -> None:
    if None in keys:
        index = keys.index(None)
        if not odd or index < odd[0]:
            raise invalid("the record has no key, which a compacted topic wants", index)
    if odd:
        raise invalid(
            f"the record has a key of {len(keys[odd[0]] or b'')} bytes, where a compacted topic of TANK's "
            f"format takes 1 to {MAX_KEY_BYTES}; {_ADVICE}",
            odd[0],
        )


def _refusal(misfits: _Misfits, columns: RecordColumns) -> InvalidRecords:
    """Returns the error for the first record that does not fit."""
    index = min(part[0] for part in misfits if part)
    fault = RecordsFault.INVALID_RECORD
    if index in misfits.keys:
        length = len(columns.keys[index] or b"")
        what = f"a key of {length} bytes, where TANK's format has 1 to {MAX_KEY_BYTES}, or no key"
    elif index in misfits.values:
        value = columns.values[index]
        what = "a null value" if value is None else "an empty value, which would read as a tombstone"
    elif index in misfits.headers:
        what = "headers"
    else:
        fault = RecordsFault.INVALID_TIMESTAMP
        what = "a timestamp before 1970, or beyond an i64"
    return InvalidRecords(fault, f"the record has {what}; {_ADVICE}", index)
