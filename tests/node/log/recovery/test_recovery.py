"""Opening logs after a crash: cut tails, flipped bytes, lost files, lost checkpoints. Found, and never
served."""

import pytest

from tank_node.log.log import LogState, PartitionLog
from tank_node.log.recovery import recovery
from tank_node.log.recovery.mend import mend
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import StorageError
from tank_node.segment.record import RECORD_BYTES
from tests.support.storage.logs import (
    DATA,
    FOLDER,
    TOPIC,
    Folder,
    append,
    append_sparse,
    error_of,
    read_all,
)
from tests.support.storage.recovered import (
    ALONE,
    INDEX,
    LOG,
    REPLICATED,
    VALUES,
    six_messages,
    state_of,
    the_other_partition_is_well,
)


def ends(content: bytes) -> list[int]:
    """Where each batch of the log ends."""
    found, at = [], 0
    while at < len(content):
        at += 1 + content[at]
        found.append(at)
    return found


def test_a_killed_process_loses_nothing_that_was_written() -> None:
    folder = Folder()
    six_messages(folder)
    append(folder.log(), b"unsynced")
    log = folder.kill()
    assert read_all(log) == VALUES | {7: b"unsynced"}
    assert log.synced == log.last == 7
    assert append(log, b"next") == (8, 8)


def test_after_a_clean_stop_no_file_is_read() -> None:
    folder = Folder()
    six_messages(folder)
    folder.data.close()
    folder.fault.bytes_read = 0
    folder.data = folder.open()
    before = folder.fault.bytes_read
    opened = folder.fault.opened
    log = folder.log()
    assert folder.data.recovered.clean
    assert (log.last, log.synced, log.first_available, log.size_bytes) == (6, 6, 1, 6 * 19)
    assert (folder.fault.bytes_read, folder.fault.opened) == (before, opened)
    assert read_all(log) == VALUES


def test_after_a_crash_only_what_is_behind_the_recovery_point_is_read() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=4000))
    folder.data.mark_registered(7)
    log = folder.log()
    for n in range(1000):
        append(log, b"%05d" % n * 10)
    log.flush()
    folder.data.write_checkpoint()
    append(log, b"behind")
    folder.fault.bytes_read = 0
    log = folder.kill()
    recovered = folder.data.recovered
    assert (recovered.messages_checked, recovered.clean, recovered.tail_sure) == (1, False, True)
    assert folder.fault.bytes_read < 12_000, "the checkpoint, the newest segment's index, and one batch"
    assert log.last == 1001


@pytest.mark.parametrize("settings", [ALONE, REPLICATED])
def test_the_log_cut_at_every_byte_of_its_last_three_batches(settings: LogSettings) -> None:
    folder = Folder(settings=settings)
    six_messages(folder)
    whole = folder.fault.content(LOG)
    index = folder.fault.content(INDEX)
    batch_ends = ends(whole)
    for length in range(batch_ends[2], len(whole)):
        folder.fault.overwrite(LOG, whole[:length])
        folder.fault.overwrite(INDEX, index)
        log = folder.kill()
        left = sum(end <= length for end in batch_ends)
        assert log.state is LogState.ACTIVE
        assert read_all(log) == {n: VALUES[n] for n in range(1, left + 1)}
        assert len(folder.fault.content(INDEX)) == left * RECORD_BYTES
        assert len(folder.fault.content(LOG)) == (batch_ends[left - 1])
        assert append(log, b"next") == (left + 1, left + 1)
    the_other_partition_is_well(folder)


def test_a_changed_last_batch_of_the_only_replica_is_lost_and_its_number_is_not_given_again() -> None:
    folder = Folder(settings=ALONE)
    folder.data.mark_registered(7)
    six_messages(folder)
    folder.fault.overwrite(LOG, folder.fault.content(LOG)[:-1] + b"!")
    log = folder.kill()
    assert state_of(log) is LogState.ACTIVE
    assert "LOST the messages 6-6" in folder.data.recovered.damaged[0]
    assert append(log, b"next") == (7, 7)
    assert read_all(log) == {n: VALUES[n] for n in range(1, 6)} | {7: b"next"}


@pytest.mark.parametrize("machine_runs_on", [True, False])
def test_a_changed_last_batch_is_damage_where_no_power_was_lost(*, machine_runs_on: bool) -> None:
    folder = Folder(settings=REPLICATED)
    folder.data.mark_registered(7)
    six_messages(folder)
    whole = folder.fault.content(LOG)
    folder.fault.overwrite(LOG, whole[:-1] + b"!")
    if machine_runs_on:
        log = folder.kill()
    else:
        folder.fault.kill_process()
        log = folder.reopen_after_power_loss()
    assert folder.data.recovered.tail_sure is machine_runs_on
    assert state_of(log) is (LogState.DAMAGED if machine_runs_on else LogState.ACTIVE)
    assert folder.data.claims().damaged == (((TOPIC, 0),) if machine_runs_on else ())
    the_other_partition_is_well(folder)


