"""What our own client writes into record batches, and reads out of stored ones."""

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tank_protos import bundle
from tank_protos.bundle import DamagedPart
from tank_protos.kafka import control_batch, produced_batch, record_batch, stored_chunk
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.control_batch import ControlType, TransactionEnd
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.records import Headers, KafkaRecord
from tank_protos.kafka.stored_chunk import SoundBatches
from tests.support.values.kafka_records import HEADERS, SMALL, STAMP_MS, read, records, values_batch

TIMES = st.integers(0, 2**63 - 1) | st.just(STAMP_MS)


def at(batch: bytes, number: int) -> bytes:
    """The batch as a log stores it, with this number for its first record."""
    stored = bytearray(batch)
    record_batch.patch(memoryview(stored), number - 1, 3)
    return bytes(stored)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.none() | SMALL, st.none() | SMALL, TIMES, HEADERS), min_size=1, max_size=12),
    st.sampled_from([None, True, False]),
)
def test_what_is_written_is_read_by_kafkas_rules_and_by_ours(
    made: list[tuple[bytes | None, bytes | None, int, Headers]], compression: bool | None
) -> None:
    keys, values, times, headers = map(list, zip(*made, strict=True))
    batch = produced_batch.encode(
        values,
        keys=keys if any(key is not None for key in keys) else None,
        timestamps=times,
        headers={place: found for place, found in enumerate(headers) if found},
        compression=compression,
    )
    header = record_batch.check(memoryview(batch))
    assert (header.producer_id, header.max_timestamp_ms) == (-1, max(times))
    assert compression is not False or header.codec is KafkaCodec.NONE
    assert read(batch) == [
        KafkaRecord(key, value, index, time - times[0], found)
        for index, (key, value, time, found) in enumerate(made)
    ]
    columns = stored_chunk.read_columns(at(batch, 7))
    assert columns.numbers == range(7, 7 + len(made))
    assert (columns.keys, columns.values, columns.timestamps) == (keys, values, times)
    assert [columns.headers.get(place, ()) for place in range(len(made))] == headers


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(records(dense=False), st.integers(0, 3), st.booleans()), min_size=1, max_size=5),
    st.sampled_from(KafkaCodec),
    st.data(),
)
def test_stored_batches_of_any_client_are_read_record_by_record(
    made: list[tuple[list[KafkaRecord], int, bool]], codec: KafkaCodec, data: st.DataObject
) -> None:
    chunk, number = b"", 1
    expected = []
    for batch, gap, ends in made:
        number += gap
        encoded = record_batch.encode(batch, base_timestamp_ms=STAMP_MS, codec=codec)
        chunk += at(encoded, number)
        for one in batch:
            stamp = STAMP_MS + one.timestamp_delta
            expected.append((number + one.offset_delta, stamp, one.key, one.value, one.headers))
        number += batch[-1].offset_delta + 1
        if ends:
            end = control_batch.encode(TransactionEnd(ControlType.COMMIT, 5, 0, 1), STAMP_MS)
            chunk += at(end, number)
            number += 1
    lower = data.draw(st.integers(0, number))
    upper = data.draw(st.integers(lower, number + 2))
    columns = stored_chunk.read_columns(chunk, lower, upper)
    found = [
        (*row, columns.headers.get(place, ())) for place, row in enumerate(zip(*columns[:4], strict=True))
    ]
    wanted = [row for row in expected if lower <= row[0] <= upper]
    assert found == wanted
    reach = stored_chunk.reach(chunk, lower, upper)
    assert reach.whole
    assert reach.last == min(number - 1, upper) or reach.last < upper
    assert reach.may_show or not wanted
    assert wanted or not reach.surely_shows


def test_a_batch_cut_short_is_left_out() -> None:
    chunk = at(values_batch(b"x"), 1) + at(values_batch(b"y"), 2)[:-1]
    assert stored_chunk.read_columns(chunk).values == [b"x"]
    assert stored_chunk.reach(chunk, 1, 9).last == 1
    assert not stored_chunk.reach(chunk[:40], 1, 9).whole


def test_a_damaged_batch_is_found_and_those_around_it_are_read() -> None:
    good = [at(values_batch(b"a", b"b"), 1), at(values_batch(b"c"), 3), at(values_batch(b"d"), 4)]
    bad = bytearray(good[1])
    bad[-1] ^= 1
    chunk = good[0] + bad + good[2]
    with pytest.raises(InvalidRecords):
        stored_chunk.read_columns(chunk)
    first, damaged, last = stored_chunk.split_damaged(chunk, 2, 9)
    assert isinstance(first, SoundBatches)
    assert isinstance(last, SoundBatches)
    assert stored_chunk.read_columns(first.data, first.lower, first.upper).values == [b"b"]
    assert damaged == DamagedPart(3, 3, "the batch doesn't match its checksum")
    assert stored_chunk.read_columns(last.data, last.lower, last.upper).values == [b"d"]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.lists(st.integers(0, 400), max_size=4))
def test_any_bytes_are_read_or_refused(noise: bytes, places: list[int]) -> None:
    chunk = bytearray(at(values_batch(b"a", b"b"), 1) + at(values_batch(b"c"), 3) + noise)
    for place, more in zip(places, accumulate(places), strict=True):
        chunk[place % len(chunk)] ^= more % 256
    try:
        stored_chunk.reach(chunk, 1, 9)
        stored_chunk.read_columns(chunk)
    except InvalidRecords:
        for part in stored_chunk.split_damaged(chunk, 1, 9):
            if isinstance(part, SoundBatches):
                stored_chunk.read_columns(part.data, part.lower, part.upper)


def test_a_time_that_a_batch_can_not_hold_is_refused() -> None:
    with pytest.raises(InvalidRecords):
        produced_batch.encode([b"x"], timestamps=2**63)


def test_a_batch_becomes_a_bundle_unless_that_would_lose_something() -> None:
    plain = produced_batch.encode([b"x", b""], keys=[b"k", None], timestamps=[5, 6])
    columns = bundle.decode_columns(produced_batch.as_bundle(plain), 1)
    assert (columns.values, columns.keys, columns.timestamps) == ([b"x", b""], [b"k", None], [5, 6])
    for more in (
        produced_batch.encode([None], timestamps=5),
        produced_batch.encode([b"x"], timestamps=5, headers={0: ((b"h", None),)}),
        produced_batch.encode([b"x"], timestamps=5, keys=[b""]),
        produced_batch.encode([b"x"], timestamps=5, keys=[b"k" * 256]),
    ):
        with pytest.raises(InvalidRecords):
            produced_batch.as_bundle(more)
