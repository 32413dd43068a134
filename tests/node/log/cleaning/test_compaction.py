"""Compaction by key: what stays, at which number, readable by clients who count."""

import pytest

from tank_node.log.cleaning import compaction
from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState
from tank_node.log.settings import LogSettings
from tank_node.segment.record import BREAK, REWRITTEN
from tank_protos import bundle
from tests.support.storage.compacted import SETTINGS, compacted, put
from tests.support.storage.logs import (
    FOLDER,
    Folder,
    append,
    append_sparse,
    read_all,
    read_chunk,
    read_chunks,
)


def test_the_newest_of_each_key_and_everything_without_key_stays() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    put(log, [(b"a", b"a1"), (None, b"free"), (b"b", b"b1"), (None, b"")])
    put(log, [(b"a", b"a2"), (b"c", b""), (b"b", b"b2")])
    log.roll()
    put(log, [(b"a", b"active")])
    log = compacted(folder)
    assert read_all(log) == {2: b"free", 5: b"a2", 6: b"", 7: b"b2", 8: b"active"}
    assert log.last == 8
    assert append(log, b"next") == (9, 9)


def test_a_batch_of_too_many_messages_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "COMPACTED_MESSAGES", 2)
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    put(log, [(b"a", b"a1"), (b"a", b"a2"), (b"a", b"a3")])
    put(log, [(b"b", b"b1"), (b"b", b"b2")])
    log.roll()
    put(log, [(b"a", b"new")])
    assert read_all(compacted(folder)) == {1: b"a1", 2: b"a2", 3: b"a3", 5: b"b2", 6: b"new"}


def test_records_keep_their_first_last_epoch_and_times() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    for turn in range(4):
        keys: list[bytes | None] = [b"k", b"%d" % turn]
        append(log, b"x", b"y", keys=keys, now_ms=1000 + turn, epoch=turn, producer=(9, 0, 2 * turn))
    log.roll()
    before = list(log.segments[0].index.records())
    assert len(before) > 1
    for turn in range(4, 9):  # what producers' memory consists of stays as it is: these five
        append(log, b"x", keys=[b"k"], now_ms=1000 + turn, epoch=turn, producer=(9, 0, 4 + turn))
    log.roll()
    log = compacted(folder)
    after = list(log.segments[0].index.records())
    assert [(r.first, r.last, r.leader_epoch, r.append_ms, r.max_timestamp_ms) for r in before] == [
        (r.first, r.last, r.leader_epoch, r.append_ms, r.max_timestamp_ms) for r in after
    ]
    assert all(r.flags & REWRITTEN for r in after)
    assert [r.messages for r in after] == [1] * len(after)
    assert not log.scrub(1 << 20).bad


def test_a_chunk_ends_before_a_hole_unless_the_batch_behind_it_has_its_numbers() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=2000, compact=True, min_cleanable_ratio=0.0))
    log = folder.log()
    put(log, [(None, b"one")])
    put(log, [(b"k", b"old"), (b"k", b"older")])  # goes wholly
    put(log, [(None, b"four")])
    put(log, [(None, b"five"), (b"k", b"old")])  # keeps five: sparse
    put(log, [(None, b"seven")])  # dense, behind a bundle that ends at 5
    put(log, [(b"k", b"new"), (None, b"nine")])
    log.roll()
    log = compacted(folder)
    chunks = read_chunks(log)
    assert [(c.first, c.last, c.sparse_first, sorted(c.messages())) for c in chunks] == [
        (1, 1, False, [1]),
        (4, 6, False, [4, 5]),
        (7, 9, False, [7, 8, 9]),
    ]
    assert read_all(log) == {1: b"one", 4: b"four", 5: b"five", 7: b"seven", 8: b"new", 9: b"nine"}
    inside = read_chunk(log, 2)
    assert inside is not None
    assert inside.first == 4, "a number in a hole gives the next batch that exists"
    flags = [r.flags & BREAK for r in log.segments[0].index.records()]
    assert [bool(flag) for flag in flags] == [False, True, False, True, False]


def test_compressed_and_sparse_batches_are_compacted_too() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    put(log, [(b"k%d" % (n % 10), b"v%03d" % n * 20) for n in range(50)])
    append_sparse(log, [100, 110, 120], b"s0", b"s1", b"s2", keys=[b"k0", None, b"k1"])
    log.roll()
    log = compacted(folder)
    expected = {n + 1: b"v%03d" % n * 20 for n in range(42, 50)} | {100: b"s0", 110: b"s1", 120: b"s2"}
    assert read_all(log) == expected


def test_segments_where_nothing_would_change_are_left_alone() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    for n in range(20):
        put(log, [(b"key-%d" % n, b"value")])
    log.roll()
    log.flush()
    before = {path: folder.fault.file(path) for path in folder.fault.paths() if path.startswith(FOLDER)}
    log = compacted(folder)
    assert all(folder.fault.file(path) is file for path, file in before.items())
    changes = folder.fault.changes
    maintain(log, 1000, log.last)
    assert folder.fault.changes == changes, "nothing new, nothing done"


def test_it_waits_until_enough_is_new_and_below_the_high_water_mark() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=60, compact=True, min_cleanable_ratio=0.5))
    log = folder.log()
    for n in range(20):
        put(log, [(b"k", b"%04d" % n)])
    log.flush()
    maintain(log, 1000, 0)
    assert len(read_all(log)) == 20, "nothing above the mark is touched"
    maintain(log, 1000, 20)
    left = len(read_all(log))
    assert left < 5
    put(log, [(b"k", b"next")])
    put(log, [(b"k", b"next")])
    log.flush()
    maintain(log, 1000, log.last)
    assert len(read_all(log)) <= left + 2


