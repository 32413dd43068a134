"""Logs of Kafka's record batches: read, cut at every byte, mended, scrubbed, copied to followers."""

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState
from tank_node.log.producers import Outcome, ProducerVerdict
from tank_node.log.recovery.mend import mend
from tank_node.log.settings import LogSettings
from tank_node.segment.record import FORMAT_KAFKA, MARKER, RECORD_BYTES, SPARSE, TRANSACTIONAL
from tank_protos.kafka import control_batch, record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.control_batch import ControlType, TransactionEnd
from tank_protos.kafka.record_batch import ProducerFields
from tank_protos.kafka.records import KafkaRecord
from tank_protos.storage.record_run import BadRecord
from tests.support.nodes.replicas import assert_copies, push, records_of
from tests.support.storage.kafka_logs import (
    ALONE,
    KAFKA,
    REPLICATED,
    Content,
    append_batch,
    append_pairs,
    headers,
    read_records,
    stretch,
)
from tests.support.storage.logs import Folder
from tests.support.storage.recovered import INDEX, LOG, state_of
from tests.support.values.kafka_records import STAMP_MS

MARKER_BATCH = control_batch.encode(TransactionEnd(ControlType.COMMIT, 9, 0, 1), STAMP_MS)
STORED = {
    1: Content(b"a", b"one", STAMP_MS),
    2: Content(b"b", None, STAMP_MS + 1),
    3: Content(None, b"three", STAMP_MS),
    7: Content(b"a", b"seven", STAMP_MS),
}


def filled(folder: Folder) -> None:
    """Three batches, 1 to 2, 3 and 7, in two leader epochs."""
    log = folder.log()
    append_pairs(log, (b"a", b"one"), (b"b", None))
    append_pairs(log, (None, b"three"), codec=KafkaCodec.ZSTD)
    append_pairs(log, (b"a", b"seven"), first=7, epoch=2)
    log.flush()


def test_a_read_gives_whole_batches_from_the_one_that_holds_the_number() -> None:
    folder = Folder(settings=KAFKA)
    filled(folder)
    log = folder.log()
    whole = folder.fault.content(LOG)
    found = [bytes(batch) for batch in record_batch.batches(whole)]
    assert [len(batch) for batch in found] == [r.length for r in log.segments[0].index.records()]
    assert stretch(log, 1) == stretch(log, 2) == whole
    assert stretch(log, 1, max_bytes=1) == found[0]
    assert stretch(log, 2, max_bytes=len(found[0]) + len(found[1])) == found[0] + found[1]
    assert stretch(log, 4) == stretch(log, 7) == found[2], "a number in a hole gives the next batch"
    assert stretch(log, 1, through=3) == found[0] + found[1]
    assert stretch(log, 8) is None


def test_batches_carry_their_numbers_and_the_epoch_of_their_leader() -> None:
    folder = Folder(settings=KAFKA)
    filled(folder)
    log = folder.log()
    assert [(h.base_offset, h.leader_epoch) for h in headers(log)] == [(0, 1), (2, 1), (6, 2)]
    assert all(record.flags == SPARSE and record.format == FORMAT_KAFKA for record in records_of(log))
    assert read_records(log, max_bytes=1) == read_records(log) == STORED


@pytest.mark.parametrize("settings", [ALONE, REPLICATED])
@pytest.mark.parametrize("path", [LOG, INDEX])
def test_a_file_cut_at_every_byte_loses_what_is_not_whole(settings: LogSettings, path: str) -> None:
    folder = Folder(settings=settings)
    filled(folder)
    log, index = folder.fault.content(LOG), folder.fault.content(INDEX)
    ends = [sum(len(batch) for batch in record_batch.batches(log[:end])) for end in range(len(log) + 1)]
    for length in range(len(log if path == LOG else index)):
        folder.fault.overwrite(LOG, log[:length] if path == LOG else log)
        folder.fault.overwrite(INDEX, index[:length] if path == INDEX else index)
        opened = folder.kill()
        whole = (
            sum(1 for _ in record_batch.batches(log[: ends[length]]))
            if path == LOG
            else length // RECORD_BYTES
        )
        assert opened.state is LogState.ACTIVE
        last = [0, 2, 3, 7][whole]
        assert read_records(opened) == {n: content for n, content in STORED.items() if n <= last}
        assert append_pairs(opened, (b"k", b"next"), epoch=3) == (last + 1, last + 1)
        assert read_records(opened)[last + 1] == Content(b"k", b"next", STAMP_MS)


