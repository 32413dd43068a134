"""Brokers are added and taken away under load, and what can't be done safely is refused."""

import time
from collections.abc import Iterator

import pytest

from e2e.support.kubernetes import run
from e2e.support.load import CLOSE_S, POD, Load
from e2e.support.nodes import Nodes, zones
from e2e.support.release import NAME, Release, commands
from e2e.support.waiting import until

FILLING = "filling"
PARTITIONS, MESSAGES, BYTES = 100, 1_000_000, 1_000
"""1 GB in 100 partitions, three times."""
QUIET_S = 15
REFUSED = "ControllersNotAsWanted"


@pytest.fixture
def filled(release: Release, load: Load) -> Iterator[None]:
    """A topic that has something to move. It goes in the end, also when the test failed."""
    more = ("--if-not-exists", "--partitions", str(PARTITIONS), "--set", "flush=replicated")
    release.tank("topic", "create", FILLING, *more)
    began = time.monotonic()
    fill = ("tank", "bench", "produce", "--topic", FILLING, "-n", str(MESSAGES), "-s", str(BYTES))
    release.kubernetes.kubectl("exec", POD, "--", *fill, "--servers", release.servers)
    print(f"\n  {MESSAGES * BYTES / 1e9:.1f} GB written in {time.monotonic() - began:.1f} s")
    release.await_balanced(3)
    yield

    def gone() -> bool:
        release.tank("topic", "delete", FILLING, "--yes", "--if-exists")
        return True

    until(gone, "the topic can't be deleted", CLOSE_S)


def assert_spread_over_racks(release: Release) -> None:
    """Each broker says its node's zone, and no partition is in fewer racks than there could be."""
    racks, zone_of = release.racks(), zones()
    assert racks == {n + 1: zone_of[pod.node] for n, pod in enumerate(release.kubernetes.pods("broker"))}
    for each in release.partitions():
        used = {racks[broker] for broker in each["replicas"]}
        assert len(used) == min(len(each["replicas"]), len(set(racks.values()))), each


def claims(release: Release) -> dict[str, str]:
    """The volumes' UIDs, by name."""
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in release.kubernetes.get("pvc")}


def test_three_to_five_and_back_and_again(release: Release, load: Load, filled: None) -> None:
    with load.step("quiet"):
        time.sleep(QUIET_S)

    with load.step("3 to 5, until replicas and leaders are spread evenly"):
        (printed,) = [command for command in commands(release.notes) if " scale " in command]
        run("bash", "-c", printed)
        release.await_balanced(5)
    spread = [(broker["replicas"], broker["leads"]) for broker in release.status()["brokers"]]
    print(f"  (replicas, leads) of each broker: {spread}")
    assert all(replicas for replicas, _ in spread)
    assert_spread_over_racks(release)

    with load.step("helm upgrade that knows of 3, and leaves 5"):
        release.upgrade("commonLabels.a=b")
        brokers = release.kubernetes.get("statefulset", f"{NAME}-broker")
        assert brokers["metadata"]["labels"]["a"] == "b"
        assert brokers["spec"]["replicas"] == 5
        release.await_whole(5)

    with load.step("5 to 3, until the pods are gone and the brokers removed"):
        release.scale(3)
        release.await_whole(3)
    for n in (3, 4):
        pod, words = f"{NAME}-broker-{n}", f"Broker {n + 1} "
        release.await_told("ScalingDown", f"{NAME}-broker", words)
        release.await_told("Draining", pod, words)
        release.await_told("MayStop", pod, words)
        release.await_told("ScaledDown", f"{NAME}-broker", words)

    left = claims(release)
    assert {f"data-{NAME}-broker-{n}" for n in (3, 4)} <= left.keys()
    with load.step("3 to 5 again, onto the volumes that were left"):
        release.scale(5)
        release.await_balanced(5)
    assert claims(release) == left
    assert all(broker["replicas"] for broker in release.status()["brokers"])
    with load.step("5 to 3 again"):
        release.scale(3)
        release.await_whole(3)

    # A rollback goes to the number that its revision was rendered with: none of the next ones' may be of 5.
    release.upgrade()
    assert load.violations() == []


def test_three_to_two_is_refused_and_three_again_is_whole(release: Release, load: Load) -> None:
    with load.step("3 to 2, until the pod is gone"):
        release.scale(2)
        until(lambda: len(release.kubernetes.pods("broker")) == 2, "the pod stays")

    for about in (f"{NAME}-broker-2", f"{NAME}-broker"):
        release.await_told("ScaleDownRefused", about, "can't leave the cluster")
    assert "data-tank-broker-2" in release.kubernetes.volumes()
    assert release.state()["brokers"] == 3, "it stays a member, with all that it holds"

    with load.step("back to 3, until all replicas are in sync"):
        release.scale(3)
        release.await_whole(3)
    assert load.violations() == []


def vote(release: Release, number: int) -> bool:
    """So many controllers, and no more, and all are ready."""
    pods = release.kubernetes.pods("controller")
    return len(pods) == number == release.state().get("voters") and all(pod.ready for pod in pods)


def test_controllers_grow_and_shrink(release: Release, load: Load) -> None:
    with load.step("to 5 controllers, until all vote"):
        release.scale(5, "controller")
        until(lambda: vote(release, 5), "they don't all vote")
    with load.step("a sixth, until an event refuses it"):
        release.scale(6, "controller")
        release.await_told(REFUSED, f"{NAME}-controller-5", "there are at most 5")
        until(lambda: release.state().get("voters") == 5, "others have a vote")
    with load.step("to 3 controllers, until all vote"):
        release.scale(3, "controller")
        until(lambda: vote(release, 3), "they don't all vote")
    assert load.violations() == []


def test_controllers_that_came_after_the_brokers_are_found_and_the_first_one_founds_no_second_cluster(
    release: Release, load: Load
) -> None:
    first = f"{NAME}-controller-0"
    with load.step("to 1 controller, of which alone helm and all pods know then"):
        release.scale(1, "controller")
        until(lambda: vote(release, 1), "it is not alone")
        release.upgrade()
        release.restart_brokers()
        release.await_whole()
    with load.step("to 3 controllers, until all vote"):
        release.scale(3, "controller")
        until(lambda: vote(release, 3), "they don't all vote")
    before = release.kubernetes.pods("controller")[0].uid
    with load.step("the first one's pod and volume deleted, until all vote and the brokers are there"):
        release.kubernetes.kubectl("delete", "pvc", f"data-{first}", "--wait=false")
        release.kubernetes.kubectl("delete", "pod", first)

        def is_back() -> bool:
            return release.kubernetes.pods("controller")[0].uid != before and vote(release, 3)

        until(is_back, "they don't all vote")
        release.await_whole()
    release.upgrade()
    assert load.violations() == []


def test_a_controller_that_the_others_need_is_not_taken_out(
    release: Release, load: Load, inner_nodes: Nodes
) -> None:
    first = release.kubernetes.pods("controller")[0]
    with (
        load.step("3 to 2 controllers while another one is frozen, until an event refuses it"),
        inner_nodes.frozen(first, release.kubernetes.namespace),
    ):
        release.scale(2, "controller")
        release.await_told(REFUSED, f"{NAME}-controller-2", "the others still count it as a member")
    with load.step("back to 3 controllers, until all vote"):
        release.scale(3, "controller")
        until(lambda: vote(release, 3), "they don't all vote")
    assert load.violations() == []
