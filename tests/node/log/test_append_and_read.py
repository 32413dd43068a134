"""What a log gives back: appended batches, by number and by time, across segments and holes."""

import pytest

from tank_node.log.log import LogState
from tank_node.log.settings import LogSettings
from tank_node.segment.record import RECORD_BYTES, read_record
from tests.support.storage.logs import (
    FOLDER,
    Folder,
    append,
    append_sparse,
    batch,
    read_all,
    read_chunk,
    read_chunks,
)

SMALL = LogSettings(segment_bytes=200)


def test_a_new_log_is_empty() -> None:
    log = Folder().log()
    assert (log.first_available, log.last, log.written, log.synced) == (0, 0, 0, 0)
    assert log.read(1, 1000, 2**62) is None
    assert log.find_time(0) == (1, 0)


def test_messages_are_numbered_from_one_and_read_back() -> None:
    log = Folder().log()
    assert append(log, b"a", b"b") == (1, 2)
    assert append(log, b"c") == (3, 3)
    assert (log.first_available, log.last, log.written) == (1, 3, 3)
    assert read_all(log) == {1: b"a", 2: b"b", 3: b"c"}


def test_what_is_staged_is_not_read_before_it_is_written() -> None:
    log = Folder().log()
    append(log, b"a", write=False)
    assert (log.last, log.written) == (1, 0)
    assert read_chunk(log, 1) is None
    log.tail.write()
    assert read_all(log) == {1: b"a"}


def test_a_read_gives_whole_batches_within_the_limit_and_at_least_one() -> None:
    log = Folder().log()
    for _ in range(10):
        append(log, b"x" * 40, b"y" * 40)
    one = len(batch(b"x" * 40, b"y" * 40))
    for wanted, batches in ((1, 1), (one, 1), (2 * one - 1, 1), (2 * one, 2), (9 * one, 9), (99 * one, 10)):
        chunk = read_chunk(log, 1, wanted)
        assert chunk is not None
        assert (len(chunk.content), chunk.last) == (batches * one, 2 * batches)


def test_a_number_inside_a_batch_gives_the_whole_batch() -> None:
    log = Folder().log()
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    chunk = read_chunk(log, 3)
    assert chunk is not None
    assert (chunk.first, chunk.last) == (1, 4)


def test_no_batch_beginning_above_the_bound_is_read() -> None:
    log = Folder().log()
    for value in (b"a", b"b", b"c", b"d"):
        append(log, value)
    for through in range(5):
        assert read_all(log, through=through) == {n: bytes([96 + n]) for n in range(1, through + 1)}


def test_segments_roll_by_size_and_chunks_end_with_them() -> None:
    folder = Folder(settings=SMALL)
    log = folder.log()
    for n in range(50):
        append(log, b"%d" % n * 10)
    assert len(log.segments) > 5
    assert all(segment.size_bytes <= 200 for segment in log.segments)
    bases = [segment.base for segment in log.segments]
    assert folder.fault.paths(".log") == [f"{FOLDER}/{base:020d}.log" for base in bases]
    assert read_all(log) == {n + 1: b"%d" % n * 10 for n in range(50)}
    assert all(chunk.first in bases for chunk in read_chunks(log))


def test_a_tick_may_roll_several_segments() -> None:
    log = Folder(settings=SMALL).log()
    for n in range(50):
        append(log, b"%d" % n * 10, write=False)
    log.tail.write()
    assert len(log.segments) > 5
    assert read_all(log) == {n + 1: b"%d" % n * 10 for n in range(50)}


def test_a_batch_longer_than_a_segment_gets_one_of_its_own() -> None:
    log = Folder(settings=SMALL).log()
    append(log, b"a")
    append(log, b"b" * 1000)
    append(log, b"c")
    assert [segment.base for segment in log.segments] == [1, 2, 3]
    assert read_all(log) == {1: b"a", 2: b"b" * 1000, 3: b"c"}


def test_segments_roll_by_age() -> None:
    log = Folder(settings=LogSettings(roll_ms=1000)).log()
    for now_ms in (10_000, 10_999, 11_000, 11_500, 12_000):
        append(log, b"x", now_ms=now_ms)
    assert [segment.base for segment in log.segments] == [1, 3, 5]


