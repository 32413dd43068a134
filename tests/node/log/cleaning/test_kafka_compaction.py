"""Compaction of Kafka's record batches: what stays, under which offsets, for readers of both protocols."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tank_node.log.cleaning import compaction
from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.producers import Outcome, ProducerVerdict
from tank_node.log.settings import LogSettings
from tank_node.segment.record import FORMAT_KAFKA
from tank_protos.kafka import control_batch, record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.control_batch import ControlType, TransactionEnd
from tank_protos.kafka.record_batch import ProducerFields, RecordBatchHeader
from tank_protos.kafka.records import KafkaRecord
from tests.support.examples import examples
from tests.support.nodes.replicas import push, records_of
from tests.support.storage.kafka_logs import (
    Content,
    Pair,
    append_batch,
    append_pairs,
    headers,
    read_records,
    stretch,
)
from tests.support.storage.logs import Folder
from tests.support.values.kafka_records import STAMP_MS, changed, read, values_batch

SMALL = LogSettings(segment_bytes=250, compact=True, min_cleanable_ratio=0.0, format=FORMAT_KAFKA)
KEYS = st.sampled_from([None, b"", b"a", b"b", b"c"])
CONTENTS = st.none() | st.just(b"") | st.binary(min_size=1, max_size=20)
BATCHES = st.tuples(
    st.lists(st.tuples(KEYS, CONTENTS), min_size=1, max_size=5),
    st.sampled_from(KafkaCodec),
    st.integers(0, 3),
)


def compacted(log: PartitionLog) -> PartitionLog:
    """Seals everything so far, and compacts it."""
    log.roll()
    log.flush()
    maintain(log, 1000, log.last)
    return log


def values(log: PartitionLog) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {number: (content.key, content.value) for number, content in read_records(log).items()}


def test_the_newest_of_each_key_stays_and_a_null_value_says_that_its_key_is_deleted() -> None:
    log = Folder(settings=SMALL).log()
    append_pairs(log, (b"a", b"1"), (b"b", b"1"), (None, b"free"), (None, None), (b"", b"empty key"))
    append_pairs(log, (b"a", None), (b"c", b""), (b"", b"again"))
    append_pairs(log, (b"d", b"1"))
    assert values(compacted(log)) == {
        2: (b"b", b"1"),
        3: (None, b"free"),
        6: (b"a", None),
        7: (b"c", b""),
        8: (b"", b"again"),
        9: (b"d", b"1"),
    }


def test_a_header_keeps_its_offsets_epoch_and_producer() -> None:
    log = Folder(settings=SMALL).log()
    many = [(b"k", b"%d" % turn) for turn in range(3)]
    for turn in range(8):
        append_pairs(log, *many, (b"%d" % turn, b"x"), producer=ProducerFields(9, 1, 4 * turn), epoch=turn)
    before = headers(log)
    after = headers(compacted(log))
    assert [key(header) for header in after] == [key(header) for header in before]
    assert after[0].records_count == 1
    records = records_of(log)
    assert [(r.first, r.last) for r in records] == [(4 * turn + 1, 4 * turn + 4) for turn in range(8)]
    assert [r.messages for r in records][:3] == [1, 1, 1]
    assert [r.messages for r in records][-5:] == [4] * 5, "what producers' memory consists of stays"
    assert not log.scrub(1 << 20).bad


def test_what_a_producer_has_committed_is_remembered_in_copies_when_later_batches_are_truncated() -> None:
    leader = Folder(settings=SMALL).log()
    many = [(b"k", b"%d" % turn) for turn in range(3)]
    append_pairs(leader, *many, producer=ProducerFields(9, 1, 0))
    append_pairs(leader, (b"k", b"newest"))
    leader.roll()
    leader.flush()
    mark = leader.last
    for turn in range(1, 7):
        append_pairs(leader, *many, producer=ProducerFields(9, 1, 3 * turn))
    maintain(leader, 1000, mark)
    assert leader.segments.compacted_through == mark
    leader.truncate_to(mark)
    copy = Folder(settings=SMALL).log()
    push(leader, copy)
    for log in (leader, copy):
        assert log.tail.check_producer(9, 1, 0, 3) == ProducerVerdict(Outcome.REPEAT, 1, 3)
        assert log.tail.check_producer(9, 1, 3, 3).outcome is Outcome.APPEND


def key(header: RecordBatchHeader) -> tuple[int, ...]:
    """What compaction leaves as it is."""
    return (
        header.base_offset,
        header.last_offset_delta,
        header.leader_epoch,
        header.base_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )


def test_headers_and_timestamps_of_the_records_that_stay_are_the_same() -> None:
    log = Folder(settings=SMALL).log()
    headed = KafkaRecord(b"b", b"v", 1, -7, ((b"h", b"1"), (b"h", None)))
    sent = [KafkaRecord(b"a", b"old", 0, 500), headed, KafkaRecord(b"a", b"new", 2, 9)]
    batch = record_batch.encode(sent, base_timestamp_ms=STAMP_MS, codec=KafkaCodec.LZ4)
    append_batch(log, batch)
    append_pairs(log, (b"z", b"z"))
    data = stretch(compacted(log), 1)
    assert data is not None
    first = bytes(next(iter(record_batch.batches(data))))
    assert read(first) == sent[1:]
    header = record_batch.read_header(first)
    assert (header.codec, header.max_timestamp_ms) == (KafkaCodec.LZ4, STAMP_MS + 9)


def test_the_time_of_the_append_stays_where_records_have_it() -> None:
    log = Folder(settings=SMALL).log()
    sent = [KafkaRecord(b"a", b"old", 0, 0), KafkaRecord(b"a", b"new", 1, 5)]
    append_batch(log, record_batch.encode(sent, base_timestamp_ms=STAMP_MS, append_ms=STAMP_MS + 77))
    append_pairs(log, (b"z", b"z"))
    assert read_records(compacted(log))[2] == Content(b"a", b"new", STAMP_MS + 77)


def test_ends_of_transactions_and_batches_that_can_not_be_decoded_stay_as_they_are() -> None:
    log = Folder(settings=SMALL).log()
    append_pairs(log, (b"a", b"old"))
    end = control_batch.encode(TransactionEnd(ControlType.ABORT, 9, 0, 1), STAMP_MS)
    append_batch(log, end)
    unreadable = changed(values_batch(b"x", b"y"), 57, ">i", 1)  # its header says one record of two
    append_batch(log, unreadable)
    append_pairs(log, (b"a", b"new"), (b"z", b"z"))
    before = records_of(log)
    after = records_of(compacted(log))
    assert [(r.first, r.length) for r in after][:2] == [(r.first, r.length) for r in before][1:3]
    assert log.state is LogState.ACTIVE


def test_a_batch_of_too_many_messages_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "COMPACTED_MESSAGES", 2)
    log = Folder(settings=SMALL).log()
    append_pairs(log, (b"a", b"1"), (b"a", b"2"), (b"a", b"3"))
    append_pairs(log, (b"z", b"z"))
    assert len(read_records(compacted(log))) == 4


def test_a_reader_that_asks_behind_the_last_record_of_a_batch_gets_the_next_one() -> None:
    """TANK's clients, and Kafka's old ones, ask for the number behind the last message that they have."""
    log = Folder(settings=SMALL).log()
    append_pairs(log, (b"a", b"stays"), (b"b", b"goes"), (b"c", b"goes"))
    append_pairs(log, (b"b", b"new"), (b"c", b"new"))
    assert list(read_records(compacted(log))) == [1, 4, 5]
    for number, base in ((1, 0), (2, 3), (3, 3), (4, 3)):
        data = stretch(log, number)
        assert data is not None
        assert record_batch.read_header(data).base_offset == base


def test_a_follower_copies_a_compacted_log_and_one_that_has_it_already_stays() -> None:
    ours, theirs = Folder(settings=SMALL), Folder(settings=SMALL)
    leader, early, late = ours.log(), theirs.log(), Folder(settings=SMALL).log()
    for turn in range(6):
        append_pairs(leader, (b"a", b"%d" % turn), (b"%d" % turn, b"x"))
    push(leader, early)
    compacted(leader)
    append_pairs(leader, (b"a", b"last"))
    push(leader, late)
    push(leader, early, start=1, keep=12)
    assert read_records(late) == read_records(leader)
    assert read_records(compacted(early)) == read_records(compacted(leader))


@settings(examples(50), deadline=None)
@given(st.lists(st.lists(BATCHES, min_size=1, max_size=5), min_size=1, max_size=3))
def test_any_rounds_leave_what_a_model_says(rounds: list[list[tuple[list[Pair], KafkaCodec, int]]]) -> None:
    folder = Folder(settings=SMALL)
    log = folder.log()
    stored: dict[int, Pair] = {}
    held: list[list[int]] = []
    for batches in rounds:
        for pairs, codec, gap in batches:
            first, last = append_pairs(log, *pairs, codec=codec, first=log.last + 1 + gap)
            stored |= dict(zip(range(first, last + 1), pairs, strict=True))
            held.append(list(range(first, last + 1)))
        before, through = log.segments.compacted_through, log.last
        compacted(log)
        assert before < log.segments.compacted_through == through
        newest = {key: number for number, (key, _) in stored.items() if key is not None}
        end = [number for number in held[-1] if number in stored]
        kept = {
            number: (key, value)
            for number, (key, value) in stored.items()
            if (newest[key] == number if key is not None else value is not None)
        }
        if kept.keys().isdisjoint(end):  # the log's end stays a batch's
            kept |= {number: stored[number] for number in end}
        stored = dict(sorted(kept.items()))
        assert values(log) == stored
    log = folder.kill()
    assert values(log) == stored
    for number in range(log.first_available, log.last + 1):
        data = stretch(log, number)
        at_or_behind = [n for n in stored if n >= number]
        assert (data is not None) == bool(at_or_behind)
        if data is not None:
            header = record_batch.read_header(data)
            assert header.base_offset < at_or_behind[0] <= header.last_offset + 1
