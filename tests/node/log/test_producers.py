"""Idempotent producers: what is stored, what is a repeat, what is refused, and what survives."""

import random

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.producers import (
    ACTIVE_FOR_MS,
    FORGOTTEN_AFTER_MS,
    MAX_PRODUCERS,
    Outcome,
    ProducedBatch,
    Producers,
    ProducerVerdict,
    check_snapshot,
)
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import StorageError
from tank_node.segment.index import SCAN_RECORDS
from tank_node.segment.record import Record, names_producers
from tests.support.storage.logs import FOLDER, Folder, append, read_all

APPEND = ProducerVerdict(Outcome.APPEND)


def produced(
    producers: Producers, sequences: range, *, epoch: int = 0, messages: int = 1, at_ms: int = 0
) -> None:
    """Batches of `messages`, numbered from 100 on."""
    for sequence in sequences:
        producers.append(9, epoch, ProducedBatch(sequence, messages, 100 + sequence, messages - 1), at_ms)


def test_a_new_producer_begins_at_zero() -> None:
    producers = Producers()
    assert producers.check(9, 0, 0, 10) == APPEND
    assert producers.check(9, 0, 1, 10).outcome is Outcome.UNKNOWN


def test_the_next_sequence_is_appended_and_a_later_one_is_a_gap() -> None:
    producers = Producers()
    produced(producers, range(0, 30, 10), messages=10)
    assert producers.check(9, 0, 30, 5) == APPEND
    assert producers.check(9, 0, 31, 5).outcome is Outcome.GAP
    assert producers.check(9, 0, 29, 5).outcome is Outcome.GAP, "it overlaps the end"


def test_the_last_five_are_repeats_with_their_numbers_and_older_ones_without() -> None:
    producers = Producers()
    produced(producers, range(0, 80, 10), messages=10)
    for sequence in range(30, 80, 10):
        assert producers.check(9, 0, sequence, 10) == ProducerVerdict(
            Outcome.REPEAT, 100 + sequence, 109 + sequence
        )
    for sequence in range(0, 30, 10):
        assert producers.check(9, 0, sequence, 10) == ProducerVerdict(Outcome.OLD_REPEAT)
    assert producers.check(9, 0, 40, 3).outcome is Outcome.OLD_REPEAT, "split differently, and stored"


def test_sequences_wrap_at_two_to_the_31() -> None:
    producers = Producers()
    produced(producers, range(2**31 - 50, 2**31, 10), messages=10)
    assert producers.check(9, 0, 0, 5) == APPEND
    producers.append(9, 0, ProducedBatch(0, 5, 500, 4), 0)
    assert producers.check(9, 0, 5, 1) == APPEND
    assert producers.check(9, 0, 2**31 - 10, 10).outcome is Outcome.REPEAT
    assert producers.check(9, 0, 2**31 - 100, 10).outcome is Outcome.OLD_REPEAT
    assert producers.check(9, 0, 6, 1).outcome is Outcome.GAP


@pytest.mark.parametrize("start", [0, 2**31 - 2])
def test_a_batch_that_a_crash_took_is_no_repeat_though_later_ones_are_there(start: int) -> None:
    producers = Producers()
    for number in (0, 1, 3, 5):
        producers.append(9, 0, ProducedBatch((start + number) % 2**31, 1, 100 + number, 0), 0)
    outcomes = [producers.check(9, 0, (start + n) % 2**31, 1).outcome for n in range(8)]
    repeat, gap = Outcome.REPEAT, Outcome.GAP
    assert outcomes == [repeat, repeat, gap, repeat, gap, repeat, Outcome.APPEND, gap]
    assert producers.check(9, 0, (start + 1) % 2**31, 2).outcome is gap, "only its first is there"
    assert producers.check(9, 0, start, 2).outcome is Outcome.OLD_REPEAT, "sent in one, and stored"


def test_a_producer_whose_first_batches_a_crash_took_is_not_told_that_they_are_stored() -> None:
    producers = Producers()
    produced(producers, range(1, 4))
    assert producers.check(9, 0, 0, 1).outcome is Outcome.GAP
    produced(producers, range(4, 6))
    assert producers.check(9, 0, 0, 1).outcome is Outcome.OLD_REPEAT, "five later ones: it was answered"


