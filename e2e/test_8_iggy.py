"""Iggy's stock client among the load: one name for all brokers, whatever is done to their pods.

What its senders were told to be stored is there, in order in each partition, once or more; consumers and the
members of a group get all of it.
"""

import base64
from collections.abc import Iterator

import pytest

from e2e.support.kubernetes import run
from e2e.support.load import IGGY_ROOT, Load
from e2e.support.release import NAME, Release, commands
from e2e.support.waiting import until

pytestmark = pytest.mark.long

ON = "iggy.enabled=true"
FORCE = ("--force", "--grace-period=0")


@pytest.fixture(scope="session")
def iggys_release(release: Release) -> Release:
    """Its brokers serve Iggy's clients, from here on."""
    release.upgrade(ON)
    return release


@pytest.fixture
def iggys_load(iggys_release: Release, clients_node: str, clients_code: None) -> Iterator[Load]:
    """Clients of every kind, and Iggy's."""
    iggys_release.scale_back()
    iggys_release.await_whole()
    started = Load(iggys_release.kubernetes, iggys_release, clients_node, with_iggy=True)
    try:
        started.start()
        yield started
    finally:
        started.close()


def root_user(release: Release) -> str:
    """NAME:PASSWORD, as the Secret has it."""
    data = release.kubernetes.get("secret", IGGY_ROOT)["data"]
    return base64.b64decode(data["root"]).decode()


def test_nothing_acknowledged_is_missing_after_rolls_losses_and_scaling(
    iggys_release: Release, iggys_load: Load
) -> None:
    release, load = iggys_release, iggys_load
    with load.step("rollout restart of three brokers"):
        release.restart_brokers()
        release.await_whole()
    with load.step("a broker's pod deleted by force, until all is in sync"):
        release.kubernetes.kubectl("delete", "pod", f"{NAME}-broker-1", *FORCE)
        release.await_whole()
    with load.step("3 to 5 brokers, until replicas and leaders are spread evenly"):
        release.scale(5)
        release.await_balanced(5)
    with load.step("5 to 3 brokers, until the pods are gone and the brokers removed"):
        release.scale(3)
        release.await_whole(3)
    with load.step("the leading controller's pod deleted by force, until another leads"):
        release.kubernetes.kubectl("delete", "pod", release.leader(), *FORCE)
        release.leader()
        release.await_whole()
    assert load.violations() == []


def test_the_root_user_is_the_volumes_and_not_the_releases(iggys_release: Release, iggys_load: Load) -> None:
    release, load = iggys_release, iggys_load
    load.end()
    before = root_user(release)
    assert before.startswith("iggy:")
    release.upgrade()
    assert root_user(release) == before
    release.uninstall()
    assert root_user(release) == before
    release.install(ON)
    release.await_whole()
    assert root_user(release) == before
    (printed,) = [command for command in commands(release.notes) if " get secret " in command]
    assert run("bash", "-c", printed).strip() == before
    until(lambda: "iggy" in release.tank("iggy", "user", "list"), "the user is gone")
    assert load.violations() == []
