"""What is lost under load comes back, and nothing acknowledged goes with it. Every broker leads something."""

import contextlib
import time

import pytest

from e2e.support.kubernetes import Pod
from e2e.support.load import Load
from e2e.support.nodes import Nodes, draining
from e2e.support.release import NAME, Release
from e2e.support.waiting import LOOK_EVERY_S, STRANGE, until

FORCE = ("--force", "--grace-period=0")


def broker(release: Release, number: int) -> Pod:
    """By its pod's number."""
    return release.kubernetes.pods("broker")[number]


def test_a_pod_is_deleted_by_force(release: Release, load: Load) -> None:
    with load.step("a broker's pod deleted by force, until all is in sync"):
        release.kubernetes.kubectl("delete", "pod", f"{NAME}-broker-1", *FORCE)
        release.await_whole()
    assert load.violations() == []


def test_a_process_is_killed_in_its_container(release: Release, load: Load, inner_nodes: Nodes) -> None:
    with load.step("kill -9 of a broker, until all is in sync"):
        before = broker(release, 2)
        inner_nodes.signal("KILL", before, release.kubernetes.namespace)
        until(lambda: broker(release, 2).restarts > before.restarts, "it stays down")
        release.await_whole()
    assert load.violations() == []


def test_a_pod_with_its_volume_is_filled_anew(release: Release, load: Load) -> None:
    with load.step("a broker's pod and volume deleted, until it is filled anew"):
        claim = f"data-{NAME}-broker-1"
        old = release.kubernetes.get("pvc", claim)["metadata"]["uid"]
        release.kubernetes.kubectl("delete", "pvc", claim, "--wait=false")
        release.kubernetes.kubectl("delete", "pod", f"{NAME}-broker-1")
        release.await_whole()
    assert release.kubernetes.get("pvc", claim)["metadata"]["uid"] != old
    assert load.violations() == []


def test_the_controller_that_leads_is_killed(release: Release, load: Load) -> None:
    before = release.leader()
    with load.step("the leading controller's pod deleted by force, until another leads and all are ready"):
        release.kubernetes.kubectl("delete", "pod", before, *FORCE)
        release.leader()
        until(
            lambda: [pod.ready for pod in release.kubernetes.pods("controller")] == [True] * 3,
            "three controllers are not ready",
        )
    release.await_whole()
    assert load.violations() == []


def test_a_node_is_lost_and_comes_back(
    release: Release, load: Load, lost_nodes: Nodes, clients_node: str
) -> None:
    lost = next(pod.node for pod in release.kubernetes.pods("broker") if pod.node != clients_node)
    with contextlib.ExitStack() as stack:
        # Whatever happens, the next tests have it again.
        stack.callback(lost_nodes.start, lost)
        with load.step(f"{lost} lost, until the others lead"):
            lost_nodes.stop(lost)
            until(lambda: bool(release.state().get("brokers_fenced")), "no broker was fenced")
            load.all_get_on()
        with load.step(f"{lost} back, until all is in sync"):
            stack.close()
            release.await_whole()
    assert load.violations() == []


def test_drained_nodes_wait_for_the_disruption_budget(
    release: Release, load: Load, clients_node: str
) -> None:
    full = sorted({pod.node for pod in release.kubernetes.pods("broker")} - {clients_node})
    if not full:
        pytest.skip("NO NODE IS DRAINED HERE: all brokers are beside the clients")
    fewest = 3
    with load.step(f"kubectl drain of {' and '.join(full)} at once, until all is in sync elsewhere"):
        with draining(full, "=".join(release.mark)) as drains:
            while any(process.poll() is None for process in drains):
                with contextlib.suppress(*STRANGE):
                    fewest = min(fewest, sum(pod.ready for pod in release.kubernetes.pods("broker")))
                time.sleep(LOOK_EVERY_S)
        assert [process.returncode for process in drains] == [0] * len(full), [
            process.stdout and process.stdout.read() for process in drains
        ]
        release.await_whole()
    assert fewest >= 2, "one broker at a time"
    assert load.violations() == []