@pytest.mark.parametrize("settings", [ALONE, REPLICATED])
def test_every_byte_flipped_is_found_also_those_that_kafkas_checksum_does_not_cover(
    settings: LogSettings,
) -> None:
    folder = Folder(settings=settings)
    filled(folder)
    files = {path: folder.fault.content(path) for path in (LOG, INDEX)}
    firsts = [1, 3, 7]
    ends = [record.end for record in folder.log().segments[0].index.records()]
    for at in range(len(files[LOG])):
        flipped = bytearray(files[LOG])
        flipped[at] ^= 0x10
        folder.fault.overwrite(LOG, bytes(flipped))
        folder.fault.overwrite(INDEX, files[INDEX])
        log = folder.kill()
        bad = sum(end <= at for end in ends)
        if bad == 2:
            assert (log.state, log.last) == (LogState.ACTIVE, 3), "it may be a torn tail"
        elif settings is REPLICATED:
            assert log.state is LogState.DAMAGED
        else:
            lost = firsts[bad : bad + 2]
            assert read_records(log) == {n: c for n, c in STORED.items() if not lost[0] <= n < lost[1]}


def test_a_lost_index_is_made_anew_from_the_batches() -> None:
    folder = Folder(settings=ALONE)
    filled(folder)
    log = folder.log()
    one = ProducerFields(9, 0, 0)
    made = [KafkaRecord(b"k", b"v", 0, 0)]
    batch = record_batch.encode(made, base_timestamp_ms=STAMP_MS + 9, producer=one, transactional=True)
    append_batch(log, batch, epoch=2)
    append_batch(log, MARKER_BATCH, epoch=3)
    before = records_of(log)
    log.flush()
    folder.data.close()
    folder.fault.delete(INDEX)
    log = folder.kill()
    assert log.state is LogState.ACTIVE
    after = records_of(log)
    for old, new in zip(before, after, strict=True):
        assert (new.first, new.last, new.messages, new.length) == (
            old.first,
            old.last,
            old.messages,
            old.length,
        )
        assert (new.max_timestamp_ms, new.format) == (old.max_timestamp_ms, FORMAT_KAFKA)
        assert new.flags & (SPARSE | TRANSACTIONAL | MARKER) == old.flags
    assert [header.leader_epoch for header in headers(log)] == [record.leader_epoch for record in after]
    assert {n: c for n, c in read_records(log).items() if n in STORED} == STORED
    assert append_pairs(log, (b"k", b"next"), epoch=4) == (10, 10)


def test_batches_of_a_lost_index_have_the_time_of_their_append_where_they_say_it() -> None:
    folder = Folder(settings=LogSettings(format=FORMAT_KAFKA, replication_factor=3))
    log = folder.log()
    made = [KafkaRecord(b"k", b"v", 0, 0)]
    for append_ms, is_in_batch in ((2000, True), (3000, False), (4000, True), (3999, True), (5000, False)):
        stamp_ms = append_ms if is_in_batch else None
        batch = record_batch.encode(made, base_timestamp_ms=STAMP_MS, append_ms=stamp_ms)
        append_batch(log, batch, now_ms=append_ms)
    assert [record.append_ms for record in records_of(log)] == [2000, 3000, 4000, 4000, 5000]
    log.flush()
    folder.data.write_checkpoint()
    folder.fault.delete(INDEX)
    log = folder.kill()
    mend(log, 9000, 2)
    # The second one was appended before the third at least. Of the last one nothing is known.
    assert [record.append_ms for record in records_of(log)] == [2000, 3999, 4000, 4000, 9000]


