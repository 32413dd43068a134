"""Targets for Kafka's stored formats: records, batches, message sets and codecs that are wrong in every way.

`tests/support/values/slow_records.py` says what records and plain sets hold or that they are bad, and the
readers must say the same. Batches that pass the broker's check are converted in all directions. Nothing but
InvalidRecords and InvalidBundle may come out.
"""

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Final, TypeVar
from zlib import crc32

from tank_protos.bundle import decode_columns
from tank_protos.kafka import message_set, record_batch, records, transcode
from tank_protos.kafka.codecs import KafkaCodec, pack, unpack
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.message_set import OldMessage
from tank_protos.kafka.record_batch import RecordBatchHeader
from tank_protos.wire.errors import InvalidBundle
from tests.fuzz import mutate, random_records
from tests.fuzz.codec_target import MEASURED_SHARE, MEMORY_PER_BYTE, within_memory
from tests.fuzz.random_records import CONTENTS, STAMP_MS
from tests.support.values.slow_records import Bad, OldRow, Row, slow_records, slow_set

MAX_BYTES: Final = 1 << 20
"""What a batch may unpack to here: more than any good one of ours."""

_UNPACKER_BYTES: Final = 64 << 10
"""What zlib takes for itself."""

T = TypeVar("T")


def stored(chance: Random) -> None:
    """One piece of one of the formats."""
    roll = chance.random()
    if roll < 0.4:
        _records(chance)
    elif roll < 0.7:
        _batch(chance)
    elif roll < 0.9:
        _set(chance)
    else:
        _codec(chance)


def _records(chance: Random) -> None:
    made = random_records.some(chance)
    good = records.encode(made)
    assert slow_records(good, len(made)) == made, "what was encoded is something else"
    payload = mutate.payload(chance, good, records.encode(random_records.some(chance)))
    count = len(made) + chance.choice((0, 0, 0, 0, -1, 1, 2**31 - 1))
    rows = _slow(lambda: slow_records(payload, min(count, len(payload) + 1)))
    if chance.random() < MEASURED_SHARE:
        within_memory(lambda: _read(payload, count), len(payload))
    assert _read(payload, count) == rows
    assert _quiet(lambda: list(records.iterate(payload, count))) == rows
    last = chance.choice((count - 1, count + 5))
    walked = _passes(lambda: records.walk(payload, count, last, dense=False))
    assert walked == (rows is not None and _rise(rows, last))
    keyed = _passes(lambda: records.walk(payload, count, last, keyed=True))
    dense = rows is not None and [row[2] for row in rows] == list(range(count))
    assert keyed == (rows is not None and dense and all(row[0] is not None for row in rows))


def _read(payload: bytes, count: int) -> list[Row] | None:
    columns = _quiet(lambda: records.read_columns(payload, count))
    if columns is None:
        return None
    rows = zip(columns.keys, columns.values, columns.offset_deltas, columns.timestamp_deltas, strict=True)
    return [(*row, columns.headers.get(index, ())) for index, row in enumerate(rows)]


def _rise(rows: list[Row], last: int) -> bool:
    deltas = [-1, *(row[2] for row in rows)]
    return deltas[-1] <= last and all(before < after for before, after in pairwise(deltas))


def _batch(chance: Random) -> None:
    batch = bytearray(random_records.batch(chance))
    view = memoryview(batch)
    header = _quiet(lambda: record_batch.verify(view))
    if header is None:
        assert _quiet(lambda: record_batch.check(view)) is None, "a client may send what cannot be stored"
        return
    assert (header.base_offset, header.batch_length) == record_batch.read_header(batch)[:2]
    produced = _quiet(lambda: record_batch.check(view)) is not None
    record_batch.patch(view, chance.choice((0, 7, 2**62)), 3)
    assert record_batch.verify(view) == record_batch.read_header(batch)
    _converted(bytes(batch), record_batch.read_header(batch), produced)


