"""How long writes waited is counted from the record."""

from pathlib import Path

from e2e.support.figures import Figures, Step, figures, waits
from tests.chaos.record import Fate, Recorder, read

PLACE = ("t", 0)


def test_a_call_counts_once_and_only_when_it_was_acknowledged_and_idempotent(tmp_path: Path) -> None:
    clock = iter([1.0, 1.5, 2.0, 2.25, 3.0, 4.0, 4.5])
    recorder = Recorder(tmp_path / "lines.jsonl", now=lambda: next(clock))
    recorder.sent("a", PLACE, 0, True, ["a0", "a1"])
    recorder.told(Fate.STORED, ["a0", "a1"])
    recorder.sent("a", PLACE, 2, True, ["a2"])
    recorder.told(Fate.UNKNOWN, ["a2"])
    recorder.sent("a", PLACE, 3, True, ["a3"])
    recorder.sent("b", PLACE, 0, False, ["b0"])
    recorder.told(Fate.STORED, ["b0"])
    recorder.close()
    assert waits(read([tmp_path / "lines.jsonl"])) == [(1000, 1500, "a to t-0")]


def test_a_step_has_the_writes_that_were_under_way_in_it() -> None:
    before, across, within, behind = (0, 99, "a"), (50, 700, "b"), (200, 210, "c"), (901, 2000, "d")
    step = Step("rolled", 100, 900)
    found = figures([before, across, within, behind], step)
    longest = ("650 ms by b from -50 ms on", "10 ms by c from 100 ms on")
    assert found == Figures(writes=2, median_ms=650, p99_ms=650, longest_ms=650, longest=longest)
    assert figures([before, behind], step) is None


def test_one_write_of_a_hundred_and_one_is_beyond_the_ninety_ninth() -> None:
    found = figures([(0, 5, "a")] * 100 + [(0, 800, "b")], Step("killed", 0, 1))
    assert found is not None
    assert (found.writes, found.median_ms, found.p99_ms, found.longest_ms) == (101, 5, 5, 800)
    others = "5 ms by a from 0 ms on; 5 ms by a from 0 ms on"
    assert str(found) == (
        f"101 writes, median 5 ms, p99 5 ms, longest 800 ms (800 ms by b from 0 ms on; {others})"
    )