def test_batches_that_are_made_anew_have_their_producers_and_epochs_that_a_replica_can_copy() -> None:
    small = LogSettings(format=FORMAT_KAFKA, segment_bytes=250, replication_factor=1)
    folder = Folder(settings=small)
    log = folder.log()
    for turn in range(12):
        producer = ProducerFields(9, 2, turn)
        append_pairs(log, (b"k%d" % turn, b"v"), producer=producer, epoch=1 if turn < 9 else 4)
    log.flush()
    history = log.epochs
    folder.data.write_checkpoint()
    for segment in (log.segments[1], log.segments[-1]):
        folder.fault.delete(segment.path(".index"))
    log = folder.kill()
    assert "rebuilt the index of 6 messages" in folder.data.recovered.damaged[0]
    assert log.epochs == history == [(1, 1), (4, 10)]
    copy = Folder(settings=REPLICATED).log()
    push(log, copy)
    for replica in (log, copy):
        assert [header.leader_epoch for header in headers(replica)] == 9 * [1] + 3 * [4]
        assert replica.tail.check_producer(9, 2, 11, 1) == ProducerVerdict(Outcome.REPEAT, 12, 12)
        assert replica.tail.check_producer(9, 2, 12, 1).outcome is Outcome.APPEND


def test_bytes_that_are_no_batch_end_what_is_made_anew() -> None:
    folder = Folder(settings=ALONE)
    filled(folder)
    folder.data.close()
    folder.fault.delete(INDEX)
    content = bytearray(folder.fault.content(LOG))
    content[-1] ^= 1  # in the records of the last batch
    folder.fault.overwrite(LOG, bytes(content))
    log = folder.kill()
    assert read_records(log) == {n: content for n, content in STORED.items() if n < 7}
    assert "LOST the messages 4-7" in folder.data.recovered.damaged[0]
    assert append_pairs(log, (b"k", b"next"), epoch=3) == (8, 8)


def test_behind_a_loss_batches_say_the_epoch_of_the_leader_that_mended() -> None:
    """Consumers compare the epoch in a batch with the history of epochs."""
    folder = Folder(settings=REPLICATED)
    filled(folder)
    log = folder.log()
    content = bytearray(folder.fault.content(LOG))
    content[0] ^= 1
    folder.fault.overwrite(LOG, bytes(content))
    assert log.scrub(1 << 20).bad
    assert state_of(log) is LogState.DAMAGED
    assert mend(log, 5000, 7).lost == [(1, 2), (4, 6)]
    assert [(h.base_offset, h.leader_epoch) for h in headers(log)] == [(2, 7), (6, 7)]
    assert {record.leader_epoch for record in records_of(log)} == {7}
    assert read_records(log) == {n: content for n, content in STORED.items() if n > 2}


@pytest.mark.parametrize("max_bytes", [1, 200, 1 << 20])
def test_a_follower_holds_the_same_bytes(max_bytes: int) -> None:
    ours = Folder(settings=REPLICATED)
    theirs = Folder(settings=LogSettings(format=FORMAT_KAFKA, segment_bytes=170, replication_factor=3))
    filled(ours)
    leader, follower = ours.log(), theirs.log()
    append_batch(leader, MARKER_BATCH, epoch=2)
    append_pairs(leader, (b"k", b"v"), producer=ProducerFields(9, 1, 5), epoch=2)
    push(leader, follower, max_bytes=max_bytes)
    assert_copies(leader, follower)
    assert read_records(follower) == read_records(leader)
    assert follower.tail.check_producer(9, 1, 5, 1).outcome is Outcome.REPEAT
    follower.flush()
    assert_copies(leader, theirs.kill())


def test_a_follower_of_another_format_takes_nothing() -> None:
    ours, theirs = Folder(settings=REPLICATED), Folder(settings=LogSettings(replication_factor=3))
    filled(ours)
    follower = theirs.log()
    with pytest.raises(BadRecord):
        push(ours.log(), follower)
    assert follower.last == 0


def test_a_search_by_time_finds_the_batch() -> None:
    folder = Folder(settings=KAFKA)
    log = folder.log()
    for turn in range(5):
        made = [KafkaRecord(b"k", b"v", 0, 0)]
        append_batch(log, record_batch.encode(made, base_timestamp_ms=STAMP_MS + 10 * turn))
    assert log.find_time(STAMP_MS + 21) == (4, STAMP_MS + 30)


def test_a_batch_without_times_has_that_of_its_append_in_the_index() -> None:
    folder = Folder(settings=KAFKA)
    log = folder.log()
    made = [KafkaRecord(b"k", b"v", 0, 0)]
    append_batch(log, record_batch.encode(made, base_timestamp_ms=-1), now_ms=5000)
    assert [record.max_timestamp_ms for record in records_of(log)] == [5000]
    maintain(log, 6000, log.last)
    assert log.find_time(5000) == (1, 5000)
