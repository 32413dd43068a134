"""Batches by the time of their append, and the newest messages."""

from collections.abc import Callable

import pytest

from tank_node.log.append_search import first_appended_at, first_of_newest
from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import PartitionLog
from tank_node.log.settings import LogSettings
from tests.support.storage.compacted import SETTINGS, put
from tests.support.storage.kafka_logs import KAFKA, append_pairs
from tests.support.storage.logs import Folder, append, append_sparse

SMALL = LogSettings(segment_bytes=40)
"""A segment holds a few of the smallest batches."""
MANY = 2**40


def test_the_first_batch_at_or_after_a_time_is_found_whatever_its_messages_say() -> None:
    log = Folder().log()
    for now_ms, own_ms in ((1000, 900_000), (2000, 5), (3000, 7)):
        append(log, b"x", b"y", now_ms=now_ms, timestamp_ms=own_ms)
    found = {time: first_appended_at(log, time) for time in (0, 1000, 1001, 2000, 2001, 3000, 3001)}
    assert found == {0: 1, 1000: 1, 1001: 3, 2000: 3, 2001: 5, 3000: 5, 3001: 7}


@pytest.mark.parametrize("again", [False, True], ids=["as written", "opened again"])
def test_a_time_is_found_in_any_of_many_segments(again: bool) -> None:
    folder = Folder(settings=SMALL)
    log = folder.log()
    for place in range(200):
        append(log, b"x", now_ms=1000 + 10 * (place // 3))  # three batches with each time
    assert len(log.segments) > 20
    if again:
        log = folder.reopen()
    for step in range(66):
        assert first_appended_at(log, 1000 + 10 * step) == 3 * step + 1
        assert first_appended_at(log, 1001 + 10 * step) == 3 * step + 4


def test_a_time_in_one_long_segment_is_found_on_the_disk_too() -> None:
    log = Folder().log()
    for place in range(3000):  # more than the index keeps in memory
        append(log, b"x", now_ms=place, write=place % 100 == 99)
    for time in (0, 1, 63, 64, 1023, 1024, 2999):
        assert first_appended_at(log, time) == time + 1
    assert first_appended_at(log, 3000) == 3001


def test_the_clock_may_go_back_and_append_times_do_not() -> None:
    log = Folder().log()
    for now_ms in (1000, 500, 2000):
        append(log, b"x", now_ms=now_ms)
    assert [first_appended_at(log, time) for time in (500, 1000, 1001)] == [1, 1, 3]


def test_a_time_before_the_log_start_finds_the_log_start() -> None:
    log = Folder().log()
    append(log, b"a", b"b", b"c", now_ms=1000)
    append(log, b"d", now_ms=2000)
    log.retain_from(2)
    assert [first_appended_at(log, time) for time in (0, 1000, 1500)] == [2, 2, 4]


def test_an_empty_log_has_no_times() -> None:
    log = Folder().log()
    assert first_appended_at(log, 0) == 1
    assert first_of_newest(log, 5, MANY, 0) == 1


@pytest.mark.parametrize("settings", [LogSettings(), SMALL], ids=["one segment", "several"])
def test_the_newest_messages_are_counted_to_the_message(settings: LogSettings) -> None:
    log = Folder(settings=settings).log()
    for place in range(30):
        append(log, *[b"x"] * (1 + place % 3))
    for through in (60, 57, 3):
        for count in (1, 2, 3, 4, 10, 59, 60, 1000):
            assert first_of_newest(log, count, MANY, through) == max(through - count + 1, 1)
    assert first_of_newest(log, 0, MANY, 60) == 61


def test_of_record_batches_the_newest_messages_are_counted_alike() -> None:
    log = Folder(settings=KAFKA).log()
    for _ in range(3):
        append_pairs(log, (b"k", b"v"), (b"k", b"w"))
    assert [first_of_newest(log, count, MANY, 6) for count in (1, 2, 3, 6, 7)] == [6, 5, 4, 1, 1]


def test_the_newest_messages_end_where_the_bytes_end_but_one_batch_is_there() -> None:
    log = Folder().log()
    for _ in range(10):
        append(log, b"x" * 100, b"y" * 100)
    (length,) = {record.length for record in log.segments[0].index.records()}
    assert first_of_newest(log, 100, 3 * length, 20) == 15
    assert first_of_newest(log, 100, 3 * length - 1, 20) == 17
    assert first_of_newest(log, 100, 1, 20) == 19
    assert first_of_newest(log, 1, 1, 20) == 20


def test_nothing_below_the_log_start_is_among_the_newest() -> None:
    log = Folder().log()
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    log.retain_from(3)
    assert [first_of_newest(log, count, MANY, 4) for count in (1, 2, 3)] == [4, 3, 3]


def test_in_a_batch_with_holes_the_messages_are_counted_and_not_the_numbers() -> None:
    log = Folder().log()
    append(log, b"a")
    append_sparse(log, [5, 9, 20], b"b", b"c", b"d")
    append(log, b"e")
    expected = {1: 21, 2: 20, 3: 9, 4: 5, 5: 1, 6: 1}
    assert {count: first_of_newest(log, count, MANY, 21) for count in expected} == expected


def _bundles(log: PartitionLog) -> None:
    put(log, [(None, b"one"), (b"k", b"old"), (None, b"three"), (b"k", b"older")])
    put(log, [(b"k", b"old"), (None, b"six")])
    put(log, [(b"k", b"new")])


@pytest.mark.parametrize("fill", [_bundles])
def test_what_compaction_took_does_not_count(fill: Callable[[PartitionLog], None]) -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    fill(log)
    log.roll()
    log.flush()
    maintain(log, 1000, log.last)
    expected = {1: 7, 2: 6, 3: 3, 4: 1, 5: 1}
    assert {count: first_of_newest(log, count, MANY, 7) for count in expected} == expected
