"""Making a damaged log whole where there is no replica: what is kept is durable, no number is given twice."""

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.epoch_history import epoch_at, last_common
from tank_node.log.log import LogState
from tank_node.log.producers import Outcome
from tank_node.log.recovery.mend import mend
from tank_node.log.settings import LogSettings
from tank_node.replication.append_check import Condition, Order, Standing, judge, kept_through
from tests.support.nodes.replicas import push, records_of
from tests.support.storage.logs import FOLDER, Folder, append, read_all

INDEX = f"{FOLDER}/{1:020d}.index"


def test_what_is_kept_of_a_damaged_log_is_made_durable_too() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=60))
    log = folder.log()
    for n in range(12):
        append(log, b"%02d" % n * 5)
    logs = folder.fault.paths(".log")
    assert len(logs) == 6
    for path in folder.fault.paths():
        if path.startswith(FOLDER):  # in the page cache, and never on the disk
            folder.fault.file(path).pending.clear()
    content = bytearray(folder.fault.content(logs[1]))
    content[-1] ^= 1
    folder.fault.file(logs[1]).data = content
    log = folder.kill()
    assert log.state is LogState.ACTIVE
    assert len(read_all(log)) == 11
    for path in folder.fault.paths():
        if path.startswith(FOLDER) and path.endswith((".log", ".index")):
            assert bytes(folder.fault.file(path).durable) == folder.fault.content(path), path


