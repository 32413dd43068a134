"""Records by time: to the record, whatever the index says of its batch."""

import pytest

from tank_node.log import time_search
from tank_node.log.log import PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.log.time_search import FoundRecord, TimeSearch
from tank_protos import bundle
from tests.support.storage.logs import Folder

NOW_MS = 50_000


def put(log: PartitionLog, *times: int, known_ms: int = -1) -> None:
    """Appends a batch with a message for each time. known_ms: the time that the index gets to know; -1: the
    first message's, as of a plain bundle."""
    batch = bundle.as_batch(bundle.encode([b"v"] * len(times), timestamps=list(times)))
    log.tail.stage(
        memoryview(batch),
        messages=len(times),
        first=None,
        span=len(times) - 1,
        max_timestamp_ms=times[0] if known_ms < 0 else known_ms,
        leader_epoch=1,
        now_ms=NOW_MS,
    )
    log.tail.write()


def search(log: PartitionLog, timestamp_ms: int, through: int = 2**62) -> tuple[int, int] | None:
    return TimeSearch(log, through).first_at(timestamp_ms)


def greatest(log: PartitionLog, through: int) -> FoundRecord | None:
    return TimeSearch(log, through).greatest()


def test_the_first_record_at_or_after_a_time_is_found_with_its_own_time() -> None:
    log = Folder().log()
    put(log, 100, 110, 120)
    put(log, 200, 210, 220)
    expected = {0: (1, 100), 100: (1, 100), 101: (2, 110), 200: (4, 200), 211: (6, 220), 221: None}
    assert {time: search(log, time) for time in expected} == expected


def test_a_record_behind_the_time_that_the_index_knows_of_its_batch_is_found() -> None:
    log = Folder().log()
    put(log, 100, 110, 190)
    put(log, 200)
    assert search(log, 150) == (3, 190)
    assert search(log, 195) == (4, 200)


def test_bundles_of_several_producers_may_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Folder(settings=LogSettings(segment_bytes=40)).log()
    for _ in range(4):
        put(log, 100, 190)
    put(log, 200)
    assert search(log, 150) == (2, 190)
    monkeypatch.setattr(time_search, "WALKED_BACK_BATCHES", 2)
    assert search(log, 150) == (6, 190), "as far back as the bound"


def test_a_batch_that_the_index_puts_too_late_is_passed_over() -> None:
    log = Folder().log()
    put(log, 100, known_ms=NOW_MS)  # a compressed bundle: the index has the time of its append
    put(log, 300, known_ms=NOW_MS)
    assert search(log, 200) == (2, 300)


def test_nothing_above_the_readable_end_is_found() -> None:
    log = Folder().log()
    put(log, 100, 110)
    put(log, 200, 300)
    assert search(log, 105, through=1) is None
    assert search(log, 200, through=2) is None
    assert search(log, 250, through=3) is None
    assert search(log, 105, through=2) == (2, 110)
    assert greatest(log, 2) == (2, 110)
    assert greatest(log, 4) == (4, 300)


def test_nothing_below_the_log_start_is_found() -> None:
    folder = Folder(settings=LogSettings())
    log = folder.log()
    put(log, 500, 510, 520)
    put(log, 100, 400)
    log.retain_from(3)
    assert search(log, 0) == (3, 520)
    assert greatest(log, 5) == (3, 520)
    log.retain_from(4)
    assert search(log, 0) == (4, 100)
    assert search(log, 450) is None
    assert greatest(log, 5) == (5, 400)


def test_an_empty_log_has_no_time() -> None:
    log = Folder().log()
    assert search(log, 0) is None
    assert greatest(log, 0) is None


def test_of_several_records_with_the_greatest_time_the_first_counts() -> None:
    log = Folder().log()
    put(log, 100, 300, 300)
    put(log, 300)
    put(log, 200)
    assert greatest(log, 5) == (2, 300)


def test_a_search_that_takes_too_long_ends_where_nothing_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_search, "WALKED_BATCHES", 3)
    log = Folder().log()
    for time in range(10):
        put(log, time, known_ms=NOW_MS)
    put(log, 1000)
    assert search(log, 900) == (4, NOW_MS)


def test_a_batch_of_too_many_messages_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_search, "WALKED_MESSAGES", 3)
    log = Folder().log()
    put(log, 100)
    put(log, 200, 201, 202, 203)
    assert search(log, 203) == (2, 203)
    assert search(log, 50) == (1, 100)


def test_segments_are_searched_as_one_log() -> None:
    log = Folder(settings=LogSettings(segment_bytes=40)).log()
    for time in range(20):
        put(log, 100 * time, 100 * time + 50)
    assert len(log.segments) > 3
    assert [search(log, 100 * time + 1) for time in range(20)] == [
        (2 * time + 2, 100 * time + 50) for time in range(20)
    ]
