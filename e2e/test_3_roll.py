"""Pods are replaced one after the other under load: no write fails."""

import pytest

from e2e.support import images
from e2e.support.environment import Environment
from e2e.support.load import Load
from e2e.support.release import Release

COMPONENTS = ("controller", "broker")


@pytest.fixture(scope="session")
def other_image(environment: Environment, image: str) -> str:
    """The same sources under another name."""
    if environment.image:
        pytest.skip("NO OTHER IMAGE: TANK_IMAGE names one that was not built here")
    name, archive = images.built(images.NAME, "Dockerfile", "REVISION=another")
    images.load(archive, environment.image_load)
    return name


def uids(release: Release, component: str) -> list[str]:
    """Other pods have others."""
    return [pod.uid for pod in release.kubernetes.pods(component)]


def images_run(release: Release) -> set[str]:
    """By brokers and controllers."""
    return {pod.image for component in COMPONENTS for pod in release.kubernetes.pods(component)}


def test_rollout_restart(release: Release, load: Load) -> None:
    before = uids(release, "broker")
    with load.step("rollout restart of three brokers"):
        release.restart_brokers()
        release.await_whole()
    assert not set(before) & set(uids(release, "broker"))
    assert load.violations() == []


def test_a_changed_setting_rolls_brokers_alone_and_a_rollback_rolls_them_back(
    release: Release, load: Load
) -> None:
    controllers, brokers, first = uids(release, "controller"), uids(release, "broker"), release.revision()
    with load.step("helm upgrade with another setting of the brokers"):
        release.upgrade("broker.config.log_level=warning")
        release.await_whole()
    changed = uids(release, "broker")
    assert not set(brokers) & set(changed)

    with load.step("helm rollback"):
        release.rollback(first)
        release.await_whole()
    assert not set(changed) & set(uids(release, "broker"))
    assert uids(release, "controller") == controllers
    assert load.violations() == []


def test_another_image_rolls_everything(release: Release, load: Load, other_image: str) -> None:
    before, first = uids(release, "controller") + uids(release, "broker"), release.revision()
    with load.step("helm upgrade with another image, brokers and controllers"):
        release.upgrade(image=other_image)
        release.await_whole()
    assert not set(before) & set(uids(release, "controller") + uids(release, "broker"))
    assert images_run(release) == {other_image}

    with load.step("helm rollback to the image before"):
        release.rollback(first)
        release.await_whole()
    assert images_run(release) == {release.image}
    assert load.violations() == []
