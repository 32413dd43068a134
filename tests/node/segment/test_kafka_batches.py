"""Kafka's record batches as a log sees them: checked, numbered, read back, and written anew with fewer
records."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.segment.batch_format import HEAD_BYTES, InvalidBatch, KeyedEntry, NumberTaken
from tank_node.segment.batch_formats import format_of
from tank_node.segment.record import FORMAT_KAFKA, MARKER, SPARSE, TRANSACTIONAL
from tank_protos.bundle import MAX_SEQUENCE_NUMBER
from tank_protos.kafka import control_batch, record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.control_batch import ControlType, TransactionEnd
from tank_protos.kafka.record_batch import ProducerFields
from tank_protos.kafka.records import KafkaRecord
from tank_protos.wire.buffer import Buffer
from tests.support.values.kafka_records import STAMP_MS, changed, read, records, values_batch

KAFKA = format_of(FORMAT_KAFKA)
MARKER_BATCH = control_batch.encode(TransactionEnd(ControlType.COMMIT, 1234, 0, 3), STAMP_MS)


def numbered(batch: Buffer, first: int | None = None, end: int = 0, epoch: int = 1) -> memoryview:
    """A client's batch as it is stored."""
    given_bytes = memoryview(bytearray(batch))
    stored, *_ = KAFKA.number(given_bytes, KAFKA.judge(given_bytes, True), first, end, epoch)
    return stored


def test_a_batch_is_stored_as_it_came_but_for_its_offset_and_epoch() -> None:
    sent = bytearray(values_batch(b"a", None, b"c"))
    batch = memoryview(sent)
    info = KAFKA.judge(batch, True)
    assert (info.messages, info.timestamp_ms) == (3, STAMP_MS + 2)
    stored, first, span, flags = KAFKA.number(batch, info, None, 41, 7)
    assert (first, span, flags) == (42, 2, SPARSE)
    assert stored is batch, "it is changed where it lies"
    header = record_batch.verify(stored)
    assert (header.base_offset, header.leader_epoch) == (41, 7)
    as_sent = values_batch(b"a", None, b"c")
    assert bytes(sent[8:12] + sent[16:]) == as_sent[8:12] + as_sent[16:]


def test_a_batch_that_can_not_be_changed_is_copied() -> None:
    sent = values_batch(b"a")
    stored, first, _, _ = KAFKA.number(memoryview(sent), KAFKA.judge(memoryview(sent), True), 10, 3, 1)
    assert first == 10
    assert record_batch.verify(stored).base_offset == 9
    assert sent == values_batch(b"a")


def test_the_offset_that_a_producer_sends_means_nothing() -> None:
    for sent in (0, 5, -3, 2**62):
        batch = bytearray(values_batch(b"a", b"b"))
        record_batch.patch(memoryview(batch), sent, -1)
        assert record_batch.verify(numbered(batch, end=6)).base_offset == 6


@pytest.mark.parametrize("first", [0, 5, MAX_SEQUENCE_NUMBER, 2**64])
def test_numbers_that_are_taken_or_too_large_are_refused(first: int) -> None:
    with pytest.raises(NumberTaken):
        numbered(values_batch(b"a", b"b"), first, end=5)


def test_marks_of_transactions_become_flags_of_the_index_record() -> None:
    producer = ProducerFields(1234, 0, 0)
    of_one = record_batch.encode(
        [KafkaRecord(b"k", b"v", 0, 0)], base_timestamp_ms=STAMP_MS, producer=producer, transactional=True
    )
    for batch, flags in ((of_one, TRANSACTIONAL), (MARKER_BATCH, TRANSACTIONAL | MARKER)):
        view = memoryview(bytearray(batch))
        assert KAFKA.number(view, KAFKA.judge(view, True), None, 0, 1)[3] == SPARSE | flags
        assert KAFKA.find(view, 0).flags == SPARSE | flags


@pytest.mark.parametrize(
    "batch",
    [
        b"",
        values_batch(b"a")[:60],
        values_batch(b"a")[:-1],
        values_batch(b"a") + b"\0",
        values_batch(b"a") * 2,
        changed(values_batch(b"a"), 16, ">b", 1),
        changed(values_batch(b"a"), 57, ">i", 0),
        changed(values_batch(b"a"), 57, ">i", 2),
        changed(values_batch(b"a"), 23, ">i", -1),
    ],
)
def test_bytes_that_are_not_one_batch_are_refused(batch: bytes) -> None:
    with pytest.raises(InvalidBatch):
        KAFKA.judge(memoryview(batch), True)


def test_a_batch_without_timestamps_has_none() -> None:
    batch = record_batch.encode([KafkaRecord(b"k", b"v", 0, 0)], base_timestamp_ms=-1)
    assert KAFKA.judge(memoryview(batch), True).timestamp_ms == 0
    assert list(KAFKA.times(memoryview(batch), 1, 1 << 20).timestamps_ms) == [-1]


