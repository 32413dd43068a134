"""The mistakes that are made on purpose: which there must be, and that one that nobody sees survives."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation import runner
from tests.simulation.mutants import mutants
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.story import Kind, Told
from tests.simulation.told import __main__ as telling
from tests.simulation.told.stories import STORIES

ROOT = Path(__file__).resolve().parents[3]
MISTAKES = (
    "forgets its vote",
    "counts stale votes",
    "commits entries of old terms",
    "half a quorum",
    "acknowledges before fsync",
    "truncates on stale messages",
    "serves stale reads",
    "high-water mark ignores one in-sync replica",
    "high-water mark goes back",
    "truncates by high-water mark",
    "accepts an old leader epoch",
    "leader adds a replica before it has caught up",
    "in-sync change without compare-and-set",
    "acknowledges before the high-water mark",
    "reads past the high-water mark",
    "a fenced broker stays leader",
    "producer state lost on failover",
    "an emptied disk rejoins as a voter",
    "an emptied disk rejoins as in sync",
    "counts a follower's log end instead of what it matched",
    "a leader keeps its epoch over a restart",
    "a new in-sync member counted only once the answer is there",
    "rejoins by high-water mark alone",
    "an in-sync proposal without broker epochs",
    "a repeat acknowledged at once",
    "a short index rebuilt by parsing at rf 3",
    "an unsure tail stays in sync",
    "a topic made again appends to the old folder",
    "a boundary error above a new leader's mark",
    "one host answers for two replicas",
    "empty controllers form a new cluster",
)
"""Each has lost somebody's messages, in one system or another."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_that_loses_messages_is_made_on_purpose(mistake: str) -> None:
    assert any(mistake in mutant.name for mutant in mutants.MUTANTS)


def test_every_story_that_is_told_is_told_for_a_mutant() -> None:
    told = {mutant.told for mutant in mutants.MUTANTS}
    assert set(STORIES) == told


def harmless(**changes: object) -> Mutant:
    """One that changes nothing that anybody could see."""
    mutant = Mutant(
        "says the same in other words",
        "tank_node.replication.append_check",
        "    return max(own, min(pushed, matched))",
        "    return max(min(pushed, matched), own)",
        seeds=1,
    )
    return replace(mutant, **changes)  # type: ignore[arg-type]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("mutant", "sentence"),
    [
        (harmless(), "SURVIVED 1 seeds"),
        (harmless(told="an_old_leader_goes_on_pushing"), "SURVIVED the story told for it"),
    ],
)
def test_a_mutant_that_nobody_sees_survives(mutant: Mutant, sentence: str) -> None:
    fate = mutants.try_one(mutant)
    assert not fate.seeds
    assert fate.sentence == sentence


@pytest.mark.parametrize("page", ["README.md", "docs/simulation.md"])
def test_the_pages_say_how_many_mistakes_there_are(page: str) -> None:
    assert f"each of {len(mutants.MUTANTS)} mistakes" in (ROOT / page).read_text()


@pytest.mark.integration
def test_a_story_that_fails_anyhow_shows_no_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = next(m for m in mutants.MUTANTS if m.name == "an in-sync change without compare-and-set")
    monkeypatch.setattr(mutants, "holds", lambda kind, tried, told: told != mutant.told)
    fate = mutants.try_one(mutant)
    assert not fate.seeds
    assert fate.seen.startswith("what shows it fails without it, too")


@pytest.mark.integration
def test_a_mutant_is_caught_by_the_story_that_is_told_for_it() -> None:
    mutant = next(m for m in mutants.MUTANTS if m.name == "an in-sync change without compare-and-set")
    fate = mutants.try_one(mutant)
    assert fate.sentence == "caught by the story told for it"
    assert "is in sync" in fate.seen


def test_a_mutant_whose_text_or_story_is_gone_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = [harmless(old="nobody wrote this"), harmless(told="nobody_tells_this")]
    monkeypatch.setattr(mutants, "MUTANTS", lost)
    gone, untold = mutants.problems()
    assert "its text is 0 times in" in gone
    assert "nobody tells nobody_tells_this" in untold


def test_a_name_that_no_mutant_has_is_an_error_and_not_a_run_without_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        mutants.main(["typo"])
    assert ended.value.code == 2
    assert "no mutant is called so" in capsys.readouterr().err


@pytest.mark.integration
def test_a_mutant_that_cannot_run_is_not_caught_and_ends_no_run() -> None:
    fate = mutants.try_one(harmless(new="    return nobody", told="an_old_leader_goes_on_pushing"))
    assert not fate.seeds
    assert fate.seen.startswith("the simulator itself ended badly, with 1: NameError")


def test_a_table_says_after_how_many_random_stories_each_is_caught(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[Mutant] = []

    def fates(chosen: list[Mutant], processes: int) -> list[mutants.Fate]:
        tried.extend(chosen)
        counts = (7, 0, 0)
        seen = ("a vote was forgotten", "", "what shows it fails without it, too: no leader")
        return [
            mutants.Fate(mutant, count, text, 0.1)
            for mutant, count, text in zip(chosen, counts, seen, strict=True)
        ]

    among = [harmless(name=name, told="a_voter_starts_again") for name in ("one", "two", "three")]
    monkeypatch.setattr(mutants, "MUTANTS", among)
    monkeypatch.setattr(mutants, "problems", list)
    monkeypatch.setattr(mutants, "fates", fates)
    assert mutants.main(["--stories", "40"]) == 0
    assert {(mutant.told, mutant.seeds) for mutant in tried} == {("", 40)}
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        "| one | 7 |",
        "| two | more than 40 |",
        "| three | what shows it fails without it, too: no leader |",
        "",
        "1 of 3 caught",
    ]


def test_a_failure_of_many_lines_is_told_in_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = Told(1, 1, 0.1, Counter(), Counter(), failure="an error survived:\nTraceback\nKeyError")
    monkeypatch.setattr(runner, "tell", lambda seed: told)
    assert runner.until_failure(0, 1, Kind.ANY, sys.stdout)
    monkeypatch.setattr(telling, "failure_of", lambda name: told.failure)
    assert telling.main(["a_story"]) == 1
    line = "1 an error survived: | Traceback | KeyError"
    assert capsys.readouterr().out.splitlines() == [line, line]
