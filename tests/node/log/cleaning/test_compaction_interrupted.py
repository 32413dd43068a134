"""Compaction that something comes between: a truncation, retention, a kill, a loss of power."""

import random
from collections.abc import Callable

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState
from tank_node.log.producers import Outcome, ProducerVerdict
from tank_node.log.settings import LogSettings
from tests.support.storage.compacted import SETTINGS, compacted, put
from tests.support.storage.fault_disk import PowerLoss
from tests.support.storage.logs import Folder, append, read_all


def test_a_truncation_while_it_runs_cancels_it() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    jobs: list[tuple[Callable[[], None], Callable[[], None]]] = []

    class Later:
        def run_long(
            self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]
        ) -> None:
            jobs.append((job, done))

    for n in range(10):
        put(log, [(b"k", b"%04d" % n)])
    log.flush()
    maintain(log, 1000, 10, Later())
    [(job, done)] = jobs
    maintain(log, 1000, 10, Later())
    assert len(jobs) == 1, "one at a time"
    log.truncate_to(3)
    job()
    done()
    assert read_all(log) == {n + 1: b"%04d" % n for n in range(3)}
    assert not [path for path in folder.fault.paths() if path.endswith((".swap", ".cleaned"))]


def test_what_an_interrupted_round_left_is_not_taken_for_the_end_of_a_segment() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    put(log, [(b"k", b"old")])
    put(log, [(b"k", b"new")])
    log.roll()
    for path in (log.segments[0].path(".log"), log.segments[0].path(".index")):
        folder.disk.close(folder.disk.open(path + ".cleaned", create=True))
        folder.fault.overwrite(path + ".cleaned", b"x" * 1000)
    log = compacted(folder)
    assert log.segments.compacted_through == 2
    assert len(folder.fault.content(log.segments[0].path(".log"))) == log.segments[0].size_bytes


def test_a_kill_after_a_truncation_brings_no_compacted_batch_back() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    for n in range(10):
        put(log, [(b"k", b"%04d" % n)])
    log.flush()

    class Thread:
        def run_long(
            self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]
        ) -> None:
            job()  # and the loop never hears of it

    maintain(log, 1000, 10, Thread())
    assert folder.fault.paths(".swap")
    log.truncate_to(1)
    log = folder.kill()
    assert (log.state, log.last, read_all(log)) == (LogState.ACTIVE, 1, {1: b"0000"})


def test_a_kill_after_retention_brings_no_compacted_segment_back() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    for n in range(60):
        put(log, [(b"k", b"%04d" % n)])
    log.flush()

    class Thread:
        def run_long(
            self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]
        ) -> None:
            job()

    maintain(log, 1000, 60, Thread())
    log.apply_settings(LogSettings(segment_bytes=120, retention_segments=2))
    maintain(log, 1000, 60)
    first = log.first_available
    assert first > 1
    assert folder.kill().first_available == first


def test_retention_at_the_last_moment_of_a_rewrite_brings_no_segment_back() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    for n in range(60):
        put(log, [(b"k", b"%04d" % n)])
    log.flush()

    class Meanwhile:
        def run_long(
            self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]
        ) -> None:
            def retain(path: str) -> bool:
                if path.endswith(".index.cleaned") and len(log.segments.list) > 2:
                    log.retain_from(log.segments[-2].base)
                return False

            folder.fault.fail_sync = retain
            job()
            done()

    maintain(log, 1000, 60, Meanwhile())
    first, kept = log.first_available, read_all(log)
    assert first > 1
    assert not [path for path in folder.fault.paths() if path.endswith((".swap", ".cleaned"))]
    assert log.segments.compacted_through > first, "a segment that goes is no error of the round"
    log = folder.kill()
    assert (log.first_available, read_all(log)) == (first, kept)


def test_a_kill_at_any_moment_of_retention_after_a_round_damages_nothing() -> None:
    for moment in range(1000):
        folder = Folder(settings=SETTINGS)
        log = folder.log()
        for n in range(30):
            put(log, [(b"k", b"%04d" % n)])
        log.flush()
        folder.data.write_checkpoint()

        class Thread:
            def run_long(
                self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]
            ) -> None:
                job()  # and the loop never hears of it

        maintain(log, 1000, 30, Thread())
        assert folder.fault.paths(".swap")
        kept = log.segments[-1].base
        folder.fault.stop_at = folder.fault.changes + moment
        try:
            log.retain_from(kept)
        except PowerLoss:
            is_through = False
        else:
            is_through = True
        log = folder.kill()
        assert (log.state, log.last, folder.data.recovered.damaged) == (LogState.ACTIVE, 30, [])
        assert {number for number in read_all(log) if number >= kept} == set(range(kept, 31))
        if is_through:
            assert moment > 20
            return
    raise AssertionError("retention has no end")


def test_a_truncation_at_the_last_moment_of_a_rewrite_leaves_no_file() -> None:
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    for n in range(10):
        put(log, [(b"k", b"%04d" % n)])
    log.flush()

    class Meanwhile:
        def run_long(
            self, job: Callable[[], None], done: Callable[[], None], cancel: Callable[[], None]
        ) -> None:
            def truncate(path: str) -> bool:
                if path.endswith(".index.cleaned"):
                    cancel()
                return False

            folder.fault.fail_sync = truncate
            job()
            done()

    maintain(log, 1000, 10, Meanwhile())
    assert not [path for path in folder.fault.paths() if path.endswith((".swap", ".cleaned"))]
    assert (log.segments.compacted_through, len(read_all(log))) == (0, 10)


def test_producers_are_remembered_when_their_records_were_rewritten_and_the_power_goes() -> None:
    for seed in range(10):
        folder = Folder(settings=SETTINGS)
        log = folder.log()
        for n in range(3):
            append(log, b"%02d" % n, b"x", keys=[b"k", b"k"], producer=(9, 0, 2 * n))
        log.roll()
        log = compacted(folder)
        assert log.segments.compacted_through == 6
        folder.fault.lose_power(random.Random(seed))
        log = folder.reopen_after_power_loss()
        assert log.last == 6
        assert log.tail.check_producer(9, 0, 6, 1).outcome is Outcome.APPEND
        assert log.tail.check_producer(9, 0, 4, 2) == ProducerVerdict(Outcome.REPEAT, 5, 6)


def life(folder: Folder) -> None:
    log = folder.log()
    for n in range(12):
        put(log, [(b"k%d" % (n % 2), b"%04d" % n), (None, b"free")])
    log.flush()
    folder.data.write_checkpoint()
    maintain(log, 1000, log.last)
    log.flush()


@pytest.mark.parametrize("seed", range(3))
def test_the_power_goes_at_every_change_of_a_compaction(seed: int) -> None:
    whole = Folder(settings=SETTINGS)
    life(whole)
    newest = read_all(whole.log())
    for change in range(1, whole.fault.changes):
        folder = Folder(settings=SETTINGS)
        begin = folder.fault.changes
        folder.fault.stop_at = begin + change
        try:
            life(folder)
        except PowerLoss:
            acknowledged = folder.log().synced
        else:
            continue
        if seed == 0:
            log = folder.kill()
        else:
            folder.fault.lose_power(random.Random(f"{seed}/{change}"))
            log = folder.reopen_after_power_loss()
        stored = read_all(log)
        assert log.state is LogState.ACTIVE
        for number, value in newest.items():
            assert stored.get(number) == value or number > acknowledged
        assert not log.scrub(1 << 20).bad
        assert not [path for path in folder.fault.paths() if path.endswith((".swap", ".cleaned"))]