@given(records(dense=False), st.sampled_from(KafkaCodec), st.integers(0, 2**40), st.data())
def test_a_batch_is_read_back_and_written_anew_with_the_records_that_stay(
    made: list[KafkaRecord], codec: KafkaCodec, end: int, data: st.DataObject
) -> None:
    producer = ProducerFields(77, 3, 500)
    sent = record_batch.encode(made, base_timestamp_ms=STAMP_MS, codec=codec, producer=producer)
    batch = numbered(sent, end=end, epoch=9)
    entries = KAFKA.entries(batch, 0)
    assert entries == [
        KeyedEntry(end + 1 + record.offset_delta, record.key, record.value is None) for record in made
    ]
    times = KAFKA.times(batch, 0, 1 << 24)
    assert list(times.numbers) == [entry.number for entry in entries]
    assert list(times.timestamps_ms) == [STAMP_MS + record.timestamp_delta for record in made]
    assert KAFKA.last_in(batch) == entries[-1].number
    assert KAFKA.batch_bytes(batch[:HEAD_BYTES]) == len(batch)
    found = KAFKA.find(batch, end)
    assert (found.first, found.span, found.messages) == (end + 1, made[-1].offset_delta, len(made))

    places = st.lists(st.integers(0, len(made) - 1), min_size=1, unique=True).map(sorted)
    kept = data.draw(places)
    anew = KAFKA.rewritten(batch, 0, kept)
    assert read(anew) == [made[place] for place in kept]
    before, after = record_batch.verify(batch), record_batch.verify(memoryview(anew))
    same = "base_offset", "last_offset_delta", "leader_epoch", "attributes", "base_timestamp_ms"
    for name in (*same, "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(after, name) == getattr(before, name)
    assert after.max_timestamp_ms == max(STAMP_MS + made[place].timestamp_delta for place in kept)
    assert KAFKA.last_in(anew) == entries[kept[-1]].number


@given(records(dense=False), st.sampled_from(KafkaCodec), st.booleans(), st.data())
def test_a_batch_takes_the_time_at_which_its_tombstones_go_and_keeps_all_timestamps(
    made: list[KafkaRecord], codec: KafkaCodec, of_append: bool, data: st.DataObject
) -> None:
    append_ms = STAMP_MS + 9 if of_append else None
    sent = record_batch.encode(made, base_timestamp_ms=STAMP_MS, codec=codec, append_ms=append_ms)
    batch = numbered(sent, end=7)
    assert KAFKA.horizon_ms(batch) == 0
    times = list(KAFKA.times(batch, 0, 1 << 24).timestamps_ms)
    kept = data.draw(st.lists(st.integers(0, len(made) - 1), min_size=1, unique=True).map(sorted))
    anew = memoryview(KAFKA.rewritten(batch, 0, kept, STAMP_MS + 5000))
    again = memoryview(KAFKA.rewritten(anew, 0, range(len(kept))))
    for view in (anew, again):
        header = record_batch.verify(view)
        assert KAFKA.horizon_ms(view) == STAMP_MS + 5000
        assert list(KAFKA.times(view, 0, 1 << 24).timestamps_ms) == [times[place] for place in kept]
        assert header.max_timestamp_ms == max(times[place] for place in kept)
        left = [(each.key, each.value, each.offset_delta, each.headers) for each in read(bytes(view))]
        wanted = [made[place] for place in kept]
        assert left == [(each.key, each.value, each.offset_delta, each.headers) for each in wanted]


def test_a_time_that_would_change_a_timestamp_is_left_out() -> None:
    oldest = record_batch.encode([KafkaRecord(b"k", None, 0, 0)], base_timestamp_ms=-(2**63))
    anew = memoryview(KAFKA.rewritten(numbered(oldest), 0, [0], STAMP_MS))
    assert KAFKA.horizon_ms(anew) == 0
    assert read(bytes(anew)) == [KafkaRecord(b"k", None, 0, 0)]
    assert record_batch.verify(anew).base_timestamp_ms == -(2**63)


def test_a_batch_whose_record_gets_another_epoch_says_so_itself() -> None:
    batch = bytes(numbered(values_batch(b"a", b"b"), 8, epoch=3))
    assert KAFKA.given_epoch(batch, 3) is batch
    header = record_batch.verify(memoryview(KAFKA.given_epoch(batch, 4)))
    assert (header.base_offset, header.leader_epoch) == (7, 4)


@given(st.binary(max_size=80), st.integers(0, 200))
def test_bytes_of_a_disk_give_a_batch_or_a_typed_error(noise: bytes, at: int) -> None:
    batch = bytearray(numbered(values_batch(b"a", b"bc"), 5))
    batch[at : at + len(noise)] = noise
    view = memoryview(bytes(batch))
    questions: list[Callable[[], int]] = [
        lambda: KAFKA.judge(view, True).messages,
        lambda: len(KAFKA.entries(view, 5)),
        lambda: len(KAFKA.times(view, 5, 1 << 20).numbers),
        lambda: KAFKA.last_in(view),
        lambda: KAFKA.batch_bytes(view[:HEAD_BYTES]),
        lambda: KAFKA.find(view, 4).messages,
    ]
    for ask in questions:
        with suppress(InvalidBatch):
            assert isinstance(ask(), int)
