"""Runs of Produce requests of Kafka's clients: what is found in a buffer, its answers and its index records,
on both kernels."""

from struct import Struct

import pytest
from fastcrc.crc32 import iscsi as crc32c
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.produce_run import BEFORE_PREFIX, KafkaProduceRun
from tank_protos.kafka.record_batch import NO_PRODUCER, ProducerFields
from tank_protos.kafka.records import KafkaRecord
from tank_protos.storage.index_record import RECORD
from tank_protos.wire import varint
from tests.support.examples import examples

pytestmark = pytest.mark.usefixtures("kernel")

PREFIX = b"\0\4test" + b"\0\0" + bytes(range(40))
"""Stands for the bytes from the client id to the partition's number."""
NOW_MS = 1_700_000_000_000
LARGE = 1 << 20
_HEAD = Struct(">ihhi")
OFFSET_AT = 12
ANSWER = b"size" + b"\0\0\0\0" + b"head" + bytes(8) + b"behind"


def batch_of(
    *values: bytes,
    time_ms: int = 1000,
    codec: KafkaCodec = KafkaCodec.NONE,
    producer: ProducerFields = NO_PRODUCER,
    transactional: bool = False,
    key: bytes | None = None,
) -> bytes:
    made = [KafkaRecord(key, value, delta, 0, ()) for delta, value in enumerate(values)]
    return record_batch.encode(
        made, base_timestamp_ms=time_ms, codec=codec, producer=producer, transactional=transactional
    )


def request(
    batch: bytes, number: int = 1, *, version: int = 9, prefix: bytes = PREFIX, key: int = 0
) -> bytes:
    """A Produce request with this batch."""
    if version < 9:
        rest = len(batch).to_bytes(4, "big") + batch
    else:
        rest = varint.encode(len(batch) + 1) + batch + b"\0\0\0"
    return _HEAD.pack(8 + len(prefix) + len(rest), key, version, number) + prefix + rest


def find(
    data: bytes,
    *,
    at: int = 0,
    version: int = 9,
    most: int = 1000,
    max_bytes: int = LARGE,
    latest_ms: int = NOW_MS,
    walks: bool = True,
    codecs: bool = True,
    keyed: bool = False,
) -> KafkaProduceRun:
    run = KafkaProduceRun()
    view = memoryview(bytearray(data))
    rules = (max_bytes, latest_ms, NOW_MS, walks, codecs, keyed)
    assert run.find(view, at, len(view), version, PREFIX, most, *rules) == run.batches
    return run


def numbered(batch: bytes, offset: int, epoch: int) -> bytes:
    """The batch as the log stores it."""
    changed = bytearray(batch)
    record_batch.patch(memoryview(changed), offset, epoch)
    return bytes(changed)


def expected_records(batches: list[bytes], number: int, position: int, append_ms: int, newest: int) -> bytes:
    """As the log makes them one by one, in leader epoch 7, of format 1."""
    made = b""
    for batch in batches:
        header = record_batch.check(memoryview(batch))
        newest = max(newest, max(header.max_timestamp_ms, 0) or NOW_MS)
        stored = numbered(batch, number - 1, 7)
        producer = (header.producer_id, header.base_sequence, 7, header.producer_epoch)
        if header.producer_id <= 0:
            producer = (0, 0, 7, 0)
        fields = [append_ms, newest, *producer, 1, 4, header.records_count]
        zeroed = RECORD.pack(number, header.records_count - 1, 0, len(batch), 0, *fields)
        crc = crc32c(zeroed, crc32c(stored))
        made += RECORD.pack(number, header.records_count - 1, position, len(batch), crc, *fields)
        number += header.records_count
        position += len(batch)
    return made


MIXED = [
    batch_of(b"x"),
    batch_of(b"x" * 100, b"y", time_ms=5),
    batch_of(*[b"m" * n for n in range(300)], time_ms=NOW_MS),
    batch_of(b"without a time", time_ms=-1),
    batch_of(b"c" * 5000, codec=KafkaCodec.GZIP),
    batch_of(b"large" * 20_000),
    batch_of(b"", b""),
]
COUNTS = [1, 2, 300, 1, 1, 1, 2]