def test_a_batch_that_mending_left_out_is_no_repeat_when_its_producer_sends_it_again() -> None:
    folder = Folder(settings=LogSettings(replication_factor=3))
    log = folder.log()
    for sequence in range(4):
        append(log, b"%d" % sequence, producer=(9, 0, sequence))
    path = f"{FOLDER}/{1:020d}.log"
    content = bytearray(folder.fault.content(path))
    content[len(content) // 4 + 2] ^= 8
    folder.fault.overwrite(path, bytes(content))
    log = folder.kill()
    assert mend(log, 1000, 2).lost == [(2, 2)]
    found = [log.tail.check_producer(9, 0, sequence, 1).outcome for sequence in range(5)]
    repeat = Outcome.REPEAT
    assert found == [repeat, Outcome.GAP, repeat, repeat, Outcome.APPEND], "it would be acknowledged unstored"


def test_a_log_found_bad_while_it_runs_gives_no_number_twice_even_if_nothing_was_synced() -> None:
    folder = Folder()
    log = folder.log()
    for n in range(6):
        append(log, b"%d" % n)
    log.segments[0].index.drop_memory()
    folder.fault.overwrite(INDEX, bytes(len(folder.fault.content(INDEX))))
    assert log.scrub(1 << 20).bad
    maintain(log, 1000, 6)
    assert append(log, b"next") == (7, 7)
    assert read_all(log)[7] == b"next"


@pytest.mark.parametrize("window", [6, 40, 100, 1 << 20])
def test_a_lost_index_is_made_anew_a_piece_of_the_log_at_a_time(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tank_node.log.recovery.mend.READ_BYTES", window)
    folder = Folder()
    log = folder.log()
    stored = {n: b"%03d" % n * (1 + n % 5 * 20) for n in range(1, 40)}
    for value in stored.values():
        append(log, value)
    folder.data.close()
    folder.fault.delete(f"{FOLDER}/{1:020d}.index")
    log = folder.kill()
    assert (log.state, log.last, read_all(log)) == (LogState.ACTIVE, 39, stored)


@pytest.mark.parametrize("lost", ["in the middle", "at the end"])
def test_behind_the_first_loss_a_lossy_leader_goes_on_in_its_own_epoch_and_others_follow(lost: str) -> None:
    settings = LogSettings(segment_bytes=100, replication_factor=3)
    folder, theirs = Folder(settings=settings), Folder(settings=settings)
    log, follower = folder.log(), theirs.log()
    for number in range(12):
        append(log, b"value-%d" % number, epoch=1 + number // 6)
    push(log, follower)
    log.flush()
    path = folder.fault.paths(".log")[0 if lost == "in the middle" else -1]
    content = bytearray(folder.fault.content(path))
    content[-3] ^= 1
    folder.fault.overwrite(path, bytes(content))
    assert log.scrub(1 << 20).bad
    assert mend(log, 5000, 7).lost == [(5, 5) if lost == "in the middle" else (12, 12)]
    assert log.last == log.segments[-1].last == (12 if lost == "in the middle" else 11)
    append(log, b"after", epoch=7)
    [(_, first)] = [epoch for epoch in log.epochs if epoch[0] == 7]
    assert first == (5 if lost == "in the middle" else 12), "the number that was lost"
    assert {record.leader_epoch for record in records_of(log) if record.first > first} <= {7}
    # The follower has what was lost, and everything behind it: it goes on with what its leader goes on with.
    standing = Standing(7, False, Condition.GOOD, False, follower.last, follower.epochs)
    verdict = judge(Order(log.last + 1, 7, 7, 1), standing)
    point, _ = last_common(log.epochs, log.last, verdict.agreed_at, verdict.agreed_epoch)
    assert point < first
    assert not judge(Order(point + 1, 7, epoch_at(log.epochs, point), 1), standing).error
    push(log, follower, start=point + 1, keep=kept_through(12, 7, follower.epochs))
    assert read_all(follower) == read_all(log)
    assert follower.epochs == log.epochs


def test_a_kill_right_after_it_was_mended_gives_no_number_twice() -> None:
    """The end that mending leaves is named by a segment behind a hole, above the recovery point."""
    folder = Folder(settings=LogSettings(segment_bytes=100))
    log = folder.log()
    append(log, b"a" * 60)
    log.flush()
    folder.data.write_checkpoint()
    append(log, b"b" * 60)
    append(log, b"c" * 60)
    log.flush()
    log.spoiled("bit rot")
    newest = log.segments[-1]
    folder.fault.overwrite(newest.path(".log"), bytes(newest.size_bytes))
    maintain(log, 1000, 3)
    assert (log.state, log.last, list(read_all(log))) == (LogState.ACTIVE, 3, [1, 2])
    log = folder.kill()
    assert (log.state, log.last, list(read_all(log))) == (LogState.ACTIVE, 3, [1, 2])


def test_numbers_that_retention_took_are_not_given_again_where_a_lossy_election_chose_the_log() -> None:
    folder = Folder(settings=LogSettings(retention_ms=5000, replication_factor=3))
    log = folder.log()
    append(log, b"checkpointed")
    log.flush()
    folder.data.write_checkpoint()
    for _ in range(9):
        append(log, b"not yet")
    maintain(log, 60_000, log.last)
    assert (log.first_available, log.last) == (11, 10), "it has expired wholly"
    log = folder.kill()
    log.damage("as if")
    mend(log, 0, leader_epoch=7)
    assert (log.first_available, log.written) == (11, 10)
    assert append(log, b"next", epoch=7) == (11, 11)


def test_a_mended_segment_ends_chunks_where_compaction_took_the_last_messages_of_a_batch() -> None:
    """Its readers count the messages of the dense batch behind it on from those that they have."""
    settings = LogSettings(segment_bytes=2000, compact=True, min_cleanable_ratio=0.0)
    folder = Folder(settings=settings)
    log = folder.log()
    append(log, b"one", b"two", keys=[None, b"k"])
    append(log, b"three")
    append(log, b"four")
    append(log, b"new", keys=[b"k"])
    log.roll()
    log.flush()
    maintain(log, 1000, log.last)
    stored = read_all(log)
    assert stored == {1: b"one", 3: b"three", 4: b"four", 5: b"new"}
    path = f"{FOLDER}/{1:020d}.log"
    content = bytearray(folder.fault.content(path))
    content[-3] ^= 1
    folder.fault.overwrite(path, bytes(content))
    log = folder.kill()
    assert log.scrub(1 << 20).bad
    maintain(log, 2000, log.last)
    assert log.state is LogState.ACTIVE
    del stored[5]
    assert read_all(log) == stored


def test_no_fsync_vouches_for_the_end_of_a_damaged_log() -> None:
    """It may be the only replica: what is synced there is committed, and mending may leave less."""
    folder = Folder(settings=LogSettings(replication_factor=3))
    log = folder.log()
    for number in range(3):
        append(log, b"%d" % number)
    log.flush()
    folder.data.write_checkpoint()
    for number in range(3):
        append(log, b"%d" % number)
    path = f"{FOLDER}/{1:020d}.log"
    content = bytearray(folder.fault.content(path))
    content[len(content) // 6 * 3 + 2] ^= 1
    folder.fault.overwrite(path, bytes(content))
    log = folder.kill()
    assert log.state is LogState.DAMAGED
    folder.data.write_checkpoint()
    log = folder.kill()
    assert (log.state, log.written, log.synced) == (LogState.DAMAGED, 6, 3)
    assert log.begin_flush() is None
    assert mend(log, 1000).lost == [(4, 4)]
    assert (log.written, log.synced) == (6, 6)
