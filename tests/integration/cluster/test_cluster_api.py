"""The controllers' HTTP API, and `tank cluster` about controllers, on a cluster of processes."""

import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tank_cli.cluster import folder as cluster_folder
from tank_cli.cluster import processes
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, Process, running_cluster
from tests.support.processes.ports import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def ask(
    process: Process, method: str, path: str, body: object = None, token: str = ""
) -> tuple[int, dict[str, Any]]:
    """(status, answer)"""
    request = urllib.request.Request(
        f"http://{process.addresses['http']}/api/v1{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}"} if token else {},
    )
    try:
        with urllib.request.urlopen(request, timeout=patient(40)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def others(cluster: LocalCluster) -> list[Process]:
    """The controllers that don't lead."""
    leader = cluster.leader()
    return [each for each in cluster.processes("controller") if each.number != leader.number]


def test_an_operator_works_by_http_at_any_controller_also_while_the_leader_dies(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        token = (cluster.data / "api-token").read_text().strip()
        assert (cluster.data / "api-token").stat().st_mode & 0o077 == 0
        first, second = others(cluster)
        refused = ask(first, "POST", "/topics", {"topic": "orders"})
        assert (refused[0], refused[1]["error"]["code"]) == (401, "unauthorized")
        status, made = ask(first, "POST", "/topics", {"topic": "orders", "partitions": 3}, token)
        assert (status, made["replication_factor"]) == (201, 3)
        seen = [ask(each, "GET", "/partitions")[1] for each in cluster.processes("controller")]
        assert seen[0] == seen[1] == seen[2]
        assert seen[0]["partitions"] == cluster.partitions("orders")
        cluster.tank("produce", "orders", "--message", "one")

        leader = cluster.leader()
        leader.kill()
        status, made = ask(second, "POST", "/topics", {"topic": "more"}, token)
        assert (status, made["topic"]) == (201, "more"), "it is asked of the next leader"
        status, shown = ask(first, "GET", "/status")
        assert (status, shown["topics"], shown["healthy"]) == (200, 2, False)
        (down,) = [each for each in shown["controllers"] if each["state"] == "down"]
        assert down["address"] == leader.addresses["grpc"]

        second.kill()
        status, shown = ask(first, "GET", "/topics")
        assert (status, shown["error"]["code"]) == (503, "no_leader")
        states = [each["state"] for each in ask(first, "GET", "/controllers")[1]["controllers"]]
        assert sorted(states) == ["down", "down", "follows"]
        assert 'operation="list_topics",outcome="no_leader"' in metrics(first)


def metrics(process: Process) -> str:
    """What a scrape shows."""
    with urllib.request.urlopen(f"http://{process.addresses['http']}/metrics", timeout=patient(20)) as answer:
        shown: str = answer.read().decode()
        return shown


def test_leadership_is_handed_over_and_a_controller_goes_and_comes_back(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", brokers=1) as cluster:
        token = (cluster.data / "api-token").read_text().strip()
        first, second = others(cluster)
        cluster.tank("cluster", "transfer", str(first.number))
        assert cluster.leader().number == first.number
        assert ask(first, "POST", f"/controllers/{second.number}/lead", token=token)[0] == 202
        until(lambda: cluster.leader().number == second.number, "leadership was not handed over")

        assert "hand leadership over first" in cluster.tank(
            "cluster", "remove-controller", str(second.number), fails=True
        )
        assert "answers, so it still runs" in cluster.tank(
            "cluster", "remove-controller", str(first.number), fails=True
        )
        path = f"/controllers/{first.number}"
        status, said = ask(second, "DELETE", path, token=token)
        assert (status, "answers, so it still runs" in str(said)) == (409, True)
        first.kill()
        cluster.tank("cluster", "remove-controller", str(first.number))
        numbers = [each["id"] for each in cluster.look("controllers")["controllers"]]
        assert first.number not in numbers, "its address is known still, and nobody there"

        folder = cluster_folder.load_existing(cluster.data)
        member = next(each for each in folder.controllers if each.number == first.number)
        shutil.rmtree(folder.data_of(member))
        processes.start(folder, member)

        def votes() -> bool:
            found = cluster.look("controllers")["controllers"]
            return [each["state"] for each in found if each["id"] == first.number] == ["follows"]

        until(votes, "an emptied controller does not come back as a voter", 60)


def test_a_removed_controller_is_added_again_by_up(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", brokers=1) as cluster:
        gone = others(cluster)[0]
        cluster.tank("cluster", "remove-controller", str(gone.number), "--yes")
        assert "Two controllers vote" in str(cluster.look("status")["warnings"])
        cluster.up()

        def votes() -> bool:
            return [each["state"] for each in cluster.look("controllers")["controllers"]].count(
                "follows"
            ) == 2

        until(votes, "it is no voter again", 60)
        assert (cluster.data / f"controller-{gone.number}.removed").is_dir(), "what it had is set aside"
        assert cluster.look("status")["healthy"]


def controller(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """One that is not expected to start."""
    command = [sys.executable, "-m", "tank_controller", "--id=1", f"--cluster=1=127.0.0.1:{free_port()}"]
    command += [f"--data={tmp_path / 'data'}", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=patient(60), check=False)


def test_a_controller_whose_token_or_address_can_not_be_used_says_so_and_ends(tmp_path: Path) -> None:
    short = tmp_path / "token"
    short.write_text("short\n")
    ended = controller(tmp_path, f"--api-token-file={short}")
    assert (ended.returncode, "use one of at least 16" in ended.stderr) == (1, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = controller(tmp_path, f"--http={address}")
    assert (ended.returncode, ended.stderr.splitlines()[-1].startswith("error: can't listen on")) == (1, True)
    assert "--http off" in ended.stderr
    assert "Traceback" not in ended.stderr
