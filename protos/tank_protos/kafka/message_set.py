"""Message sets, the format of Kafka's clients before 2017: magic 0, and magic 1 with timestamps.

A set is messages back to back: `i64 offset, i32 size` (of the bytes behind it), `u32 crc32` (zlib's, of the
bytes behind it), `i8 magic, i8 attributes, [i64 timestamp], i32 key length, key, i32 value length, value`;
big-endian, a length of -1 means null. A compressed set is one message, the wrapper, whose value unpacks to a
set. The wrapper has the offset of the last message in it; inside, offsets of magic 1 are relative. A broker
stores record batches: it converts the sets of old producers, and converts batches for old consumers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from tank_protos.kafka import record_batch, records
from tank_protos.kafka.codecs import KafkaCodec, codec_of, pack, unpack
from tank_protos.kafka.errors import InvalidRecords, RecordsFault, corrupt, invalid, too_large
from tank_protos.kafka.limits import MAX_CONVERTED_RECORDS, MAX_UNPACKED_BYTES
from tank_protos.kafka.record_batch import (
    CONTROL,
    LOG_APPEND_TIME,
    MAGIC,
    NO_EPOCH,
    NO_PRODUCER,
    NO_TIMESTAMP,
)
from tank_protos.kafka.records import placed_deltas
from tank_protos.wire.buffer import Buffer

_PLACE: Final = Struct(">qi")
_HEAD: Final = Struct(">qiIbb")
_STAMPED_HEAD: Final = Struct(">qiIbbq")
_HEADS: Final = (_HEAD, _STAMPED_HEAD)
"""The fields up to the length of the key, by magic."""
_BODIES: Final = (Struct(">bb"), Struct(">bbq"))
"""The fields from the magic to the length of the key, by magic."""
_COVERED_FROM: Final = 16
_LENGTH: Final = Struct(">i")
_I64_END: Final = 2**63
_NULL: Final = _LENGTH.pack(-1)
_LEAST_BYTES: Final = tuple(head.size - _PLACE.size + 2 * _LENGTH.size for head in _HEADS)
"""The smallest value of a message's size field, by magic."""


class OldMessage(NamedTuple):
    """One message of a set."""

    offset: int
    timestamp_ms: int
    """-1: the message has none, as all messages of magic 0."""
    key: bytes | None
    value: bytes | None


class OldMessages(NamedTuple):
    """The messages of a set."""

    messages: list[OldMessage]
    codec: KafkaCodec
    """The codec of the first wrapper; NONE if there is no wrapper."""
    append_time: bool
    """Whether a message has the time of its append, which only brokers set."""
    unpacked_bytes: int
    """The bytes that the wrappers have unpacked to."""


class ConvertedBatches(NamedTuple):
    """Record batches as a message set."""

    data: bytes
    next_offset: int
    """The offset behind the last record that was converted or left out."""
    unpacked_bytes: int
    """The bytes of records that were looked at, uncompressed."""


class _Raw(NamedTuple):
    """A message as the set holds it."""

    offset: int
    magic: int
    attributes: int
    timestamp_ms: int
    key: bytes | None
    value: memoryview | None


def decode(
    data: Buffer,
    *,
    cut: bool = False,
    max_bytes: int = MAX_UNPACKED_BYTES,
    max_messages: int = MAX_CONVERTED_RECORDS,
) -> OldMessages:
    """Returns the messages of a set, and those in its wrappers.

    cut: a partial message at the end is left out, as consumers do; else it is refused. `max_bytes` is a limit
    for all wrappers together. Some old producers write relative offsets that do not rise: then the last
    message has the wrapper's offset, and the others count down from there. Raises InvalidRecords.
    """
    messages: list[OldMessage] = []
    codec, append_time, left = KafkaCodec.NONE, False, max_bytes
    try:
        for raw in _raw_messages(memoryview(data), cut):
            append_time = append_time or _has_append_time(raw)
            wrapped = codec_of(raw.attributes)
            if wrapped == KafkaCodec.NONE:
                messages.append(_message(raw, raw.offset, raw.timestamp_ms))
            else:
                codec = codec or wrapped
                payload = _unwrapped(raw, wrapped, left)
                left -= len(payload)
                messages += _inner_messages(raw, payload, max_messages - len(messages))
            if len(messages) > max_messages:
                raise too_large(f"a set of more than {max_messages} messages")
    except InvalidRecords as error:
        # An error inside a wrapper has the place within the wrapper.
        error.index = len(messages) + (error.index or 0)
        raise
    return OldMessages(messages, codec, append_time, max_bytes - left)


