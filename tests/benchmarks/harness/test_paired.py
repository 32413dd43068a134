"""Runs in turn with another system, and the rows of their figures."""

from benchmarks.harness.paired import Pair, Turns, least
from benchmarks.harness.table import Reached


def test_both_run_and_each_is_first_in_turn() -> None:
    order: list[str] = []

    def run(system: str) -> str:
        order.append(system)
        return system.upper()

    turns = Turns("ours", "other")
    assert [turns.each(run), turns.each(run)] == [("OURS", "OTHER")] * 2
    assert order == ["ours", "other", "other", "ours"]


def test_without_another_system_ours_runs_alone() -> None:
    assert Turns("ours").each(str.upper) == ("OURS", None)


def test_a_figure_at_its_bar_reaches_it() -> None:
    pairs: list[Pair] = [({"s": 2.0}, {"s": 4.0}), ({"s": 3.0}, {"s": 4.0})]
    row = least("a pause", "pure", pairs, "s", 2.0, "s", 1)
    assert (row.figure, row.bar, row.reached) == ("2.5 (2.0–3.0) s", "≤ 2 s", Reached.SOME)
    assert (row.beside, row.ratio) == ("4.0 (4.0–4.0) s", "0.62 (0.50–0.75) ×")


def test_a_bar_of_none_at_all_is_a_bar() -> None:
    row = least("lost", "pure", [({"lost": 0}, {"lost": 0})], "lost", 0, "", 0)
    assert (row.figure, row.bar, row.reached, row.ratio) == ("0", "≤ 0", Reached.YES, "")
    assert least("lost", "pure", [({"lost": 1}, None)], "lost", 0, "", 0).reached is Reached.NO


def test_without_a_bar_none_is_reached_or_missed() -> None:
    assert least("p50", "pure", [({"ms": 1.0}, None)], "ms", None, "ms", 2).reached is None