@pytest.mark.parametrize("settings", [ALONE, REPLICATED])
def test_the_index_cut_at_every_byte_of_its_last_three_records(settings: LogSettings) -> None:
    folder = Folder(settings=settings)
    six_messages(folder)
    whole = folder.fault.content(LOG)
    index = folder.fault.content(INDEX)
    for length in range(3 * RECORD_BYTES, len(index)):
        folder.fault.overwrite(LOG, whole)
        folder.fault.overwrite(INDEX, index[:length])
        log = folder.kill()
        left = length // RECORD_BYTES
        assert read_all(log) == {n: VALUES[n] for n in range(1, left + 1)}, (
            "a batch exists when its record does"
        )
        assert len(folder.fault.content(INDEX)) == left * RECORD_BYTES
        assert append(log, b"next") == (left + 1, left + 1)
    the_other_partition_is_well(folder)


def never_serves_anything_else(log: PartitionLog) -> None:
    for number, value in read_all(log).items():
        assert VALUES[number] == value


@pytest.mark.parametrize("settings", [ALONE, REPLICATED])
@pytest.mark.parametrize("path", [LOG, INDEX])
@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_every_byte_flipped_while_the_process_was_dead(settings: LogSettings, path: str, bit: int) -> None:
    folder = Folder(settings=settings)
    six_messages(folder)
    files = {name: folder.fault.content(name) for name in folder.fault.paths() if name.startswith(FOLDER)}
    size = len(files[path])
    last_batch = ends(files[LOG])[4] if path == LOG else 5 * RECORD_BYTES
    for at in range(size):
        for name, content in files.items():
            folder.fault.overwrite(name, content)
        flipped = bytearray(files[path])
        flipped[at] ^= bit
        folder.fault.overwrite(path, bytes(flipped))
        log = folder.kill()
        never_serves_anything_else(log)
        if at >= last_batch:
            assert (log.state, log.last) == (LogState.ACTIVE, 5), (
                "the tail is cut: nobody can tell it from a torn one"
            )
        elif settings is REPLICATED:
            assert log.state is LogState.DAMAGED
            assert folder.fault.content(path) == bytes(flipped), "nothing is cut before it is refilled"
            assert error_of(log) is not None
        else:
            assert log.state is LogState.ACTIVE
            bad = 1 + (sum(end <= at for end in ends(files[LOG])) if path == LOG else at // RECORD_BYTES)
            assert read_all(log) == {n: v for n, v in VALUES.items() if n != bad}, "the good ones stay"
            assert f"{bad}-{bad}" in folder.data.recovered.damaged[0]
            assert append(log, b"next") == (7, 7)
    the_other_partition_is_well(folder)


def test_a_lost_index_is_rebuilt_when_there_is_no_replica() -> None:
    folder = Folder(settings=ALONE)
    six_messages(folder)
    append_sparse(folder.log(), [10, 15], b"ten", b"fifteen")
    folder.fault.delete(INDEX)
    log = folder.kill()
    assert read_all(log) == VALUES | {10: b"ten", 15: b"fifteen"}
    assert log.state is LogState.ACTIVE
    assert "missing" in folder.data.recovered.damaged[0]
    assert "rebuilt the index of 8 messages" in folder.data.recovered.damaged[0]
    assert append(log, b"next") == (16, 16)
    assert read_all(folder.kill()) == VALUES | {10: b"ten", 15: b"fifteen", 16: b"next"}


def test_an_index_shorter_than_the_recovery_point_is_rebuilt_when_there_is_no_replica() -> None:
    folder = Folder(settings=ALONE)
    six_messages(folder)
    folder.data.write_checkpoint()
    folder.fault.overwrite(INDEX, folder.fault.content(INDEX)[: 2 * RECORD_BYTES + 5])
    log = folder.kill()
    assert read_all(log) == VALUES
    assert "rebuilt the index of 4 messages" in folder.data.recovered.damaged[0]


@pytest.mark.parametrize("what", ["no index", "empty index", "short index", "no log", "short log", "nothing"])
def test_with_replicas_lost_files_make_the_log_damaged_and_nothing_is_cut(what: str) -> None:
    folder = Folder(settings=REPLICATED)
    six_messages(folder)
    folder.data.write_checkpoint()
    log_bytes, index = folder.fault.content(LOG), folder.fault.content(INDEX)
    if what in ("no index", "nothing"):
        folder.fault.delete(INDEX)
    if what in ("no log", "nothing"):
        folder.fault.delete(LOG)
    if what == "empty index":
        folder.fault.overwrite(INDEX, b"")
    if what == "short index":
        folder.fault.overwrite(INDEX, index[:-1])
    if what == "short log":
        folder.fault.overwrite(LOG, log_bytes[:-1])
    left = {path: folder.fault.content(path) for path in folder.fault.paths() if path.startswith(FOLDER)}
    log = folder.kill()
    assert log.state is LogState.DAMAGED
    assert error_of(log) is not None
    never_serves_anything_else(log)
    assert left == {path: folder.fault.content(path) for path in left}
    assert folder.data.recovered.damaged
    the_other_partition_is_well(folder)
    log = folder.kill()
    assert state_of(log) is LogState.DAMAGED, "and it stays so at the next start"
    mend(log, 1000)
    assert state_of(log) is LogState.ACTIVE, "until a lossy election makes it lead"
    assert log.last >= 6, "no number that was given out is given again"


def test_numbers_that_were_promised_are_not_given_again_when_the_folder_was_emptied() -> None:
    folder = Folder(settings=ALONE)
    six_messages(folder)
    folder.data.write_checkpoint()
    folder.fault.delete(INDEX)
    folder.fault.delete(LOG)
    log = folder.kill()
    assert append(log, b"next") == (7, 7)
    assert "LOST the messages 1-6" in folder.data.recovered.damaged[0]
    assert read_all(log) == {7: b"next"}


@pytest.mark.parametrize("damage", ["deleted", "torn", "flipped", "empty"])
@pytest.mark.parametrize("both", [False, True])
def test_a_lost_or_torn_checkpoint_costs_reading_and_nothing_else(damage: str, both: bool) -> None:
    folder = Folder()
    six_messages(folder)
    folder.data.write_checkpoint()
    append(folder.log(), b"seven")
    folder.data.write_checkpoint()
    for name in ("checkpoint", "checkpoint.previous") if both else ("checkpoint",):
        path = f"{DATA}/{name}"
        content = folder.fault.content(path)
        if damage == "deleted":
            folder.fault.delete(path)
        elif damage == "torn":
            folder.fault.overwrite(path, content[:-9])
        elif damage == "flipped":
            folder.fault.overwrite(path, content[:20] + bytes([content[20] ^ 1]) + content[21:])
        else:
            folder.fault.overwrite(path, b"")
    log = folder.kill()
    assert (log.state, read_all(log)) == (LogState.ACTIVE, VALUES | {7: b"seven"})
    assert not folder.data.recovered.damaged
    assert folder.data.recovered.messages_checked == (7 if both else 1)


def test_an_old_checkpoint_from_a_clean_stop_is_not_taken_for_a_clean_stop() -> None:
    folder = Folder()
    six_messages(folder)
    folder.reopen()
    append(folder.log(), b"seven")
    folder.fault.overwrite(LOG, folder.fault.content(LOG)[:-1])
    log = folder.kill()
    assert not folder.data.recovered.clean
    assert read_all(log) == VALUES


def test_files_that_do_not_fit_the_clean_checkpoint_are_checked() -> None:
    folder = Folder()
    six_messages(folder)
    folder.data.close()
    folder.fault.overwrite(LOG, folder.fault.content(LOG)[:-1])
    folder.data = folder.open()
    log = folder.log()
    never_serves_anything_else(log)
    assert "LOST the messages 6-6" in folder.data.recovered.damaged[0]
    assert append(log, b"next") == (7, 7)


def test_what_is_kept_after_a_crash_is_written_again_before_it_counts_as_synced() -> None:
    folder = Folder()
    six_messages(folder)
    folder.data.write_checkpoint()
    log = folder.log()
    append(log, b"seven")
    # The kernel could not write the page back, told a process that is gone, and marked the page clean.
    folder.fault.file(LOG).pending.clear()
    folder.fault.file(INDEX).pending.clear()
    log = folder.kill()
    assert log.synced == 7
    assert bytes(folder.fault.file(LOG).durable) == folder.fault.content(LOG)
    assert bytes(folder.fault.file(INDEX).durable) == folder.fault.content(INDEX)


def test_a_damaged_log_keeps_its_recovery_point_in_the_checkpoint() -> None:
    folder = Folder(settings=REPLICATED)
    six_messages(folder)
    folder.data.write_checkpoint()
    folder.fault.overwrite(INDEX, b"")
    folder.kill()
    folder.data.write_checkpoint()
    log = folder.kill()
    assert (log.state, log.health.recovery_point) == (LogState.DAMAGED, 6)


def test_what_nobody_thought_of_in_one_log_keeps_no_other_from_being_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Folder(settings=REPLICATED)
    six_messages(folder)
    folder.fault.kill_process()

    def fails(log: PartitionLog, *rest: object, **how: bool) -> object:
        if log.partition == 0:
            raise IndexError("a bug")
        return check(log, *rest, **how)  # type: ignore[arg-type]

    check = recovery.open_files_of
    monkeypatch.setattr(recovery, "open_files_of", fails)
    folder.data = folder.open()
    folder.data.open_found()
    assert folder.data.claims().damaged == ((TOPIC, 0),)
    assert folder.fault.open_files == len({path for path in folder.fault.paths() if "/1/" in path}) + 1
    the_other_partition_is_well(folder)
    with pytest.raises(StorageError, match="bug of ours"):
        folder.log()


def test_topic_folder_is_where_the_documents_say() -> None:
    folder = Folder()
    six_messages(folder)
    assert folder.fault.exists(f"/data/topics/{TOPIC}/0/{1:020d}.log")