def _raw_messages(data: memoryview, cut: bool) -> Iterator[_Raw]:
    at, end = 0, len(data)
    while at < end:
        if end - at >= _PLACE.size:
            _, size = _PLACE.unpack_from(data, at)
            stop = at + _PLACE.size + size
            if size < _LEAST_BYTES[0]:
                raise corrupt(f"a message of {size} bytes, where {_LEAST_BYTES[0]} are the least")
            if stop <= end:
                yield _raw_message(data[at:stop])
                at = stop
                continue
        if cut:
            return
        raise corrupt("the set ends inside a message")


def _raw_message(data: memoryview) -> _Raw:
    """Returns the message that fills the data. Raises InvalidRecords."""
    offset, _, crc, magic, attributes = _HEAD.unpack_from(data, 0)
    if magic not in (0, 1):
        raise invalid(f"a message of magic {magic}, where 0 and 1 are known")
    if crc32(data[_COVERED_FROM:]) != crc:
        raise corrupt("the message doesn't match its checksum")
    if len(data) < _PLACE.size + _LEAST_BYTES[magic]:
        raise invalid(f"a message of magic {magic} in {len(data)} bytes")
    timestamp_ms = NO_TIMESTAMP
    if magic:
        timestamp_ms = _STAMPED_HEAD.unpack_from(data, 0)[-1]
    key, at = _content(data, _HEADS[magic].size)
    value, at = _content(data, at)
    if at != len(data):
        raise invalid(f"{len(data) - at} bytes follow the value of a message")
    return _Raw(offset, magic, attributes, timestamp_ms, None if key is None else bytes(key), value)


def _content(data: memoryview, at: int) -> tuple[memoryview | None, int]:
    start = at + _LENGTH.size
    if start > len(data):
        raise invalid("the message ends before its value")
    (length,) = _LENGTH.unpack_from(data, at)
    if length == -1:
        return None, start
    if not 0 <= length <= len(data) - start:
        raise invalid(f"a length of {length} in a message, where {len(data) - start} bytes are left")
    return data[start : start + length], start + length


def _message(raw: _Raw, offset: int, timestamp_ms: int) -> OldMessage:
    return OldMessage(offset, timestamp_ms, raw.key, None if raw.value is None else bytes(raw.value))


def _unwrapped(wrapper: _Raw, codec: KafkaCodec, max_bytes: int) -> bytes:
    if codec == KafkaCodec.ZSTD:
        raise InvalidRecords(RecordsFault.UNSUPPORTED_CODEC, "messages of this age know no zstd")
    if wrapper.value is None:
        raise invalid("a compressed message without a value")
    return unpack(codec, wrapper.value, max_bytes=max_bytes, mend_lz4=wrapper.magic == 0)


def _inner_messages(wrapper: _Raw, payload: bytes, room: int) -> list[OldMessage]:
    """Returns the messages in a wrapper, but no more of them than one above `room`."""
    inner: list[_Raw] = []
    try:
        for raw in _raw_messages(memoryview(payload), False):
            if codec_of(raw.attributes) or raw.magic != wrapper.magic:
                raise invalid("a wrapper holds a wrapper, or a message of another magic")
            inner.append(raw)
            if len(inner) > room:
                break
    except InvalidRecords as error:
        error.index = len(inner)
        raise
    if not inner:
        raise invalid("a wrapper without messages")
    offsets = [raw.offset for raw in inner]
    if wrapper.magic:
        offsets = _absolute(offsets, wrapper.offset)
    append_ms = wrapper.timestamp_ms if _has_append_time(wrapper) else None
    return [
        _message(raw, offset, raw.timestamp_ms if append_ms is None else append_ms)
        for raw, offset in zip(inner, offsets, strict=True)
    ]


def _has_append_time(raw: _Raw) -> bool:
    return raw.magic > 0 and raw.attributes & LOG_APPEND_TIME != 0


def _absolute(relative: list[int], last: int) -> list[int]:
    """Returns the offsets for relative ones, which may be wrong. The last message has the offset `last`."""
    if relative[0] < 0 or any(after <= before for before, after in pairwise(relative)):
        relative = list(range(len(relative)))
    base = max(last - relative[-1], 0)
    return [base + offset for offset in relative]


