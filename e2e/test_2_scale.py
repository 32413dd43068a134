"""Brokers are added and taken away under load, and what can't be done safely is refused."""

import time

import pytest

from e2e.kubernetes import run
from e2e.load import POD, Load
from e2e.release import NAME, Release, commands
from e2e.waiting import until

PARTITIONS, MESSAGES, BYTES = 100, 1_000_000, 1_000
"""1 GB in 100 partitions, three times."""
QUIET_S = 15


@pytest.fixture
def filled(release: Release, load: Load) -> None:
    """A topic that has something to move."""
    release.tank("topic", "create", "filling", "--partitions", str(PARTITIONS), "--set", "flush=replicated")
    began = time.monotonic()
    fill = ("tank", "bench", "produce", "--topic", "filling", "-n", str(MESSAGES), "-s", str(BYTES))
    release.kubernetes.kubectl("exec", POD, "--", *fill, "--servers", release.servers)
    print(f"\n  {MESSAGES * BYTES / 1e9:.1f} GB written in {time.monotonic() - began:.1f} s")
    release.await_balanced(3)


def test_three_to_five_and_back(release: Release, load: Load, filled: None) -> None:
    with load.step("quiet"):
        time.sleep(QUIET_S)

    with load.step("3 to 5, until replicas and leaders are spread evenly"):
        (printed,) = [command for command in commands(release.notes) if " scale " in command]
        run("bash", "-c", printed)
        release.await_balanced(5)
    spread = [(broker["replicas"], broker["leads"]) for broker in release.status()["brokers"]]
    print(f"  (replicas, leads) of each broker: {spread}")
    assert all(replicas for replicas, _ in spread)

    with load.step("helm upgrade that knows of 3, and leaves 5"):
        release.upgrade("commonLabels.a=b")
        brokers = release.kubernetes.get("statefulset", f"{NAME}-broker")
        assert brokers["metadata"]["labels"]["a"] == "b"
        assert brokers["spec"]["replicas"] == 5
        release.await_whole(5)

    with load.step("5 to 3, until the pods are gone and the brokers removed"):
        release.scale(3)
        release.await_whole(3)

    # A rollback goes to the number that its revision was rendered with: none of the next ones' may be of 5.
    release.upgrade()
    release.tank("topic", "delete", "filling", "--yes")
    assert load.violations() == []


def test_three_to_two_is_refused_and_three_again_is_whole(release: Release, load: Load) -> None:
    with load.step("3 to 2, until the pod is gone"):
        release.scale(2)
        until(lambda: len(release.kubernetes.pods("broker")) == 2, "the pod stays")

    refused = release.kubernetes.events("ScaleDownRefused")
    told = {event["involvedObject"]["kind"]: event["message"] for event in refused}
    assert "can't leave the cluster" in told["Pod"]
    assert "can't leave the cluster" in told["StatefulSet"]
    assert "data-tank-broker-2" in release.kubernetes.volumes()
    assert release.state()["brokers"] == 3, "it stays a member, with all that it holds"

    with load.step("back to 3, until all replicas are in sync"):
        release.scale(3)
        release.await_whole(3)
    assert load.violations() == []


def test_controllers_grow_and_shrink(release: Release, load: Load) -> None:
    def vote(number: int) -> bool:
        pods = release.kubernetes.pods("controller")
        return len(pods) == number == release.state().get("voters") and all(pod.ready for pod in pods)

    for number in (5, 3):
        with load.step(f"to {number} controllers, until all vote"):
            release.scale(number, "controller")
            until(lambda n=number: vote(n), "they don't all vote")  # type: ignore[misc]
    assert load.violations() == []
