"""From nothing to the first message."""

import json
import time

import pytest

from e2e.support import images
from e2e.support.environment import Environment
from e2e.support.kubernetes import run
from e2e.support.release import CHART, NAME, Release, commands

BARS_MIB = {"controller": 110, "broker": 100}


def test_the_commands_that_helm_prints_work_as_printed(release: Release) -> None:
    print(f"\n  helm install --wait to ready: {release.ready_s:.1f} s")
    began = time.monotonic()
    said = [run("bash", "-c", command) for command in commands(release.notes) if " scale " not in command]
    print(f"  the printed commands to the first message and the status: {time.monotonic() - began:.1f} s")
    assert any(line == "hello" for line in "".join(said).splitlines()), said
    release.tank("topic", "delete", "first", "--yes")


def test_a_normal_start_leaves_no_warning_of_probes(release: Release) -> None:
    """Kubernetes makes one of each probe that fails. Only of the first start, which nothing disturbed."""
    found = [
        f"{event['involvedObject']['name']}: {event['message']}"
        for event in release.kubernetes.events("Unhealthy")
    ]
    assert not found, "\n".join(found)


def test_helm_test_writes_reads_and_leaves_nothing_behind(release: Release) -> None:
    said = release.kubernetes.helm("test", NAME, "--timeout", "180s")
    assert "Phase:          Succeeded" in said
    assert not any("helm-test" in each["topic"] for each in release.partitions())
    pods = [each["metadata"]["name"] for each in release.kubernetes.get("pods")]
    assert f"{NAME}-test" not in pods


def test_a_release_by_another_name_for_a_try_stands_beside(release: Release, image: str) -> None:
    """One of each, without volumes, labelled and called as its values say."""
    kubernetes, (repository, _, tag) = release.kubernetes, image.rpartition(":")
    values = [
        "fullnameOverride=log,controller.replicas=1,broker.replicas=1",
        "controller.storage.emptyDir=true,broker.storage.emptyDir=true",
        "broker.storage.size=1Gi,commonAnnotations.owner=e2e,serviceAccount.annotations.owner=e2e",
    ]
    named = ["--set-string", f"image.repository={repository},image.tag={tag}"]
    given = [word for value in values for word in ("--set", value)]
    kubernetes.helm("install", "orders", str(CHART), *named, *given, "--wait", "--timeout", "300s")
    try:
        kubernetes.helm("test", "orders", "--timeout", "180s")
        said = kubernetes.kubectl("exec", "log-broker-0", "--", "tank", "cluster", "status", "-o", "json")
        assert json.loads(said)["healthy"]
        assert not any("log" in name for name in kubernetes.volumes())
        assert kubernetes.get("statefulset", "log-broker")["metadata"]["annotations"]["owner"] == "e2e"
    finally:
        kubernetes.helm("uninstall", "orders", "--wait", "--timeout", "300s")


def test_the_image_is_not_much_larger_than_its_base(environment: Environment, image: str) -> None:
    if environment.image:
        pytest.skip("NO IMAGE IS BUILT HERE: TANK_IMAGE names one")
    _, archive = images.built(images.NAME, "Dockerfile")
    print(f"\n  the image's archive, base and all: {archive.stat().st_size / 1e6:.1f} MB")
    assert images.is_small_enough(archive)


def test_all_pods_are_ready_and_have_memory_to_spare(release: Release) -> None:
    release.await_whole()
    for component, bar in BARS_MIB.items():
        found = release.memory_mib(component)
        print(f"\n  idle {component}s: {max(found.values()):.0f} MiB at most (reach: {bar})", end="")
        assert len(found) == 3
        assert max(found.values()) < bar
    print()
