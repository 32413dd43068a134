"""From nothing to the first message."""

import time

import pytest

from e2e import images
from e2e.environment import Environment
from e2e.kubernetes import run
from e2e.release import Release, commands

BARS_MIB = {"controller": 110, "broker": 100}


def test_the_commands_that_helm_prints_work_as_printed(release: Release) -> None:
    print(f"\n  helm install --wait to ready: {release.ready_s:.1f} s")
    began = time.monotonic()
    said = [run("bash", "-c", command) for command in commands(release.notes) if " scale " not in command]
    print(f"  the printed commands to the first message and the status: {time.monotonic() - began:.1f} s")
    assert any(line == "hello" for line in "".join(said).splitlines()), said
    release.tank("topic", "delete", "first", "--yes")


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