@pytest.mark.parametrize("version", [3, 7, 8, 9, 13])
@pytest.mark.parametrize("gap", [b"", b"before it"])
def test_it_finds_all_that_stand_one_after_another(gap: bytes, version: int) -> None:
    data = gap + b"".join(request(batch, 100 + i, version=version) for i, batch in enumerate(MIXED))
    run = find(data, at=len(gap), version=version)
    assert (run.at, run.batches, run.batch_bytes) == (len(data), len(MIXED), sum(map(len, MIXED)))
    assert run.messages == sum(COUNTS)
    assert (run.producer_id, run.producer_epoch) == (0, 0)
    assert run.records(0, 11, 77, LARGE, 1000, 6, 4, 7, 1) == expected_records(MIXED, 11, 77, 6, 4)
    stored, offset = [], 10
    for batch, count in zip(MIXED, COUNTS, strict=True):
        stored.append(numbered(batch, offset, 7))
        offset += count
    assert b"".join(run.slices(0, run.batches)) == b"".join(stored)
    answers, offset = b"", 10
    for number, count in enumerate(COUNTS):
        answers += (
            b"size" + (100 + number).to_bytes(4, "big") + b"head" + offset.to_bytes(8, "big") + b"behind"
        )
        offset += count
    assert run.answers(ANSWER, OFFSET_AT, 10) == answers


@pytest.mark.parametrize("size", [10, 300, 9000, 40_000])
def test_small_batches_are_copied_together_and_large_ones_are_not(size: int) -> None:
    batches = [batch_of(b"%d" % n * size) for n in range(3)]
    run = find(b"".join(map(request, batches)))
    run.records(0, 1, 0, LARGE, 1000, 6, 4, 7, 1)
    pieces = run.slices(0, 3)
    assert run.is_copied == (size < 16_000)
    assert len(pieces) == (1 if run.is_copied else 3)
    assert b"".join(pieces) == b"".join(numbered(batch, n, 7) for n, batch in enumerate(batches))


def test_batches_of_one_producer_follow_one_another() -> None:
    sequences = [2**31 - 3, 2**31 - 1, 1, 2]
    counts = [2, 2, 1, 4]
    batches = [
        batch_of(*[b"x"] * count, producer=ProducerFields(9, 3, sequence))
        for sequence, count in zip(sequences, counts, strict=True)
    ]
    run = find(b"".join(map(request, batches)))
    assert (run.batches, run.producer_id, run.producer_epoch) == (4, 9, 3)
    assert run.produced(0, 4) == list(zip(sequences, counts, strict=True))
    assert run.produced(1, 2) == [(2**31 - 1, 2)]
    assert run.records(0, 5, 0, LARGE, 1000, 6, 4, 7, 1) == expected_records(batches, 5, 0, 6, 4)


FIRST = ProducerFields(9, 3, 5)


@pytest.mark.parametrize(
    "second",
    [
        ProducerFields(9, 3, 5),
        ProducerFields(9, 3, 7),
        ProducerFields(9, 4, 6),
        ProducerFields(8, 3, 6),
        NO_PRODUCER,
    ],
)
def test_another_producer_or_a_gap_ends_the_run(second: ProducerFields) -> None:
    for one, other in ((FIRST, second), (second, FIRST)):
        if one.producer_id == other.producer_id and one.base_sequence + 1 == other.base_sequence:
            continue
        run = find(request(batch_of(b"x", producer=one)) + request(batch_of(b"x", producer=other)))
        assert run.batches == 1


GOOD = batch_of(b"p" * 50)


def spoiled(at: int, *, batch: bytes = GOOD, seal: bool = False) -> bytes:
    """A batch with a changed byte, and the checksum for it if `seal`."""
    changed = bytearray(batch)
    changed[at] ^= 0x41
    if seal:
        changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize("place", [0, 1, 5, 19])
@pytest.mark.parametrize(
    "other",
    [
        request(GOOD, prefix=PREFIX[:-1] + b"x"),
        request(GOOD, prefix=PREFIX + b"x"),
        request(GOOD, version=8),
        request(GOOD, key=1),
        b"\x7f" + request(GOOD)[1:],
        b"\xff" + request(GOOD)[1:],
        b"\0\0\0\1" + request(GOOD)[4:],
        request(GOOD)[:-1] + b"\1",
        request(GOOD[:-1]),
        request(GOOD + b"x"),
        request(b""),
        request(batch_of(b"x" * 200)),
        request(spoiled(70)),
        request(spoiled(16)),
        request(spoiled(64, seal=True)),
        request(spoiled(61, seal=True)),
        request(batch_of(b"x", time_ms=NOW_MS + 1)),
        request(batch_of(b"x", producer=ProducerFields(9, 0, 0), transactional=True)),
    ],
)
def test_whatever_is_not_good_ends_the_run(other: bytes, place: int) -> None:
    plain = [request(GOOD, n) for n in range(20)]
    plain[place] = other
    run = find(b"".join(plain), max_bytes=150)
    assert run.batches == place
    assert run.at == place * len(request(GOOD))
    run.clear()
    assert (run.batches, run.batch_bytes, run.messages, run.slices(0, 0)) == (0, 0, 0, [])