def test_a_batch_may_cross_the_wrap() -> None:
    producers = Producers()
    produced(producers, range(2**31 - 3, 2**31 - 2), messages=10)
    assert producers.check(9, 0, 7, 1) == APPEND
    assert producers.check(9, 0, 2**31 - 3, 10).outcome is Outcome.REPEAT


def test_a_new_epoch_begins_at_zero_and_the_old_one_is_refused() -> None:
    producers = Producers()
    produced(producers, range(3), epoch=4)
    assert producers.check(9, 5, 1, 1).outcome is Outcome.GAP
    assert producers.check(9, 5, 0, 1) == APPEND
    produced(producers, range(1), epoch=5)
    assert producers.check(9, 4, 3, 1).outcome is Outcome.STALE_EPOCH
    assert producers.check(9, 5, 0, 1).outcome is Outcome.REPEAT
    assert producers.check(9, 5, 1, 1) == APPEND


def test_undoing_an_append_brings_back_what_was_known_before() -> None:
    producers = Producers()
    first = producers.append(9, 0, ProducedBatch(0, 1, 1, 0), 5)
    second = producers.append(9, 1, ProducedBatch(0, 1, 2, 0), 6)
    producers.undo(9, second)
    assert producers.check(9, 0, 0, 1).outcome is Outcome.REPEAT
    producers.undo(9, first)
    assert producers.check(9, 0, 5, 1).outcome is Outcome.UNKNOWN
    assert len(producers) == 0


DAY_MS = 86_400_000


def others_write(producers: Producers, times_ms: range) -> None:
    """Another producer's batches, one at each time."""
    for sequence, at_ms in enumerate(times_ms):
        producers.append(8, 0, ProducedBatch(sequence, 1, 200 + sequence, 0), at_ms)


def test_a_producer_silent_for_seven_days_of_the_logs_own_time_is_forgotten() -> None:
    producers = Producers()
    produced(producers, range(3), at_ms=1000)
    others_write(producers, range(1000, 1001 + FORGOTTEN_AFTER_MS, DAY_MS))
    assert producers.check(9, 0, 3, 1) == APPEND
    producers.append(8, 0, ProducedBatch(8, 1, 208, 0), 1001 + FORGOTTEN_AFTER_MS)
    assert producers.check(9, 0, 3, 1).outcome is Outcome.FORGOTTEN
    assert producers.check(9, 0, 0, 1) == APPEND
    restored = Producers.restore(producers.snapshot())
    assert len(restored) == 1


