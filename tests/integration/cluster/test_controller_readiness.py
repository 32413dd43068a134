"""A roll of the controllers with a wrong address stops at its first one, and no leader is said."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tank_cli.cluster import folder as cluster_folder
from tank_cli.cluster import processes
from tests.support.processes.cluster import LocalCluster, Process, running_cluster
from tests.support.processes.ports import free_port
from tests.support.processes.readiness import samples_of
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path / "c", brokers=1) as cluster:
        yield cluster


def controller(cluster: LocalCluster, number: int) -> Process:
    return next(each for each in cluster.processes("controller") if each.number == number)


def problems(cluster: LocalCluster, number: int) -> str:
    return str(controller(cluster, number).facts().get("problems"))


def start_with_wrong_addresses(cluster: LocalCluster, number: int) -> None:
    """As a pod that is given the wrong domain: the others reach it, and it reaches none of them."""
    folder = cluster_folder.load_existing(cluster.data)
    member = next(each for each in folder.controllers if each.number == number)
    words = processes.command_of(folder, member)
    at = words.index("--cluster") + 1
    named = [each.partition("=") for each in words[at].split(",")]
    words[at] = ",".join(
        f"{ordinal}={address if int(ordinal) == number else f'127.0.0.1:{free_port()}'}"
        for ordinal, _, address in named
    )
    with patch.object(processes, "command_of", return_value=words):
        processes.start(folder, member)


def test_one_that_cannot_reach_the_leader_is_not_ready_and_one_that_was_stays_ready(
    cluster: LocalCluster,
) -> None:
    leader = cluster.leader()
    others = [each.number for each in cluster.processes("controller") if each.number != leader.number]
    moved, stays = others
    controller(cluster, moved).stop()
    start_with_wrong_addresses(cluster, moved)
    until(lambda: "can't reach it" in problems(cluster, moved), "its saying so")
    assert controller(cluster, moved).facts()["ready"] is False

    leader.stop()
    until(lambda: not controller(cluster, stays).facts().get("leader"), "no leader, of two that can't meet")
    until(lambda: "no controller leads" in problems(cluster, stays), "its saying so")
    facts = controller(cluster, stays).facts()
    assert facts["ready"] is True
    http = str(controller(cluster, stays).addresses["http"])
    assert samples_of(http)["tank_controller_knows_leader"] == 0.0
    assert samples_of(http)["tank_controller_ready"] == 1.0