def test_messages_stay_for_the_lag_and_let_older_ones_stay_so_long() -> None:
    lagging = LogSettings(
        segment_bytes=2000, compact=True, min_cleanable_ratio=0.0, min_compaction_lag_ms=500
    )
    folder = Folder(settings=lagging)
    log = folder.log()
    for now_ms, values in ((1000, (b"1", b"2")), (1400, (b"3", b"4"))):
        append(log, *values, keys=[b"k"] * 2, now_ms=now_ms)
        log.roll()
    append(log, b"active", keys=[b"k"], now_ms=1400)
    log.flush()
    maintain(log, 1499, log.last)
    assert sorted(read_all(log)) == [1, 2, 3, 4, 5], "nothing is old enough"
    maintain(log, 1500, log.last)
    assert sorted(read_all(log)) == [2, 3, 4, 5], "what is old enough knows of nothing newer"
    maintain(log, 1900, log.last)
    assert sorted(read_all(log)) == [4, 5]


def test_a_log_that_is_compacted_may_be_bounded_too() -> None:
    folder = Folder(
        settings=LogSettings(segment_bytes=2000, compact=True, min_cleanable_ratio=0.0, retention_ms=500)
    )
    log = folder.log()
    for now_ms, key in ((1000, b"a"), (1400, b"b"), (1400, b"b")):
        append(log, b"x", b"y", keys=[key] * 2, now_ms=now_ms)
        log.roll()
    log.flush()
    maintain(log, 1500, log.last)
    assert sorted(read_all(log)) == [2, 6]
    maintain(log, 1501, log.last)
    assert sorted(read_all(log)) == [6]


def test_empty_segments_survive_a_restart() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=30, compact=True, min_cleanable_ratio=0.0))
    log = folder.log()
    for n in range(10):
        put(log, [(b"k", b"%04d" % n)])
    log = compacted(folder)
    assert read_all(log).keys() <= {9, 10}
    expected = read_all(log)
    assert read_all(folder.kill()) == expected
    assert read_all(folder.reopen()) == expected
    assert folder.log().state is LogState.ACTIVE


def test_a_read_under_way_goes_on_with_the_old_file() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    put(log, [(b"k", b"old")])
    put(log, [(b"k", b"new")])
    log.roll()
    stretch = log.read(1, 1000, 2)
    assert stretch is not None
    compacted(folder)
    content = folder.disk.read_at(stretch.file.fd, stretch.length, stretch.position)
    stretch.file.release()
    assert [len(bundle.decode(one, 1)) for one in bundle.bundles(memoryview(content))] == [1, 1]
    assert stretch.file.fd == -1


def test_a_consumer_in_the_middle_of_a_segment_goes_on_in_the_new_one() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    for message in ((b"a", b"1"), (b"k", b"old"), (b"k", b"new"), (b"b", b"4")):
        put(log, [message])
    log.roll()
    first = read_chunk(log, 1, 1)
    assert first is not None
    assert first.last == 1
    compacted(folder)
    second = read_chunk(log, first.last + 1, 1)
    assert second is not None
    assert second.messages() == {3: b"new"}


def test_a_spoiled_batch_stops_the_round_and_nothing_is_dropped() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    for n in range(10):
        put(log, [(b"k", b"%04d" % n)])
    log.flush()
    path = log.segments[0].path(".log")
    content = bytearray(folder.fault.content(path))
    content[-1] ^= 1
    folder.fault.overwrite(path, bytes(content))
    files = {path: folder.fault.content(path) for path in folder.fault.paths() if path.startswith(FOLDER)}
    log = compacted(folder)
    assert (log.segments.compacted_through, log.state) == (0, LogState.DAMAGED)
    assert files == {p: folder.fault.content(p) for p in folder.fault.paths() if p.startswith(FOLDER)}


def test_a_batch_that_nobody_can_decode_stays_and_stops_nothing() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    put(log, [(b"k", b"old")])
    garbage = memoryview(bundle.as_batch(bytes([0, 3]) + b"no messages"))
    log.tail.stage(garbage, messages=3, first=None, span=2, max_timestamp_ms=0, leader_epoch=1, now_ms=1000)
    put(log, [(b"k", b"new")])
    log.roll()
    log = compacted(folder)
    assert log.segments.compacted_through == 5
    records = [record for segment in log.segments for record in segment.index.records()]
    assert [(record.first, record.messages) for record in records] == [(2, 3), (5, 1)]


def test_a_round_that_found_no_room_leaves_nothing_and_waits_before_the_next() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=2000, compact=True, min_cleanable_ratio=0.0))
    log = folder.log()
    for n in range(10):
        put(log, [(b"k", b"%04d" % n), (None, b"x" * 150)])
    log.roll()
    log.flush()
    before = sorted([*folder.fault.paths(), "/data/checkpoint.previous"])
    folder.fault.capacity_bytes = folder.fault.used_bytes + 1000
    maintain(log, 1000, log.last)
    assert (log.state, log.segments.compacted_through, folder.fault.paths()) == (LogState.ACTIVE, 0, before)
    folder.fault.capacity_bytes = None
    maintain(log, 1000 + compaction.RETRY_MS - 1, log.last)
    assert log.segments.compacted_through == 0
    maintain(log, 1000 + compaction.RETRY_MS, log.last)
    assert log.segments.compacted_through == 20
    assert sum(value.startswith(b"0") for value in read_all(log).values()) == 1
