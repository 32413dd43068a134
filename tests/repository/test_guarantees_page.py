"""docs/guarantees.md: every promise names what shows it, and that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
HELD = PAGE[PAGE.index("## What holds") : PAGE.index("## What it costs")]
NOT_PROMISED = PAGE[PAGE.index("## What is not promised") :]
COSTS = PAGE[PAGE.index("## What it costs") : PAGE.index("## What is not promised")]


def rows(table: str) -> list[list[str]]:
    """The cells of each row, but for the two of the head."""
    found = [re.split(r" ?\| ?", line)[1:-1] for line in table.splitlines() if line.startswith("|")]
    return found[2:]


def named() -> set[str]:
    """The stories: names in code that are words of a sentence."""
    return set(re.findall(r"`([a-z]+(?:_[a-z]+){3,})`", PAGE))


def test_every_promise_names_what_shows_it() -> None:
    assert len(rows(HELD)) == 17
    assert [row[0].split(".")[0] for row in rows(HELD)] == [str(number) for number in range(1, 18)]
    for row in (*rows(HELD), *rows(COSTS)):
        assert re.search(r"`[a-z]+(?:_[a-z]+){3,}`|\.py`|`make \w+`", row[-1]), row[0]


def test_what_is_not_promised_names_what_shows_it_or_says_why_nothing_does() -> None:
    sentences = NOT_PROMISED.split("\n- ")[1:]
    assert len(sentences) > 8
    for sentence in sentences:
        said = "no test shows" in sentence or "nothing to show" in sentence
        assert said or re.search(r"`[a-z]+(?:_[a-z]+){3,}`|\.py`|`a_disk_is_emptied`", sentence), sentence


def test_the_tests_are_there() -> None:
    paths = set(re.findall(r"`((?:\w+/)+test_\w+\.py)`", PAGE))
    assert len(paths) > 15
    rooms = (ROOT / "tests", ROOT / "tests" / "node")
    missing = {path for path in paths if not any((room / path).exists() for room in rooms)}
    assert not missing


def test_the_stories_are_told() -> None:
    rooms = (ROOT / "tests" / "simulation" / "told").glob("*.py")
    code = "".join(path.read_text(encoding="utf-8") for path in rooms)
    assert len(named()) > 15
    assert named() <= set(re.findall(r"^def (\w+)\(\) -> None:$", code, re.MULTILINE))


def test_the_targets_are_there_and_the_faults_are_the_simulators() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", PAGE)) <= targets
    table = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    faults = {
        fault
        for line in table[table.index("## What fails") :].splitlines()
        if line.startswith("| ")
        for fault in re.split(r", | or |\|", line.split("|")[1].strip())
    }
    said = set(re.findall(r"`make sim` \(([a-z ]+)\)", PAGE))
    assert len(said) > 5
    assert said <= faults
