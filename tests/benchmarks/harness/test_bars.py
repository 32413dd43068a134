"""How the figures of the rounds become a row: what is compared with what, and when a bar is reached."""

from dataclasses import replace

import pytest

from benchmarks.harness.cases import Against, Bar, Case, Measure, cases
from benchmarks.harness.load_generator import Load
from benchmarks.harness.servers import Kernel, Server, ceiling, ours
from benchmarks.harness.side_by_side import Results, Run, figures, judge, notes, rows, run_in_turn
from benchmarks.harness.table import (
    Reached,
    Row,
    commit,
    dump,
    load,
    machine,
    show,
    show_in_short,
    spread,
    summary,
)

OURS = ours(Kernel.PURE)
CASE = Case("produce much", "produce")
QUIET = Load(
    server_us=1.0, requests_s=1.0, messages_s=1.0, mb_s=1.0, server_cpu=1.0, client_cpu=0.5,
    other_cpu=0.0, stolen_cpu=0.0, p50_us=1.0, p99_us=1.0, checked=0,
)  # fmt: skip


def cpu_of(c: list[float], ours: list[float]) -> Results:
    """Rounds with these microseconds a request."""
    results = Results()
    for server, values in ((ceiling(), c), (OURS, ours)):
        results.loads[CASE.name, server.name] = {
            number: replace(QUIET, server_us=value) for number, value in enumerate(values)
        }
    return results


def test_ratios_are_taken_round_by_round() -> None:
    # The machine was three times slower in the second round: ratio of medians 1.5 / 2, of rounds 2.
    results = cpu_of(c=[1.0, 3.0, 1.1], ours=[2.0, 6.0, 2.2])
    row = judge(CASE, OURS, Bar(Measure.CPU, Against.TIMES, 2.0), results)
    assert row == Row(
        "produce much: CPU a request", "2.20 (2.00–6.00) µs", "≤ 2 × C", Reached.YES, "pure",
        beside="1.10 (1.00–3.00) µs", ratio="2.00 (2.00–2.00) ×",
    )  # fmt: skip


def test_a_round_in_which_one_of_them_failed_is_left_out() -> None:
    results = cpu_of(c=[1.0, 1.0], ours=[1.5, 9.0])
    del results.loads[CASE.name, "C"][1]
    assert judge(CASE, OURS, Bar(Measure.CPU, Against.TIMES, 2.0), results).figure == "1.50 µs"


def test_without_any_round_a_bar_is_not_reached() -> None:
    row = judge(CASE, OURS, Bar(Measure.CPU, Against.TIMES, 2.0), Results())
    assert (row.figure, row.reached) == ("failed", Reached.NO)


@pytest.mark.parametrize(
    ("bar", "reached"),
    [
        (Bar(Measure.CPU, Against.TIMES, 2.0), Reached.YES),
        (Bar(Measure.CPU, Against.TIMES, 1.9), Reached.NO),
        (Bar(Measure.CPU, Against.TIMES, 2.0, at_least=True), Reached.YES),
        (Bar(Measure.CPU, Against.TIMES, 2.1, at_least=True), Reached.NO),
        (Bar(Measure.CPU, Against.PLUS, 3.0), Reached.YES),
        (Bar(Measure.CPU, Against.PLUS, 2.9), Reached.NO),
        (Bar(Measure.CPU, Against.ALONE, 6.0), Reached.YES),
        (Bar(Measure.CPU, Against.ALONE, 5.9), Reached.NO),
    ],
    ids=str,
)
def test_a_limit_itself_reaches_the_bar(bar: Bar, reached: Reached) -> None:
    assert judge(CASE, OURS, bar, cpu_of(c=[3.0], ours=[6.0])).reached is reached


@pytest.mark.parametrize(
    ("bar", "reached"),
    [
        (Bar(Measure.CPU, Against.TIMES, 2.5), Reached.MOST),
        (Bar(Measure.CPU, Against.TIMES, 2.5, at_least=True), Reached.SOME),
        (Bar(Measure.CPU, Against.TIMES, 3.0), Reached.YES),
        (Bar(Measure.CPU, Against.TIMES, 1.9), Reached.NO),
        (Bar(Measure.CPU, Against.ALONE, 2.0), Reached.MOST),
    ],
    ids=str,
)
def test_a_bar_says_whether_every_round_reaches_it_or_most_or_some_or_none(
    bar: Bar, reached: Reached
) -> None:
    results = cpu_of(c=[1.0, 1.0, 1.0], ours=[2.0, 2.0, 3.0])
    assert judge(CASE, OURS, bar, results).reached is reached


def test_a_figure_is_as_good_as_the_worst_of_its_bars() -> None:
    assert Reached.all([Reached.YES, Reached.YES]) is Reached.YES
    assert Reached.all([Reached.YES, Reached.MOST]) is Reached.MOST
    assert Reached.all([Reached.SOME, Reached.MOST]) is Reached.SOME
    assert Reached.all([Reached.MOST, Reached.NO, Reached.YES]) is Reached.NO