def to_record_batch(old: OldMessages) -> bytes:
    """Returns the set of a producer as one record batch, with offsets from 0 on and the set's codec.

    The caller checks the batch by `record_batch.check`, as a batch from a client. Raises InvalidRecords, also
    for an empty set.
    """
    messages, codec, append_time, _ = old
    if not messages:
        raise invalid("a set without messages")
    if append_time:
        raise InvalidRecords(
            RecordsFault.INVALID_TIMESTAMP, "a client's message has the time of its append, by its attributes"
        )
    _, stamps, keys, values = map(list, zip(*messages, strict=True))
    if min(stamps) < NO_TIMESTAMP:
        index = next(index for index, stamp in enumerate(stamps) if stamp < NO_TIMESTAMP)
        raise InvalidRecords(RecordsFault.INVALID_TIMESTAMP, f"a timestamp of {stamps[index]} ms", index)
    base_ms, count = stamps[0], len(messages)
    payload = records.encode_columns(range(count), [stamp - base_ms for stamp in stamps], keys, values)
    header = record_batch.RecordBatchHeader(
        0, 0, NO_EPOCH, MAGIC, 0, codec, count - 1, base_ms, max(stamps), *NO_PRODUCER, count
    )
    return record_batch.seal(header, pack(codec, payload))


def from_record_batches(
    chunk: Buffer,
    magic: int,
    *,
    from_offset: int,
    max_bytes: int,
    max_unpacked_bytes: int = MAX_UNPACKED_BYTES,
) -> ConvertedBatches:
    """Returns stored record batches as an uncompressed set of magic 0 or 1, for an old consumer.

    Headers, control batches and records below `from_offset` are left out. The set has at most `max_bytes`,
    except that its first message may be larger. A batch with zstd, or beyond the limits, ends the set; as the
    first batch it raises InvalidRecords.
    """
    parts: list[bytes] = []
    size, unpacked, next_offset = 0, 0, from_offset
    for batch in record_batch.batches(chunk):
        header = record_batch.read_header(batch)
        if header.last_offset >= from_offset and not header.attributes & CONTROL:
            try:
                found, length = _converted(batch, header, magic, from_offset, max_unpacked_bytes)
            except InvalidRecords:
                if parts:
                    break
                raise
            unpacked += length
            for offset, message in found:
                if parts and size + len(message) > max_bytes:
                    return ConvertedBatches(b"".join(parts), offset, unpacked)
                parts.append(message)
                size += len(message)
        next_offset = max(header.last_offset + 1, next_offset)
    return ConvertedBatches(b"".join(parts), next_offset, unpacked)


def _converted(
    batch: memoryview,
    header: record_batch.RecordBatchHeader,
    magic: int,
    from_offset: int,
    max_bytes: int,
) -> tuple[Iterator[tuple[int, bytes]], int]:
    """Returns an iterator of offsets and encoded messages, and the length of the records, uncompressed.
    Raises InvalidRecords before the first of them."""
    if header.magic != MAGIC or not 0 <= header.base_offset <= header.last_offset < _I64_END:
        raise invalid(f"a stored batch of magic {header.magic} at offset {header.base_offset}")
    if header.codec == KafkaCodec.ZSTD:
        raise InvalidRecords(RecordsFault.UNSUPPORTED_CODEC, "the batch is compressed by zstd")
    payload = record_batch.payload_of(batch, header, max_bytes=max_bytes)
    columns = record_batch.columns_of(batch, header, max_bytes, payload)
    deltas = placed_deltas(columns.offset_deltas, header.last_offset_delta)
    rows = zip(deltas, columns.timestamp_deltas, columns.keys, columns.values, strict=True)
    attributes = header.attributes & LOG_APPEND_TIME if magic else 0
    messages = (
        (
            header.base_offset + delta,
            _encoded(magic, attributes, header.base_offset + delta, header.timestamp_ms(stamp), key, value),
        )
        for delta, stamp, key, value in rows
        if header.base_offset + delta >= from_offset
    )
    return messages, len(payload)


def encode(messages: Iterable[OldMessage], magic: int) -> bytes:
    """Returns an uncompressed set of these messages, of magic 0 or 1."""
    return b"".join(
        _encoded(magic, 0, offset, timestamp_ms, key, value) for offset, timestamp_ms, key, value in messages
    )


def _encoded(
    magic: int, attributes: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None
) -> bytes:
    stamp = (timestamp_ms,) if magic else ()
    body = b"".join(
        (
            _BODIES[magic].pack(magic, attributes, *stamp),
            _NULL if key is None else _LENGTH.pack(len(key)) + key,
            _NULL if value is None else _LENGTH.pack(len(value)),
            value or b"",
        )
    )
    return _PLACE.pack(offset, len(body) + 4) + crc32(body).to_bytes(4, "big") + body