def test_jitter_makes_segments_roll_earlier() -> None:
    log = Folder(settings=LogSettings(roll_ms=1000)).log()
    log.tail.jitter_ms = 400
    for now_ms in (10_000, 10_599, 10_600):
        append(log, b"x", now_ms=now_ms)
    assert [segment.base for segment in log.segments] == [1, 3]


def test_rolling_by_hand_makes_the_next_segment_at_once() -> None:
    log = Folder().log()
    append(log, b"a")
    log.roll()
    log.roll()
    assert [segment.base for segment in log.segments] == [1, 2]
    append(log, b"b")
    assert [segment.count for segment in log.segments] == [1, 1]
    assert read_all(log) == {1: b"a", 2: b"b"}


def test_a_large_append_is_written_in_pieces_that_end_at_64_kib() -> None:
    folder = Folder()
    log = folder.log()
    sizes: list[tuple[int, int]] = []
    write_at = folder.fault.write_at

    def watched(fd: int, buffers: list[memoryview], position: int) -> int:
        written = write_at(fd, buffers, position)
        sizes.append((position, written))
        return written

    folder.fault.write_at = watched  # type: ignore[method-assign, assignment]
    for n in range(5):
        append(log, bytes([n]) * 50_000, write=False)
    log.tail.write()
    pieces = [size for size in sizes if size[1] != 5 * RECORD_BYTES]
    assert all(end % 65536 == 0 for end in (p + n for p, n in pieces[:-1]))
    assert all(n <= 65536 for _, n in pieces)
    assert read_all(log) == {n + 1: bytes([n]) * 50_000 for n in range(5)}


def test_records_hold_what_the_design_says() -> None:
    folder = Folder()
    log = folder.log()
    append(log, b"a", b"b", now_ms=5000, timestamp_ms=4000, epoch=3, producer=(9, 2, 0))
    append(log, b"c", now_ms=4000, timestamp_ms=3000, epoch=4, producer=(9, 2, 2))
    index = folder.fault.content(f"{FOLDER}/{1:020d}.index")
    assert len(index) == 2 * RECORD_BYTES
    one, two = read_record(index, 0), read_record(index, RECORD_BYTES)
    assert (one.first, one.span, one.position, one.messages, one.leader_epoch) == (1, 1, 0, 2, 3)
    assert (two.first, two.span, two.position, two.messages, two.leader_epoch) == (3, 0, one.length, 1, 4)
    assert (one.append_ms, two.append_ms) == (5000, 5000), "append times never fall"
    assert (one.max_timestamp_ms, two.max_timestamp_ms) == (4000, 4000), "the greatest so far"
    assert (two.producer_id, two.producer_epoch, two.producer_sequence) == (9, 2, 2)
    assert log.epochs == [(3, 1), (4, 3)]


def test_sparse_batches_keep_their_numbers_and_may_be_crossed() -> None:
    log = Folder().log()
    append(log, b"a")
    assert append_sparse(log, [10, 12, 20], b"b", b"c", b"d") == (10, 20)
    append(log, b"e")
    [chunk] = read_chunks(log)
    assert not chunk.sparse_first
    assert chunk.messages() == {1: b"a", 10: b"b", 12: b"c", 20: b"d", 21: b"e"}
    inside = read_chunk(log, 5)
    assert inside is not None
    assert (inside.first, inside.sparse_first) == (10, True)


def test_a_dense_batch_cannot_leave_a_gap_and_no_batch_goes_back() -> None:
    log = Folder().log()
    append(log, b"a")
    for first in (0, 1, 5):
        with pytest.raises(ValueError, match="cannot follow"):
            log.tail.stage(
                batch(b"b"), messages=1, first=first, span=0, max_timestamp_ms=0, leader_epoch=1, now_ms=1
            )
    assert log.last == 1


def test_messages_are_found_by_time() -> None:
    log = Folder(settings=SMALL).log()
    for n in range(40):
        append(log, b"%d" % n * 10, timestamp_ms=1000 + 10 * n)
    assert log.find_time(0) == (1, 1000)
    assert log.find_time(1000) == (1, 1000)
    assert log.find_time(1001) == (2, 1010)
    assert log.find_time(1390) == (40, 1390)
    assert log.find_time(1391) == (41, 0)


