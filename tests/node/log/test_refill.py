"""Refill: one way back for a corrupt batch, a lost index, an emptied disk, and an end before the leader's
start."""

import errno
import os
import random
from collections.abc import Callable

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.epoch_history import epoch_at
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.producers import Outcome, Producers, ProducerVerdict
from tank_node.log.pushed import append_stretch
from tank_node.log.refill import begin_anew
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import LogDamaged, LogFailed, StorageError
from tests.support.nodes.replicas import assert_copies, push, records_of, stretch_of, with_memory
from tests.support.storage.fault_disk import PowerLoss
from tests.support.storage.logs import FOLDER, Folder, append, read_all, written_checkpoint

SMALL = LogSettings(segment_bytes=100, replication_factor=3)
FIRST_LOG = f"{FOLDER}/{1:020d}.log"
FIRST_INDEX = f"{FOLDER}/{1:020d}.index"


def pair(*, early_checkpoint: bool = False) -> tuple[PartitionLog, Folder, PartitionLog]:
    """A leader with 12 messages, and a follower that has everything synced; its checkpoint knows all of it,
    or little."""
    leader = Folder(settings=SMALL).log()
    for number in range(12):
        append(leader, b"%05d" % number * 6, epoch=1 + number // 8, now_ms=1000 + number)
    theirs = Folder(settings=SMALL)
    follower = theirs.log()
    append_stretch(follower, stretch_of(leader, 1), 0)
    follower.flush()
    theirs.data.write_checkpoint()
    if not early_checkpoint:
        push(leader, follower)
        follower.flush()
        theirs.data.write_checkpoint()
    push(leader, follower)
    follower.flush()
    return leader, theirs, follower


def flip(folder: Folder, path: str) -> None:
    content = bytearray(folder.fault.content(path))
    content[3] ^= 8
    folder.fault.overwrite(path, bytes(content))


def impaired(log: PartitionLog) -> bool:
    """Now: type checkers believe that an attribute stays what it was."""
    return log.is_impaired


def test_a_bad_batch_that_scrub_met_is_healed_from_the_leader() -> None:
    leader, theirs, follower = pair()
    flip(theirs, FIRST_LOG)
    assert follower.scrub(1 << 20).bad
    assert impaired(follower)
    with pytest.raises(LogDamaged):
        append_stretch(follower, stretch_of(leader, 13), 0)
    begin_anew(follower, 1, 0)
    push(leader, follower)
    assert_copies(leader, follower)
    assert impaired(follower), "before it is synced up to the leader's mark it claims nothing"
    follower.flush()
    follower.refilled_through(leader.last)
    assert not impaired(follower)
    assert_copies(leader, theirs.reopen())


@pytest.mark.parametrize("lost", ["index", "short index", "log", "everything"])
def test_what_a_crash_and_a_lost_file_leave_is_not_guessed_with_other_replicas_there(lost: str) -> None:
    leader, theirs, _ = pair()
    theirs.fault.kill_process()
    if lost == "short index":
        theirs.fault.overwrite(FIRST_INDEX, theirs.fault.content(FIRST_INDEX)[:64])
    for path in theirs.fault.paths():
        gone = {"index": FIRST_INDEX, "log": FIRST_LOG}.get(lost)
        if path == gone or (lost == "everything" and path.startswith(FOLDER)):
            theirs.fault.delete(path)
    follower = theirs.reopen_after_power_loss()
    if lost == "short index":  # a segment below the recovery point is looked into when it is read
        with pytest.raises(LogDamaged):
            for number in range(1, 13):
                stretch = follower.read(number, 1 << 20, follower.last)
                if stretch is not None:
                    stretch.file.release()
    assert follower.state is LogState.DAMAGED
    paths = theirs.fault.paths()
    maintain(follower, 10_000, 0, retain=False)
    assert (follower.state, theirs.fault.paths()) == (LogState.DAMAGED, paths), "left as it is"
    theirs.data.open_found()
    assert theirs.data.claims().damaged == ((7, 0),)
    begin_anew(follower, 1, 0)
    push(leader, follower)
    assert_copies(leader, follower)
    assert read_all(follower) == read_all(leader)


def test_a_refill_that_a_crash_interrupts_begins_again() -> None:
    for stop_at in range(200):
        leader, theirs, follower = pair(early_checkpoint=True)
        flip(theirs, FIRST_LOG)
        follower.scrub(1 << 20)
        theirs.fault.stop_at = theirs.fault.changes + stop_at
        done = False
        try:
            begin_anew(follower, 1, 0)
            while follower.last < leader.last:
                append_stretch(follower, stretch_of(leader, follower.last + 1), 0)
                follower.flush()
            follower.refilled_through(leader.last)
            theirs.data.write_checkpoint()
            done = True
        except PowerLoss:
            theirs.fault.lose_power(random.Random(stop_at))
        else:
            theirs.fault.kill_process()
        after = theirs.reopen_after_power_loss()
        if done:
            assert not after.is_impaired
            assert_copies(leader, after)
            return
        assert after.is_impaired or after.last == leader.last, "it claims to be whole and is not"
        begin_anew(after, 1, 0)
        push(leader, after)
        assert_copies(leader, after)
    raise AssertionError("it never got through")


def test_an_end_before_the_leaders_start_begins_there_with_the_epoch_before_it() -> None:
    leader, _, _ = pair()
    behind = Folder(settings=SMALL)
    follower = behind.log()
    append_stretch(follower, stretch_of(leader, 1, 1), 0)
    leader.retain_from(9)
    assert (leader.first_available, epoch_at(leader.epochs, 8)) == (9, 1)
    first = stretch_of(leader, 9)
    assert first.previous_epoch == 1
    begin_anew(follower, 9, first.previous_epoch)
    assert (follower.last, follower.first_available, follower.synced) == (8, 9, 0)
    assert epoch_at(follower.epochs, 8) == 1
    assert not follower.is_impaired, "it lacks nothing that anybody has"
    push(leader, follower)
    assert read_all(follower) == read_all(leader)
    assert follower.epochs[-1] == leader.epochs[-1]
    assert behind.kill().last == 12


@pytest.mark.parametrize("seed", range(8))
def test_what_the_leader_remembers_of_producers_comes_with_the_beginning_and_survives(seed: int) -> None:
    leader = with_memory().log()
    theirs = Folder(settings=SMALL)
    follower = theirs.log()
    begin_anew(follower, 9, 1, leader.producers_before(9))
    push(leader, follower)
    follower.flush()
    for _ in range(2):
        assert follower.tail.check_producer(8, 0, 0, 1) == ProducerVerdict(Outcome.REPEAT, 4, 4)
        assert follower.tail.check_producer(9, 0, 2, 1) == ProducerVerdict(Outcome.REPEAT, 3, 3)
        assert follower.tail.check_producer(9, 0, 3, 1).outcome is Outcome.APPEND
        theirs.fault.lose_power(random.Random(seed))
        follower = theirs.reopen_after_power_loss()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("suffix", [".index", ".log"])
def test_what_was_remembered_comes_again_where_the_first_segment_could_not_be_made(
    number: int, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory went with the segment: no later stretch may go on from there without it."""
    leader, theirs = with_memory().log(), Folder(settings=SMALL)
    memory, follower = leader.producers_before(9), theirs.log()
    opens = theirs.fault.open

    def refuses(path: str, *, create: bool = False) -> int:
        if create and path.endswith(suffix):
            raise OSError(number, os.strerror(number))
        return opens(path, create=create)

    with monkeypatch.context() as full:
        full.setattr(theirs.fault, "open", refuses)
        with pytest.raises(StorageError):
            begin_anew(follower, 9, 1, memory)
        assert not theirs.fault.paths(".producers")
    assert follower.state is LogState.DAMAGED
    with pytest.raises(LogDamaged):
        append_stretch(follower, stretch_of(leader, 9), 0)
    begin_anew(follower, 9, 1, memory)
    push(leader, follower)
    assert follower.tail.check_producer(9, 0, 2, 1) == ProducerVerdict(Outcome.REPEAT, 3, 3)


def test_what_is_remembered_before_a_number_is_not_what_comes_behind_it() -> None:
    log = Folder(settings=LogSettings(segment_bytes=1 << 20, replication_factor=3)).log()
    for sequence in range(4):
        append(log, b"a", b"b", producer=(9, 0, 2 * sequence))
    before = Producers.restore(log.producers_before(6))
    assert [batch.sequence for batch in before.batches()] == [0, 2], "the one that holds it comes itself"
    assert log.producers_before(1) == b""


def test_an_empty_beginning_is_synced_only_by_an_fsync_and_survives_then() -> None:
    _, theirs, follower = pair()
    begin_anew(follower, 50, 4)
    assert follower.synced == 0
    follower.flush()
    assert (follower.synced, follower.last) == (49, 49)
    theirs.data.write_checkpoint()
    theirs.fault.lose_power(random.Random(0))
    after = theirs.reopen_after_power_loss()
    assert (after.state, after.last, epoch_at(after.epochs, 49)) == (LogState.ACTIVE, 49, 4)


def test_below_the_leaders_start_nobody_reads_on() -> None:
    follower = Folder().log()
    for number in range(5):
        append(follower, b"%05d" % number)
    taken = follower.read(1, 1, 5)
    assert taken is not None
    taken.file.release()
    assert list(follower.cursors.places) == [2]
    follower.retain_from(4)
    assert (follower.first_available, list(follower.cursors.places)) == (4, [])


def test_the_leaders_start_cuts_whole_segments_and_is_served_from_there() -> None:
    leader, theirs, follower = pair()
    follower.retain_from(6)
    assert follower.first_available == 6
    assert follower.segments[0].base <= 6 < follower.segments[1].base
    follower.retain_from(4)
    assert follower.first_available == 6, "it never goes back"
    follower.retain_from(13)
    assert (follower.first_available, follower.last, len(records_of(follower))) == (13, 12, 0)
    append(leader, b"more", epoch=2)
    push(leader, follower)
    assert read_all(follower) == {13: b"more"}
    assert epoch_at(follower.epochs, 12) == 2
    after = theirs.kill()
    assert (after.first_available, after.last) == (13, 13)


def test_a_failed_replica_is_not_filled_anew_by_the_disk_that_failed_it() -> None:
    _, _, follower = pair()
    follower.fail("the disk said no")
    with pytest.raises(LogFailed):
        begin_anew(follower, 1, 0)


def test_a_whole_log_that_is_dropped_counts_as_damaged_until_it_is_copied() -> None:
    theirs = Folder(settings=SMALL)
    old = theirs.log()
    for number in range(4):
        append(old, b"%05d" % number * 6, epoch=5)
    old.flush()
    for _ in range(2):
        old.segments.changed = True
        theirs.data.write_checkpoint()
    leader = Folder(settings=SMALL).log()
    for number in range(6):
        append(leader, b"%05d" % number * 6, epoch=5 if number < 2 else 6)
    begin_anew(old, 1, 0)
    assert impaired(old)
    push(leader, old)
    old.flush()
    after = theirs.kill()
    assert impaired(after), "what the old one promised is not believed of the copy"
    begin_anew(after, 1, 0)
    push(leader, after)
    after.flush()
    after.refilled_through(leader.last)
    assert not impaired(after)
    assert_copies(leader, after)


def test_a_large_log_is_dropped_by_one_name_and_its_files_go_later() -> None:
    leader, theirs, follower = pair()
    flip(theirs, FIRST_LOG)
    follower.scrub(1 << 20)
    waiting: list[Callable[[], None]] = []
    theirs.data.removal.run = waiting.append
    segments = len(follower.segments)
    assert segments > 2
    begin_anew(follower, 1, 0)
    assert len(theirs.fault.paths(".log")) == segments + 1, "nothing was removed yet"
    push(leader, follower)
    follower.flush()
    for job in waiting:
        job()
    assert_copies(leader, follower)
    assert_copies(leader, theirs.kill())


def test_many_logs_that_are_cut_or_dropped_in_a_moment_cost_two_checkpoints() -> None:
    ours, theirs = Folder(settings=SMALL), Folder(settings=SMALL)
    for partition in range(20):
        leader, follower = ours.log(partition), theirs.log(partition)
        for number in range(4):
            append(leader, b"%05d" % number * 6)
        push(leader, follower)
        follower.high_water_mark = 2
        follower.flush()
        append(leader, b"new leader", epoch=2)
    theirs.data.write_checkpoint()
    before = theirs.fault.replaced["/data/checkpoint"]
    for partition in range(20):
        theirs.log(partition).truncate_to(3)
    assert theirs.fault.replaced["/data/checkpoint"] == before + 2
    theirs.data.write_checkpoint()
    assert {entry.recovery_point for entry in written_checkpoint(theirs).entries.values()} == {3}, "as before"
    before = theirs.fault.replaced["/data/checkpoint"]
    for partition in range(20):
        theirs.log(partition).spoiled("bit rot")
    for partition in range(20):
        begin_anew(theirs.log(partition), 1, 0)
    assert theirs.fault.replaced["/data/checkpoint"] == before + 2
    theirs.fault.kill_process()
    theirs.fault.delete("/data/checkpoint")
    theirs.data = theirs.open()
    theirs.data.open_found()
    assert len(theirs.data.claims().damaged) == 20, "the previous one says it, too"


@pytest.mark.parametrize("fails", [True, False])
def test_an_fsync_of_what_was_dropped_says_nothing_of_the_copy(fails: bool) -> None:
    """It meets the folder between its old name and its new one."""
    leader, _, follower = pair()
    append(leader, b"more", epoch=2)
    push(leader, follower)
    follower.roll()
    work = follower.begin_flush()
    assert work is not None
    assert work.folders
    begin_anew(follower, 50, 2)
    if fails:
        work.error = FileNotFoundError(2, "No such file or directory")
    follower.end_flush(work)
    assert (follower.state, follower.synced) == (LogState.ACTIVE, 0)
    follower.flush()
    assert follower.synced == 49


@pytest.mark.parametrize("state", [LogState.ACTIVE, LogState.DAMAGED])
def test_a_log_that_could_not_be_emptied_is_damaged_and_begins_again(state: LogState) -> None:
    leader, theirs, follower = pair()
    if state is LogState.DAMAGED:
        follower.spoiled("bit rot")
    whole = follower.discard

    def refuses() -> None:
        raise OSError(5, "Input/output error")

    follower.discard = refuses
    with pytest.raises(StorageError, match="cannot empty"):
        begin_anew(follower, 1, 0)
    assert follower.state is LogState.DAMAGED
    with pytest.raises(LogDamaged):
        follower.read(1, 1 << 20, follower.last)
    with pytest.raises(LogDamaged):
        append_stretch(follower, stretch_of(leader, 13), 0)
    follower.discard = whole
    begin_anew(follower, 1, 0)
    push(leader, follower)
    assert_copies(leader, follower)
    assert_copies(leader, theirs.kill())
