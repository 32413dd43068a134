"""The simulator itself: the same seed gives the same story, and what it must see it sees."""

import io
import os
import subprocess
import sys

import pytest

from tank_controller.raft.quorum import Vote
from tests.simulation import runner
from tests.simulation.story import Kind, tell

SEEDS = (0, 3, 6, 9)


def test_what_is_promised_holds_in_a_few_stories() -> None:
    for seed in SEEDS:
        told = tell(seed)
        assert not told.failure, f"{told.failure}; again: {runner.again(seed)}"


def test_a_story_is_the_same_in_every_process_whatever_its_hashes() -> None:
    told = []
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.simulation", "--seed", "3", "--lines", "100000"]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TANK_KERNEL": "pure"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        told.append(done.stdout)
    assert told[0] == told[1]
    assert len(told[0].splitlines()) > 10


def test_a_broken_promise_is_reported_with_what_led_there_and_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tank_controller.raft.election.tally", lambda voters, votes: Vote.WON)
    out = io.StringIO()
    assert runner.run(0, 8, 1, out, Kind.CONTROLLERS) > 0
    report = out.getvalue()
    assert "what led there:" in report
    assert "leads in term" in report
    failed = [line for line in report.splitlines() if line.startswith("again: ")]
    seed = int(failed[0].rsplit(maxsplit=1)[1])
    assert failed[0] == f"again: python -m tests.simulation --seed {seed}"
    told = tell(seed, 20)
    assert told.failure in report
    assert len(told.trace) <= 20