def _converted(batch: bytes, header: RecordBatchHeader, produced: bool) -> None:
    """All ways out of a batch that may be stored; what a TANK topic takes comes back as it was."""
    for magic in (0, 1):
        _quiet(
            lambda magic=magic: message_set.from_record_batches(  # type: ignore[misc]
                batch, magic, from_offset=1, max_bytes=100, max_unpacked_bytes=MAX_BYTES
            )
        )
    _quiet(lambda: transcode.stored_to_tank(batch, header, append_ms=5, sparse=True, max_bytes=MAX_BYTES))
    if not produced:
        return
    for lenient in (True, False):
        found = _quiet(
            lambda lenient=lenient: transcode.produced_to_tank(  # type: ignore[misc]
                batch, header, append_ms=5, compacted=False, lenient=lenient, max_bytes=MAX_BYTES
            )
        )
        if found is None:
            continue
        back = transcode.stored_to_kafka(found.data, 1, leader_epoch=3, compacted=False)
        again = record_batch.verify(memoryview(back))
        assert again.records_count == header.records_count == len(decode_columns(found.data, 1).values)
        if not lenient:
            assert found.losses == transcode.Losses()
            assert _contents(back, again) == _contents(batch, header)


def _contents(batch: bytes, header: RecordBatchHeader) -> list[tuple[bytes | None, bytes | None]]:
    columns = records.read_columns(record_batch.payload_of(batch, header), header.records_count)
    assert not columns.headers
    return list(zip(columns.keys, columns.values, strict=True))


def _set(chance: Random) -> None:
    magic = chance.choice((0, 1))
    stamps = (STAMP_MS, 0, -1) if magic else (-1,)
    made = [
        OldMessage(
            index,
            chance.choice(stamps),
            chance.choice(CONTENTS),
            chance.choice(CONTENTS),
        )
        for index in range(chance.choice((1, 2, 3)))
    ]
    data = message_set.encode(made, magic)
    assert slow_set(data) == made, "what was encoded is something else"
    if chance.random() < 0.5:
        data = _wrapped(data, magic, chance)
    data = mutate.payload(chance, data, data)
    if chance.random() < 0.7 and len(data) > 16:
        data = (
            data[:8] + (len(data) - 12).to_bytes(4, "big") + crc32(data[16:]).to_bytes(4, "big") + data[16:]
        )
    found = _quiet(lambda: message_set.decode(data, max_bytes=MAX_BYTES))
    plain: list[OldRow] | None = _slow(lambda: slow_set(data))
    assert plain is None or (found is not None and found.messages == plain)
    cut = _quiet(lambda: message_set.decode(data, cut=True, max_bytes=MAX_BYTES))
    assert found is None or cut == found
    batch = _quiet(lambda: message_set.to_record_batch(message_set.decode(data, max_bytes=MAX_BYTES)))
    if batch is None or found is None:
        assert batch is None, "what cannot be read was converted"
        return
    record_batch.check(memoryview(batch))
    back = message_set.from_record_batches(batch, 1, from_offset=0, max_bytes=MAX_BYTES)
    assert [message[1:] for message in slow_set(back.data)] == [message[1:] for message in found.messages]


def _wrapped(inner: bytes, magic: int, chance: Random) -> bytes:
    codec = chance.choice((KafkaCodec.GZIP, KafkaCodec.SNAPPY, KafkaCodec.LZ4))
    outer = bytearray(message_set.encode([OldMessage(9, STAMP_MS, None, pack(codec, inner))], magic))
    outer[17] = codec
    outer[12:16] = crc32(outer[16:]).to_bytes(4, "big")
    return bytes(outer)


def _codec(chance: Random) -> None:
    codec = chance.choice(list(KafkaCodec))
    good = pack(codec, chance.choice((b"", b"abc" * 30, chance.randbytes(300), bytes(5000))))
    packed = mutate.payload(chance, good, pack(codec, b"other" * 9))
    size = MAX_BYTES if chance.random() < 0.9 else 100
    mend = chance.random() < 0.3
    found = _quiet(lambda: unpack(codec, packed, max_bytes=size, mend_lz4=mend))
    assert found is None or len(found) <= size
    if chance.random() < MEASURED_SHARE * 10:
        # The buffer is taken at once, for as much as a block of a few bytes could unpack to.
        action = lambda: _quiet(lambda: unpack(codec, packed, max_bytes=size, mend_lz4=mend))  # noqa: E731
        within_memory(action, len(packed), more=(2 * size + _UNPACKER_BYTES) // MEMORY_PER_BYTE)


def _slow(action: Callable[[], T]) -> T | None:
    try:
        return action()
    except Bad:
        return None


def _quiet(action: Callable[[], T]) -> T | None:
    try:
        return action()
    except (InvalidRecords, InvalidBundle):
        return None


def _passes(action: Callable[[], None]) -> bool:
    try:
        action()
    except InvalidRecords:
        return False
    return True