@pytest.mark.parametrize("jump_ms", [8 * DAY_MS, 365 * DAY_MS])
def test_a_clock_that_jumps_makes_no_producer_forgotten(jump_ms: int) -> None:
    producers = Producers()
    produced(producers, range(3), at_ms=1000)
    others_write(producers, range(1000 + jump_ms, 1001 + jump_ms))
    for remembered in (producers, Producers.restore(producers.snapshot())):
        assert remembered.check(9, 0, 2, 1) == ProducerVerdict(Outcome.REPEAT, 102, 102)
        assert remembered.last_append_ms == 1000 + jump_ms
    # The jump counted as a day: six more days of silence are needed.
    others_write(producers, range(1000 + jump_ms, 1000 + jump_ms + 6 * DAY_MS, DAY_MS // 2))
    assert producers.check(9, 0, 2, 1).outcome is Outcome.REPEAT
    others_write(producers, range(1000 + jump_ms + 6 * DAY_MS, 1002 + jump_ms + 6 * DAY_MS))
    assert producers.check(9, 0, 2, 1).outcome is Outcome.FORGOTTEN


def test_undoing_an_append_behind_a_jump_forgets_nothing() -> None:
    producers = Producers()
    produced(producers, range(3), at_ms=1000)
    before = producers.append(9, 0, ProducedBatch(3, 1, 103, 0), 1000 + 30 * DAY_MS)
    producers.undo(9, before)
    assert producers.check(9, 0, 2, 1) == ProducerVerdict(Outcome.REPEAT, 102, 102)
    assert producers.check(9, 0, 3, 1) == APPEND


def test_a_jump_between_a_batch_and_its_repeat_in_the_log_itself() -> None:
    log = Folder().log()
    append(log, b"x", producer=(9, 0, 0), now_ms=1000)
    append(log, b"other", now_ms=1000 + 8 * DAY_MS)
    assert log.tail.check_producer(9, 0, 0, 1).outcome is Outcome.REPEAT


def test_a_producer_that_another_replica_forgot_begins_anew_here_too() -> None:
    producers = Producers()
    produced(producers, range(5), at_ms=1000)
    producers.append(9, 0, ProducedBatch(0, 1, 300, 0), 2000)
    assert producers.check(9, 0, 0, 1) == ProducerVerdict(Outcome.REPEAT, 300, 300)
    assert producers.check(9, 0, 1, 1) == APPEND
    assert len(producers.batches()) == 1


@pytest.mark.plain_node
def test_the_number_of_producers_is_bounded_by_forgetting_the_longest_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MAX_PRODUCERS == 100_000
    monkeypatch.setattr("tank_node.log.producers.MAX_PRODUCERS", 3)
    producers = Producers()
    for producer_id, at_ms in ((1, 0), (2, 0), (3, 0), (1, ACTIVE_FOR_MS), (4, ACTIVE_FOR_MS)):
        producers.append(producer_id, 0, ProducedBatch(0, 1, 1, 0), at_ms)
    assert len(producers) == 3
    assert producers.check(2, 0, 1, 1).outcome is Outcome.FORGOTTEN, "the longest silent went"
    assert producers.check(1, 0, 1, 1) == APPEND


def test_a_table_that_forgot_nobody_knows_that_a_producer_has_stored_nothing() -> None:
    producers = Producers()
    produced(producers, range(3), at_ms=1000)
    assert producers.check(7, 0, 1, 1).outcome is Outcome.UNKNOWN
    assert Producers.restore(producers.snapshot()).check(7, 0, 1, 1).outcome is Outcome.UNKNOWN


def test_that_producers_were_forgotten_is_remembered_in_snapshots_of_snapshots() -> None:
    producers = Producers()
    produced(producers, range(3), at_ms=1000)
    others_write(producers, range(1000, 1002 + FORGOTTEN_AFTER_MS, DAY_MS))
    others_write(producers, range(1001 + FORGOTTEN_AFTER_MS, 1002 + FORGOTTEN_AFTER_MS))
    assert not producers.has_forgotten, "its last batch's place is still in memory"
    once = Producers.restore(producers.snapshot())
    twice = Producers.restore(once.snapshot())
    for restored in (once, twice):
        assert restored.check(9, 0, 3, 1).outcome is Outcome.FORGOTTEN
        assert restored.check(7, 0, 1, 1).outcome is Outcome.FORGOTTEN, "it may be one of them"
        assert restored.check(7, 0, 0, 1) == APPEND


@pytest.mark.plain_node
def test_that_a_producer_was_forgotten_survives_a_restart_and_retention(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tank_node.log.producers.MAX_PRODUCERS", 1)
    folder = Folder()
    log = folder.log()
    append(log, b"x", producer=(8, 0, 0), now_ms=1000)
    append(log, b"x", producer=(9, 0, 0), now_ms=1000 + ACTIVE_FOR_MS)
    assert log.tail.check_producer(8, 0, 1, 1).outcome is Outcome.FORGOTTEN
    log.roll()
    log.drop_oldest(1)
    log = folder.reopen()
    assert log.tail.check_producer(8, 0, 1, 1).outcome is Outcome.FORGOTTEN
    assert log.tail.check_producer(9, 0, 0, 1).outcome is Outcome.REPEAT


def test_a_snapshot_lost_with_its_records_may_have_named_any_producer() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"x", producer=(8, 0, 0))
    log.roll()
    log.drop_oldest(1)
    path = f"{FOLDER}/{2:020d}.producers"
    folder.fault.overwrite(path, b"torn")
    log.producers.forget()
    assert log.tail.check_producer(8, 0, 1, 1).outcome is Outcome.FORGOTTEN


def test_a_snapshot_of_nothing_but_forgotten_producers_is_handed_to_followers() -> None:
    producers = Producers()
    produced(producers, range(1), at_ms=1000)
    for at_ms in range(1000, 1000 + 9 * DAY_MS, DAY_MS // 2):
        producers.pass_over(at_ms)
    assert not check_snapshot(Producers().snapshot())
    restored = Producers.restore(producers.snapshot())
    assert (len(restored), restored.has_forgotten) == (0, True)
    assert check_snapshot(restored.snapshot())


@pytest.mark.plain_node
def test_no_producer_that_wrote_within_a_minute_makes_room_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tank_node.log.producers.MAX_PRODUCERS", 3)
    producers = Producers()
    for producer_id in (1, 2, 3):
        assert producers.check(producer_id, 0, 0, 1) == APPEND
        producers.append(producer_id, 0, ProducedBatch(0, 1, producer_id, 0), 1000)
    assert producers.check(4, 0, 0, 1).outcome is Outcome.TOO_MANY
    assert producers.check(1, 0, 1, 1) == APPEND, "those that are known go on"
    assert producers.check(1, 0, 0, 1) == ProducerVerdict(Outcome.REPEAT, 1, 1)
    producers.append(4, 0, ProducedBatch(0, 1, 4, 0), 1000)
    assert len(producers) == 4, "a follower keeps what its leader took"
    producers.append(1, 0, ProducedBatch(1, 1, 5, 0), 1000 + ACTIVE_FOR_MS)
    assert producers.check(5, 0, 0, 1) == APPEND, "a minute later the longest silent one may go"


def test_a_snapshot_holds_everything_and_is_refused_when_spoiled() -> None:
    producers = Producers()
    produced(producers, range(0, 80, 10), epoch=3, messages=10, at_ms=77)
    content = producers.snapshot()
    restored = Producers.restore(content)
    for sequence in range(0, 90, 10):
        assert restored.check(9, 3, sequence, 10) == producers.check(9, 3, sequence, 10)
    assert restored.last_append_ms == 77
    for length in range(len(content)):
        with pytest.raises(ValueError):
            Producers.restore(content[:length])
    for at in range(len(content)):
        spoiled = bytearray(content)
        spoiled[at] ^= 4
        with pytest.raises(ValueError):
            Producers.restore(bytes(spoiled))


def test_staged_batches_count_and_undone_ones_do_not() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"a", producer=(9, 0, 0), write=False)
    assert log.tail.check_producer(9, 0, 0, 1) == ProducerVerdict(Outcome.REPEAT, 1, 1)
    assert log.tail.check_producer(9, 0, 1, 1) == APPEND
    log.tail.drop()
    assert log.tail.check_producer(9, 0, 1, 1).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("stop", ["kill", "reopen"])
def test_the_memory_survives_every_kind_of_stop(stop: str) -> None:
    folder = Folder(settings=LogSettings(segment_bytes=120))
    for sequence in range(20):
        append(folder.log(), b"%02d" % sequence * 10, producer=(9, 2, sequence))
        append(folder.log(), b"nobody")
    log = folder.kill() if stop == "kill" else folder.reopen()
    assert log.tail.check_producer(9, 2, 20, 1) == APPEND
    assert log.tail.check_producer(9, 2, 19, 1) == ProducerVerdict(Outcome.REPEAT, 39, 39)
    assert log.tail.check_producer(9, 2, 15, 1) == ProducerVerdict(Outcome.REPEAT, 31, 31)
    assert log.tail.check_producer(9, 2, 14, 1).outcome is Outcome.OLD_REPEAT


@pytest.mark.parametrize("spoil", [False, True])
def test_the_memory_survives_retention(spoil: bool) -> None:
    folder = Folder(settings=LogSettings(segment_bytes=120, retention_segments=2))
    log = folder.log()
    for sequence in range(5):
        append(log, b"x" * 20, producer=(9, 0, sequence))
    for _ in range(40):
        append(log, b"y" * 50)
    log.flush()
    maintain(log, 0, log.last)
    assert log.first_available > 30
    snapshots = folder.fault.paths(".producers")
    assert len(snapshots) == 2
    if spoil:  # the newest is torn: the one before it and the records say the same
        folder.fault.overwrite(snapshots[-1], folder.fault.content(snapshots[-1])[:-1])
    log = folder.kill()
    assert log.tail.check_producer(9, 0, 5, 1) == APPEND
    assert log.tail.check_producer(9, 0, 4, 1) == ProducerVerdict(Outcome.REPEAT, 5, 5)


def test_a_truncation_undoes_the_memory() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=120))
    log = folder.log()
    for sequence in range(20):
        append(log, b"x" * 20, producer=(9, sequence // 10, sequence % 10))
    log.truncate_to(7)
    assert log.tail.check_producer(9, 0, 6, 1) == ProducerVerdict(Outcome.REPEAT, 7, 7)
    assert log.tail.check_producer(9, 0, 7, 1) == APPEND
    assert not [path for path in folder.fault.paths(".producers") if path > f"{FOLDER}/{8:020d}.producers"]
    append(log, b"other", producer=(9, 0, 7))
    log = folder.kill()
    assert log.tail.check_producer(9, 0, 8, 1) == APPEND
    assert log.tail.check_producer(9, 1, 1, 1).outcome is Outcome.GAP


@pytest.mark.parametrize("producer", [0, 1, 255, 256, 2**32, 2**63])
@pytest.mark.parametrize("place", [0, 1, 99])
def test_one_producer_among_many_records_is_seen(producer: int, place: int) -> None:
    plain = Record(1, 0, 0, 10, 2**32 - 1, 2**63, 2**63, 0, 7, 9, 3, 1, 255, 5)
    records = [plain._replace(producer_id=producer if i == place else 0).pack() for i in range(100)]
    assert names_producers(b"".join(records)) is (producer != 0)


def test_a_producer_that_others_followed_is_remembered_with_the_logs_own_time() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"p", producer=(9, 0, 0), now_ms=1000)
    for n in range(SCAN_RECORDS + 10):
        append(log, b"x", now_ms=2000 + n, write=n % 100 == 0)
    log.tail.write()
    log = folder.kill()
    assert log.producers.load(log.written).last_append_ms == 2000 + SCAN_RECORDS + 9
    assert log.tail.check_producer(9, 0, 1, 1).outcome is Outcome.APPEND


def test_a_batch_whose_producers_cannot_be_read_changes_nothing() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"p", producer=(9, 0, 0))
    log = folder.reopen()
    append(log, b"x", write=False)
    index = folder.fault.paths(".index")[0]
    folder.fault.delete(folder.fault.paths(".producers")[0])
    content = folder.fault.content(index)
    log.segments[0].index.drop_memory()
    folder.fault.overwrite(index, b"")
    with pytest.raises(StorageError):
        append(log, b"q", producer=(9, 0, 1))
    assert log.last == 2
    folder.fault.overwrite(index, content)
    assert append(log, b"q", producer=(9, 0, 1)) == (3, 3)
    assert read_all(log) == {1: b"p", 2: b"x", 3: b"q"}


