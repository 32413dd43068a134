"""What was run is put into the page's tables, and nothing else of it changes."""

from datetime import date
from pathlib import Path

import pytest

from tests.kafka_clients.libraries import LIBRARIES
from tests.kafka_clients.shown import (
    CLIENTS,
    PROGRAMS,
    SPARK_TITLE,
    Screen,
    marks,
    put_into,
    rows,
    summary,
)
from tests.kafka_clients.steps import SPARK, Outcome, Step

PAGE = Path(__file__).parents[2] / "docs/kafka-compatibility.md"
DAY = date(2026, 11, 6)


def step(program: str, name: str = "a", outcome: Outcome = Outcome.OK, codec: str = "") -> Step:
    problem = "it is broken" if outcome is Outcome.FAILED else ""
    return Step(program, name, outcome, problem, 1.0, codec)


def wrote(program: str, codec: str, outcome: Outcome = Outcome.OK) -> Step:
    return step(program, f"produces, {codec}", outcome, codec)


def page(*lines: str) -> str:
    """With rows in the table of clients."""
    begin, end = marks(CLIENTS)
    first, last = marks(PROGRAMS)
    table = "\n".join(["| Client | Version |", "|---|---|", *lines])
    return f"# Page\n\n{begin}\n{table}\n\n{end}between\n{first}{last}the end\n"


def test_a_row_says_what_went_well_against_one_broker_and_three() -> None:
    library = LIBRARIES[0]
    steps = [*(wrote(library.name, codec) for codec in library.codecs), step(library.name, "consumes")]
    row = rows({1: steps, 3: steps[1:]}, DAY)[CLIENTS][library.title]
    assert row[1:-1] == (
        "none, gzip, snappy, lz4, zstd; idempotent", "yes", "6 of 6", "5 of 5", "6 Nov 2026",
    )  # fmt: skip


def test_a_codec_that_failed_anywhere_is_not_in_the_row_and_a_consumer_that_failed_says_no() -> None:
    library = LIBRARIES[0]
    good = [wrote(library.name, "none"), step(library.name, "consumes")]
    bad = [wrote(library.name, "gzip", Outcome.FAILED), step(library.name, "consumes", Outcome.FAILED)]
    row = rows({1: good, 3: bad}, DAY)[CLIENTS][library.title]
    assert row[1:5] == ("none, snappy, lz4, zstd; idempotent", "no", "2 of 2", "0 of 2")


def test_steps_that_are_not_possible_yet_are_named_and_not_counted() -> None:
    steps = [step("v0probe.py"), step("v0probe.py", "txn", Outcome.NOT_YET)]
    (row,) = rows({1: steps, 3: steps}, DAY)[PROGRAMS].values()
    assert row == ("1 of 1", "1 of 1", "`txn`", "6 Nov 2026")


def test_a_row_takes_the_place_of_its_older_one_and_the_others_stay() -> None:
    first, second = LIBRARIES[0].title, LIBRARIES[1].title
    old = page(f"| {second} | 4 |", f"| {first} | 1 |", "| a client of the past | 0 |")
    new = put_into(old, {CLIENTS: {first: ("2",)}})
    assert f"| {first} | 2 |\n| {second} | 4 |\n" in new
    assert "past" not in new
    assert new.startswith("# Page\n\n")
    assert new.endswith("the end\n")
    assert put_into(new, {CLIENTS: {first: ("2",)}}) == new


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the table of clients"):
        put_into("# Page\n", {CLIENTS: {}})


def test_the_page_on_compatibility_has_a_place_for_both_tables() -> None:
    text = PAGE.read_text()
    steps = [step(SPARK)]
    made = put_into(text, rows({1: steps, 3: steps}, DAY))
    assert f"| {SPARK_TITLE} |" in made
    assert "6 Nov 2026" in made
    assert all(f"| {library.title} |" in made for library in LIBRARIES)


def test_the_summary_counts_each_program_and_repeats_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    steps = [step("kcat", "-L"), step("kcat", "-P", Outcome.FAILED), step("ck.py", "txn", Outcome.NOT_YET)]
    screen = Screen(3)
    for each in steps:
        screen.tell(each)
    assert "[  2/3] FAILED     1.0 s  kcat: -P\n          it is broken\n" in capsys.readouterr().out
    told = summary({1: steps, 3: steps[:1]}, 0.0)
    assert "kcat         1 of 2        1 of 1\n" in told
    assert "FAILED, 1 brokers: kcat: -P: it is broken\n" in told
    assert "2 steps went well, 1 failed, 1 are not possible yet" in told