def test_an_index_of_many_records_is_searched_right() -> None:
    log = Folder().log()
    numbers = [
        append(log, *[b"x"] * (1 + n % 3), timestamp_ms=5 * n + 1, write=n % 100 == 0) for n in range(3000)
    ]
    log.tail.write()
    for segment in log.segments:
        segment.index.drop_memory()
    for n in (*range(0, 3000, 37), 2999):
        first, last = numbers[n]
        for number in range(first, last + 1):
            log.cursors.clear()
            chunk = read_chunk(log, number, 1)
            assert chunk is not None
            assert (chunk.first, chunk.last) == (first, last)
        assert log.find_time(5 * n + 1) == (first, 5 * n + 1)
        through = read_chunk(log, 1, 1 << 30, through=first)
        assert through is not None
        assert through.last == last


def test_truncation_drops_whole_batches_and_the_numbers_are_given_again() -> None:
    folder = Folder(settings=SMALL)
    log = folder.log()
    for n in range(30):
        append(log, b"%02d" % n * 10, b"z", epoch=1 + n // 10)
    log.flush()
    log.truncate_to(31)  # inside the batch of 31 and 32
    assert (log.last, log.written, log.synced) == (30, 30, 30)
    assert log.epochs == [(1, 1), (2, 21)]
    assert max(read_all(log)) == 30
    assert append(log, b"new", epoch=5) == (31, 31)
    log.flush()
    assert read_all(folder.kill())[31] == b"new"
    assert folder.log().epochs == [(1, 1), (2, 21), (5, 31)]


def test_truncating_everything_leaves_an_empty_log() -> None:
    folder = Folder(settings=SMALL)
    log = folder.log()
    for n in range(30):
        append(log, b"%02d" % n * 10)
    log.truncate_to(0)
    assert (log.last, read_all(log), log.size_bytes) == (0, {}, 0)
    assert append(log, b"again") == (1, 1)
    assert read_all(log) == {1: b"again"}


def test_a_truncated_log_is_not_damaged_at_the_next_start() -> None:
    folder = Folder()
    log = folder.log()
    for n in range(10):
        append(log, b"%d" % n)
    log.flush()
    folder.data.write_checkpoint()
    log.truncate_to(4)
    log = folder.kill()
    assert (log.state, log.last, folder.data.recovered.damaged) == (LogState.ACTIVE, 4, [])


def test_a_stretch_stays_readable_while_its_segment_is_removed() -> None:
    log = Folder(settings=SMALL).log()
    for n in range(30):
        append(log, b"%02d" % n * 10)
    stretch = log.read(25, 1 << 20, 2**62)
    assert stretch is not None
    log.truncate_to(1)
    assert len(log.disk.read_at(stretch.file.fd, stretch.length, stretch.position)) == stretch.length
    stretch.file.release()
    assert stretch.file.fd == -1, "and then it is closed"


def test_the_size_is_that_of_the_files() -> None:
    folder = Folder(settings=SMALL)
    log = folder.log()
    for n in range(30):
        append(log, b"%02d" % n * 10)
    log.truncate_to(17)
    stored = sum(len(folder.fault.content(path)) for path in folder.fault.paths(".log"))
    assert log.size_bytes == stored


def test_a_segment_holds_a_bounded_number_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tank_node.log.tail.MAX_SEGMENT_RECORDS", 3)
    monkeypatch.setattr("tank_node.log.staged.MAX_SEGMENT_RECORDS", 3)
    folder = Folder()
    log = folder.log()
    for n in range(4):  # in one tick
        append(log, b"x", write=n == 3)
    assert [segment.count for segment in log.segments] == [3, 1]
    for _ in range(6):  # and over several
        append(log, b"x")
    assert [segment.count for segment in log.segments] == [3, 3, 3, 1]
    for _ in range(2):
        append(log, b"x", write=False)
    log.tail.write()
    append(log, b"x")
    assert [segment.count for segment in log.segments] == [3, 3, 3, 3, 1]