def test_an_orderly_stop_leaves_the_memory_in_one_file() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"p", producer=(9, 0, 0))
    log = folder.reopen()
    assert [path.rpartition("/")[2] for path in folder.fault.paths(".producers")] == [f"{2:020d}.producers"]
    read = folder.fault.bytes_read
    assert log.tail.check_producer(9, 0, 0, 1) == ProducerVerdict(Outcome.REPEAT, 1, 1)
    assert folder.fault.bytes_read - read < 200


def test_a_snapshot_of_batches_that_were_truncated_is_not_believed_later() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"p", producer=(9, 0, 0))
    append(log, b"truncated", producer=(9, 0, 1))
    log = folder.reopen()
    log.truncate_to(1)
    append(log, b"others")
    append(log, b"others")
    log = folder.kill()
    assert log.tail.check_producer(9, 0, 1, 1) == APPEND
    assert log.tail.check_producer(9, 0, 0, 1) == ProducerVerdict(Outcome.REPEAT, 1, 1)


def test_the_memory_survives_retention_and_a_power_failure_after_it() -> None:
    for seed in range(20):
        folder = Folder(settings=LogSettings(segment_bytes=50, retention_segments=2))
        log = folder.log()
        append(log, b"p" * 40, producer=(9, 0, 0))
        for _ in range(3):
            append(log, b"x" * 40)
        log.flush()
        maintain(log, 1000, log.last)
        assert log.first_available == 3
        folder.fault.lose_power(random.Random(seed))
        log = folder.reopen_after_power_loss()
        assert log.tail.check_producer(9, 0, 0, 1) == ProducerVerdict(Outcome.REPEAT, 1, 1)
