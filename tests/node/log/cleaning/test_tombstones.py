"""Tombstones in logs of record batches: how long they stay, and when they must not go."""

import pytest

from tank_node.log.cleaning import compaction
from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.segment.record import FORMAT_KAFKA
from tests.support.storage.compacted import SETTINGS, compacted, put, put_records, records_of
from tests.support.storage.logs import Folder, read_all

KEPT_MS = 500
KAFKAS = LogSettings(
    segment_bytes=10_000,
    compact=True,
    min_cleanable_ratio=0.0,
    delete_retention_ms=KEPT_MS,
    format=FORMAT_KAFKA,
)


def sealed_log(folder: Folder) -> PartitionLog:
    """Key a was written and deleted, and key b lives; the active segment has key c."""
    log = folder.log()
    put_records(log, (b"a", b"old"), (b"b", b"kept"))
    put_records(log, (b"a", None), (b"x", b""))
    log.roll()
    put_records(log, (b"c", b"active"))
    log.flush()
    return log


def test_a_tombstone_stays_for_a_while_after_the_first_compaction_and_goes_by_itself() -> None:
    log = sealed_log(Folder(settings=KAFKAS))
    maintain(log, 5000, log.last, forgets=True)
    assert records_of(log) == {2: (b"b", b"kept"), 3: (b"a", None), 4: (b"x", b""), 5: (b"c", b"active")}
    maintain(log, 5000 + KEPT_MS - 1, log.last, forgets=True)
    assert records_of(log)[3] == (b"a", None)
    maintain(log, 5000 + KEPT_MS, log.last, forgets=True)
    assert records_of(log) == {2: (b"b", b"kept"), 4: (b"x", b""), 5: (b"c", b"active")}, (
        "an empty value stays"
    )


def test_the_time_is_in_the_log_and_survives_a_restart() -> None:
    folder = Folder(settings=KAFKAS)
    log = sealed_log(folder)
    maintain(log, 5000, log.last, forgets=True)
    log = folder.reopen()
    log.roll()
    put_records(log, (b"d", b"1"))
    log.flush()
    maintain(log, 5000 + KEPT_MS, log.last, forgets=True)
    assert 3 not in records_of(log)


def test_no_tombstone_goes_while_a_replica_may_lack_it() -> None:
    log = sealed_log(Folder(settings=KAFKAS))
    for now_ms in (5000, 9000, 90_000):
        maintain(log, now_ms, log.last)
        assert records_of(log)[3] == (b"a", None)
    maintain(log, 90_000, log.last, forgets=True)
    assert 3 not in records_of(log)


def test_nothing_is_done_again_where_no_tombstone_is_due() -> None:
    folder = Folder(settings=KAFKAS)
    log = sealed_log(folder)
    for now_ms in (5000, 5000 + KEPT_MS):
        maintain(log, now_ms, log.last, forgets=True)
    changes = folder.fault.changes
    maintain(log, 10**6, log.last, forgets=True)
    assert folder.fault.changes == changes


def test_a_tombstone_stays_while_an_older_message_of_its_key_stays() -> None:
    """Batches that a table of producers is made of are never changed, so the older message is there still."""
    log = Folder(settings=KAFKAS).log()
    put_records(log, (b"a", b"old"), producer=(9, 0, 0))
    put_records(log, (b"a", None), (b"b", None))
    log.roll()
    put_records(log, (b"c", b"active"))
    log.flush()
    for now_ms in (5000, 9000):
        maintain(log, now_ms, log.last, forgets=True)
    assert records_of(log) == {1: (b"a", b"old"), 2: (b"a", None), 4: (b"c", b"active")}


def test_a_tombstone_stays_behind_a_batch_whose_keys_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "COMPACTED_MESSAGES", 2)
    log = Folder(settings=KAFKAS).log()
    put_records(log, (b"z", None))
    put_records(log, (b"a", b"1"), (b"a", b"2"), (b"a", b"3"))
    put_records(log, (b"a", None))
    put_records(log, (b"b", b"1"))
    log.roll()
    put_records(log, (b"c", b"active"))
    log.flush()
    for now_ms in (5000, 9000):
        maintain(log, now_ms, log.last, forgets=True)
    assert sorted(records_of(log)) == [2, 3, 4, 5, 6, 7], "the one before that batch went"


def test_a_key_that_was_written_again_has_no_tombstone() -> None:
    log = Folder(settings=KAFKAS).log()
    put_records(log, (b"a", None), (b"b", b"1"))
    put_records(log, (b"a", b"again"))
    log.roll()
    put_records(log, (b"c", b"active"))
    log.flush()
    maintain(log, 5000, log.last, forgets=True)
    assert records_of(log) == {2: (b"b", b"1"), 3: (b"a", b"again"), 4: (b"c", b"active")}


def test_the_last_batch_of_a_round_keeps_its_tombstone() -> None:
    """Replicas that copy the log could not match an end without a batch."""
    log = Folder(settings=KAFKAS).log()
    put_records(log, (b"a", b"old"))
    put_records(log, (b"a", None))
    log.roll()
    put_records(log, (b"c", b"active"))
    log.flush()
    for now_ms in (5000, 9000):
        maintain(log, now_ms, log.last, forgets=True)
    assert records_of(log) == {2: (b"a", None), 3: (b"c", b"active")}


def test_in_a_log_of_bundles_tombstones_stay_for_ever() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    put(log, [(b"a", b"old"), (b"a", b"")])
    put(log, [(b"b", b"1")])
    log.roll()
    put(log, [(b"c", b"active")])
    compacted(folder)
    maintain(log, 10**12, log.last, forgets=True)
    assert read_all(log) == {2: b"", 3: b"1", 4: b"active"}
