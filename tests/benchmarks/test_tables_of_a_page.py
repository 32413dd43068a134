"""Tables go into the places that a page has for them, and nothing else of it changes."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import benchmarks.__main__
from benchmarks.__main__ import (
    EVERY_PART,
    PLACES,
    TITLES,
    PartFailed,
    main,
    marks,
    measure,
    places_of,
    put_into,
)
from benchmarks.harness.table import Reached, Row

ROOT = Path(__file__).parents[2]


def place(name: str, tables: str) -> str:
    begin, end = marks(name)
    return f"{begin}\n{tables}\n\n{end}"


def test_tables_take_the_place_of_older_ones() -> None:
    page = f"# Page\n\n{place('broker', 'old')}\nThe end.\n"
    for tables in ("\nnew\n", "\nnewer\n"):
        page = put_into(page, {"broker": tables})
    assert page == f"# Page\n\n{place('broker', 'newer')}\nThe end.\n"


def test_a_part_that_was_not_measured_keeps_its_tables() -> None:
    page = place("broker", "of yesterday") + place("client", "old") + place("client in short", "old")
    assert put_into(page, {"client": "new", "memory": "no place for it"}) == (
        place("broker", "of yesterday") + place("client", "new") + place("client in short", "old")
    )


@pytest.mark.parametrize("text", ["", marks("broker")[0], "".join(reversed(marks("broker")))])
def test_a_page_without_a_whole_place_stays_as_it_is(text: str) -> None:
    assert put_into(text, {"broker": "new"}) == text


def test_nothing_is_measured_for_a_page_without_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n")
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--into", str(page)])
    with pytest.raises(SystemExit, match="has no place for tables"):
        main()


def test_each_part_goes_into_every_page_that_has_a_place_for_it_unless_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, short = tmp_path / "whole.md", tmp_path / "short.md"
    whole.write_text(place("client", "old") + place("memory", "old") + place("failover", "old"))
    short.write_text(place("client in short", "old"))

    def rows_of(part: str, *_: object) -> tuple[str, list[Row]]:
        if part == "memory":
            raise PartFailed("no luck")
        return "once", [Row("a", "1.0 (0.5–2.0) M/s", "≥ 1 M/s", Reached.SOME, "pure")]

    monkeypatch.setattr(benchmarks.__main__, "rows_of", rows_of)
    pages = ["--into", str(whole), "--into", str(short)]
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--parts", "client,memory,failover", *pages])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "| a | pure | 1.0 (0.5–2.0) M/s | ≥ 1 M/s | some |" in whole.read_text()
    assert place("memory", "old") in whole.read_text()
    assert "Pauses of writes: once. " in whole.read_text()
    assert "The Python client: once. " in short.read_text()
    assert "| a | 1.0 M/s, some |" in short.read_text()


def test_the_page_on_performance_has_all_places() -> None:
    assert places_of((ROOT / "docs/performance.md").read_text()) == list(PLACES)


def test_every_part_has_a_title() -> None:
    assert tuple(TITLES) == EVERY_PART


def test_how_often_is_told_to_each_script_that_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Sequence[str]] = {}

    def rows_of(part: str, arguments: Sequence[str], *_: object) -> tuple[str, list[Row]]:
        told[part] = arguments
        return "once", []

    monkeypatch.setattr(benchmarks.__main__, "rows_of", rows_of)
    for part in EVERY_PART[1:]:
        measure(part, argparse.Namespace(quick=False, rounds=7, json=None))
    for part, arguments in told.items():
        script = (ROOT / f"benchmarks/{part}.py").read_text()
        if "from benchmarks.harness.command_line import" in script:
            script += (ROOT / "benchmarks/harness/command_line.py").read_text()
        taken = re.findall(r'"(--rounds|--runs)"', script)
        assert list(arguments) == [each for option in taken for each in (option, "7")], part
