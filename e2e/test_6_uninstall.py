"""What is left when a release goes, and what the next one finds."""

import time

from e2e.support.kubernetes import Kubernetes
from e2e.support.load import Load
from e2e.support.release import NAME, Release
from e2e.support.waiting import until

GONE_S = 15.0
OF_KUBERNETES = {"CalculateExpectedPodCountFailed", "FailedScheduling", "Unhealthy"}
"""Reasons of warnings that are Kubernetes' own when a StatefulSet and its pods go at a time: its budgets look
for the set of a pod, its kubelet probes a process that has just ended."""


def test_volumes_stay_and_the_next_install_finds_the_data(release: Release, load: Load) -> None:
    load.all_get_on()
    load.end()
    before = release.kubernetes.volumes()
    told = warnings(release.kubernetes)
    began = time.monotonic()
    release.uninstall()
    took_s = time.monotonic() - began
    print(f"\n  helm uninstall, until all pods are gone: {took_s:.1f} s (reach: {GONE_S:.0f})")
    assert [name for name in release.kubernetes.volumes() if name in before] == before
    assert took_s < GONE_S
    assert warnings(release.kubernetes) - told == set()

    release.install()
    release.await_whole()
    print(f"  helm install around the volumes, to ready: {release.ready_s:.1f} s")
    assert load.violations() == []


def test_an_install_right_behind_an_uninstall_finds_the_data(release: Release, load: Load) -> None:
    """The pods of before are stopping still, and those that follow have their names and volumes."""
    load.all_get_on()
    load.end()
    release.kubernetes.helm("uninstall", NAME)
    release.install()
    release.await_whole()
    print(f"\n  helm install right behind helm uninstall, to ready: {release.ready_s:.1f} s")
    assert load.violations() == []


def test_fewer_controllers_than_there_were_are_said_and_scaling_them_back_mends_it(
    release: Release, load: Load
) -> None:
    load.all_get_on()
    load.end()
    release.uninstall()
    release.install("controller.replicas=1", waits=False)
    words = "3 controllers are members of the cluster, 2 of them have to run, and only 1 is wanted"
    release.await_told("ControllersNotAsWanted", f"{NAME}-controller-0", words)
    assert words in release.ready_problems(f"{NAME}-controller-0")
    release.scale(3, "controller")
    release.await_whole()
    release.upgrade("controller.replicas=3")
    assert load.violations() == []


def test_volumes_go_where_the_values_say_so(release: Release, kubernetes: Kubernetes) -> None:
    release.upgrade("persistence.whenDeleted=Delete")
    release.await_whole()
    its = {f"data-tank-{component}-{n}" for component in ("broker", "controller") for n in range(3)}
    assert its <= set(kubernetes.volumes())
    release.uninstall()
    until(lambda: not its & set(kubernetes.volumes()), "volumes stay")

    # What was scaled away before belongs to no set, and stays; the next cluster is another.
    kubernetes.kubectl("delete", "pvc", "-l", f"app.kubernetes.io/instance={NAME}")
    release.install()
    release.await_whole()


def warnings(kubernetes: Kubernetes) -> set[tuple[str, str]]:
    """What Kubernetes was told to warn of: the event, and how often."""
    found = kubernetes.get("events", "--field-selector", "type=Warning")
    return {
        (f"{each['involvedObject']['name']}: {each['reason']}: {each['message']}", str(each.get("count")))
        for each in found
        if each["reason"] not in OF_KUBERNETES
    }