def test_half_of_the_rounds_are_not_most_of_them() -> None:
    assert Reached.of([True, False]) is Reached.SOME
    assert Reached.of([True, False, True]) is Reached.MOST
    assert Reached.of([]) is Reached.NO


def test_every_kernel_that_ran_gets_a_row_for_each_of_its_bars() -> None:
    found = list(cases())
    both = [ceiling(), *(ours(kernel) for kernel in Kernel)]
    assert len(rows(found, both, Results())) == sum(
        len(bars) for case in found for bars in case.bars.values()
    )
    assert {row.kernel for row in rows(found, both[:2], Results())} == {"compiled"}


def test_loads_are_named_once() -> None:
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)


def test_the_figures_tell_of_every_server_that_ran() -> None:
    lines = figures([CASE], [ceiling(), OURS], cpu_of(c=[2.0], ours=[5.0]))
    assert [line[:4] for line in lines] == [["produce much", "C", "2.00", "1.00"],
                                            ["produce much", "ours, pure", "5.00", "2.50"]]  # fmt: skip


def test_figures_that_say_less_than_they_seem_to_are_noted() -> None:
    results = cpu_of(c=[1.0, 1.0, 1.0], ours=[1.0, 1.0, 1.0])
    assert notes(results) == []
    results.loads[CASE.name, "C"] = dict(enumerate([replace(QUIET, client_cpu=0.96)] * 2))
    assert notes(results) == ["produce much, C: the generator is at its limit; the throughput is its own."]
    results.loads[CASE.name, "C"] = {0: QUIET, 1: replace(QUIET, stolen_cpu=0.5)}
    assert notes(results) == ["The hypervisor took up to 0.50 processors, over 0.1 in 1 of 5 runs."]


def test_rows_pass_from_process_to_process(capsys: pytest.CaptureFixture[str]) -> None:
    sent = [Row("a", "1", "≥ 1", Reached.SOME, "pure"), Row("b", "2")]
    dump(sent, "once")
    how, rows_of_it = load(capsys.readouterr().out)
    assert (how, rows_of_it) == ("once", sent)
    assert rows_of_it[0].reached is Reached.SOME


def test_markdown_leaves_out_what_is_empty_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    show("Title", [Row("a", "1 (1–2)", "≥ 1", Reached.YES), Row("b", "2")], markdown=True)
    assert capsys.readouterr().out == (
        "\nTitle\n\n| what | ours | bar | reached |\n| --- | ---: | ---: | --- |\n"
        "| a | 1 (1–2) | ≥ 1 | yes |\n| b | 2 |  |  |\n"
    )


def test_a_terminal_gets_a_drawn_table(capsys: pytest.CaptureFixture[str]) -> None:
    show("Title", [Row("a", "1", "≥ 2", Reached.NO)])
    shown = capsys.readouterr().out
    assert "Title" in shown
    assert "NO" in shown


def test_figures_are_told_with_their_spread() -> None:
    assert spread([2.0, 1.0, 4.0], 1) == "2.0 (1.0–4.0)"
    assert spread([1234.5], 0) == "1,234"


def test_a_summary_counts_bars_by_how_many_rounds_reach_them() -> None:
    kinds = [Reached.YES, Reached.NO, Reached.SOME, Reached.NO, Reached.MOST, None]
    found = summary(Row("a", "1", "", kind) for kind in kinds)
    assert found == "Of 5 bars 1 are reached in every round, 1 in most, 1 in some, 2 in none."


def test_in_short_the_kernels_stand_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    show_in_short(
        "Title",
        [
            Row(
                "a",
                "1.5 (1.4–1.6) µs",
                "≤ 2 × C",
                Reached.YES,
                "compiled",
                "1 (1–1) µs",
                "1.5 (1.4–1.6) ×",
                "8",
            ),
            Row("without a bar", "7 µs", kernel="compiled"),
            Row("a", "4.0 (3.5–4.5) µs", "≤ 4 µs", Reached.SOME, "pure", "1 (1–1) µs"),
        ],
        {"beside": "C"},
    )
    assert capsys.readouterr().out == (
        "\nTitle\n\n| what | C | ours, compiled | ours, pure | recorded |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| a | 1 µs | 1.5 µs, 1.5 ×, yes | 4.0 µs, some | 8 |\n"
    )


def test_a_title_says_which_code_was_measured() -> None:
    assert "CPython" in machine()
    assert commit() in machine()


def test_a_broker_that_does_not_start_is_a_failure_and_the_others_go_on() -> None:
    broken = Server("ours, pure", "sh -c 'echo no such luck; exit 3' {port} {dir}", Kernel.PURE)
    results = run_in_turn([CASE, CASE], [broken], Run(rounds=1, seconds=0.1))
    assert len(results.failures) == 2
    assert "no such luck" in results.failures[0]
    assert results.loads == {}
