"""The simulator itself: the same seed gives the same story, and what it must see it sees."""

import io
import os
import subprocess
import sys

import pytest

from tank_controller.raft.quorum import Vote
from tests.simulation import runner
from tests.simulation.mutants import mutants
from tests.simulation.story import Kind, seeds, tell
from tests.simulation.told.told import telling

SEEDS = (0, 3, 6, 9)


def test_what_is_promised_holds_in_a_few_stories() -> None:
    for seed in SEEDS:
        told = tell(seed)
        assert not told.failure, f"{told.failure}; again: {runner.again(seed)}"


def test_no_brokers_disk_is_emptied_by_the_word_of_a_controller_that_has_yet_to_hear_of_its_topics() -> None:
    with telling({"flush": "disk"}) as story:
        for node in story.cluster.nodes.values():
            node.end(False)
        for node in story.cluster.nodes.values():
            node.start()
        story.until(lambda: story.cluster.leader() is not None, "a leader")
        leader = story.cluster.leader()
        assert leader is not None
        assert leader.machine is not None
        assert not leader.machine.state.topics, "it has applied what it holds"
        assert not story.empty(story.brokers[1])


def simulate(*words: str, hash_seed: str = "0") -> str:
    """The simulator as people run it: on plain Python."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TANK_KERNEL": "pure"}
    command = [sys.executable, "-m", "tests.simulation", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.integration
@pytest.mark.thorough
def test_whole_clusters_keep_their_promises_in_a_few_stories() -> None:
    told = simulate("--kind", "cluster", "--seeds", "4", "--processes", "1")
    assert "every invariant held" in told
    assert "messages committed" in told


@pytest.mark.integration
@pytest.mark.thorough
@pytest.mark.parametrize("seed", ["2", "3"])
def test_a_story_is_the_same_in_every_process_whatever_its_hashes(seed: str) -> None:
    told = [simulate("--seed", seed, "--lines", "100000", hash_seed=hashes) for hashes in ("1", "2")]
    assert told[0] == told[1]
    assert len(told[0].splitlines()) > 10


def test_a_seed_says_what_its_story_is_about() -> None:
    assert seeds(0, 3, Kind.CONTROLLERS) == [0, 3, 6]
    assert seeds(0, 3, Kind.CLUSTER) == [1, 2, 4]
    assert seeds(5, 2, Kind.ANY) == [5, 6]


def test_all_mutations_still_fit_the_code() -> None:
    assert mutants.problems() == []
    names = [mutant.name for mutant in mutants.MUTANTS]
    assert len(set(names)) == len(names)


@pytest.mark.integration
def test_a_broker_that_acknowledges_too_early_is_caught() -> None:
    mutant = next(m for m in mutants.MUTANTS if m.name == "acknowledges before the high-water mark")
    fate = mutants.try_one(mutant)
    assert fate.seeds
    assert "acknowledged before it is committed" in fate.seen


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