@pytest.mark.parametrize("length", [-1, 0, 1, len(GOOD) - 1, len(GOOD) + 1, 2**24 + len(GOOD), 2**31 - 1])
@pytest.mark.parametrize("version", [8, 9])
def test_a_length_that_is_not_the_batchs_ends_the_run(version: int, length: int) -> None:
    if version < 9:
        written, right = length.to_bytes(4, "big", signed=True), len(GOOD).to_bytes(4, "big")
    else:
        written, right = varint.encode(length + 1), varint.encode(len(GOOD) + 1)
    frame = request(GOOD, version=version)
    body = frame[4:].replace(PREFIX + right, PREFIX + written, 1)
    wrong = len(body).to_bytes(4, "big") + body
    assert find(frame + wrong + frame, version=version).batches == 1


def test_its_rules_say_which_records_are_looked_at() -> None:
    broken = request(spoiled(64, seal=True))
    assert find(broken).batches == 0
    assert find(broken, walks=False).batches == 1
    packed = request(batch_of(b"x" * 500, codec=KafkaCodec.GZIP))
    assert find(packed).batches == 1
    assert find(packed, codecs=False).batches == 0
    assert find(request(GOOD), keyed=True).batches == 0
    assert find(request(batch_of(b"x", key=b"k")), keyed=True).batches == 1
    zstd = batch_of(b"x" * 500, codec=KafkaCodec.ZSTD)
    assert [find(request(zstd, version=version), version=version).batches for version in (6, 7)] == [0, 1]


def test_it_takes_no_more_than_it_may() -> None:
    data = b"".join(request(GOOD, n) for n in range(9))
    for most in range(-1, 10):
        assert find(data, most=most).batches == max(most, 0)


def test_a_request_that_has_not_come_whole_waits() -> None:
    data = request(GOOD) * 2
    for end in range(len(data)):
        run = KafkaProduceRun()
        view = memoryview(bytearray(data))
        run.find(view, 0, end, 9, PREFIX, 9, LARGE, NOW_MS, NOW_MS, True, True, False)
        assert run.batches == end // len(request(GOOD))


def test_bytes_that_may_not_be_written_are_left_alone() -> None:
    run = KafkaProduceRun()
    view = memoryview(request(GOOD))
    assert run.find(view, 0, len(view), 9, PREFIX, 9, LARGE, NOW_MS, NOW_MS, True, True, False) == 0


def test_places_outside_are_refused() -> None:
    run = KafkaProduceRun()
    view = memoryview(bytearray(request(GOOD)))
    for at, end in ((-1, 5), (5, 4), (0, len(view) + 1)):
        with pytest.raises(ValueError, match="outside the buffer"):
            run.find(view, at, end, 9, PREFIX, 9, LARGE, NOW_MS, NOW_MS, True, True, False)
    run.find(view, 0, len(view), 9, PREFIX, 9, LARGE, NOW_MS, NOW_MS, True, True, False)
    for start, stop in ((-1, 1), (0, 2), (1, 0)):
        with pytest.raises(ValueError, match="there are no batches"):
            run.slices(start, stop)
        with pytest.raises(ValueError, match="there are no batches"):
            run.produced(start, stop)
    with pytest.raises(ValueError, match="there are no batches"):
        run.records(2, 1, 0, LARGE, 1000, 6, 4, 7, 1)
    for offset_at in (7, len(ANSWER) - 7):
        with pytest.raises(ValueError, match="no offset fits"):
            run.answers(ANSWER, offset_at, 0)


def test_records_end_where_a_segment_does() -> None:
    run = find(request(GOOD) * 5)
    size = len(GOOD)
    for most, room, fit in (
        (9, 5 * size, 5),
        (9, 5 * size - 1, 4),
        (2, 5 * size, 2),
        (9, size - 1, 0),
        (0, 9 * size, 0),
    ):
        assert len(run.records(0, 1, 0, room, most, 6, 4, 7, 1)) == 64 * fit
    whole = run.records(0, 1, 0, 9 * size, 9, 6, 4, 7, 1)
    assert run.records(3, 4, 3 * size, 9 * size, 9, 6, 4, 7, 1) == whole[3 * 64 :]


@examples(200)
@given(st.data())
def test_changed_bytes_never_get_in_unchecked(data: st.DataObject) -> None:
    frame = request(batch_of(b"value" * data.draw(st.sampled_from([1, 30, 2000])), producer=FIRST))
    changed = bytearray(frame * 3)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1) | st.integers(BEFORE_PREFIX, BEFORE_PREFIX + 130))
        changed[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    run = find(bytes(changed))
    for number, piece in enumerate([] if run.is_copied else run.slices(0, run.batches)):
        assert record_batch.check(memoryview(piece)).producer_id > 0, number
