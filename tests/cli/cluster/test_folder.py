"""`DIR/cluster.json`, and which processes a cluster has: planned, read back, grown."""

import json
import os
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tank_cli.cluster import folder as cluster_folder
from tank_cli.cluster import processes
from tank_cli.cluster.folder import BROKER, CONTROLLER, load, planned
from tank_cli.shell.exit_codes import CliError
from tests.cli.conftest import Tank


def test_every_process_has_ports_of_its_own(tmp_path: Path) -> None:
    folder = planned(tmp_path, 9, 50, 11011)
    ports = {int(a.rpartition(":")[2]) for m in folder.members for a in m.all_addresses}
    assert len(ports) == 2 * 9 + 3 * 50
    assert max(ports) == 11011 + 249, "as the help of --base-port says"
    assert (folder.brokers[0].kafka, folder.brokers[49].kafka) == ("127.0.0.1:11211", "127.0.0.1:11260")
    assert folder.controllers[0].kafka is None
    assert folder.brokers[0].address == "127.0.0.1:11011", "where every command looks by itself"


def test_brokers_serve_iggy_clients_where_the_folder_says_so(tmp_path: Path) -> None:
    folder = planned(tmp_path, 1, 50, 20000)
    assert folder.brokers[0].iggy is None
    folder.serve_iggy(serves=True)
    folder.store()
    again = planned(tmp_path, 1, 50, 20000)
    assert (again.brokers[0].iggy, again.brokers[49].iggy) == ("127.0.0.1:20250", "127.0.0.1:20299")
    assert again.controllers[0].iggy is None
    ports = {int(a.rpartition(":")[2]) for m in again.members for a in m.all_addresses}
    assert len(ports) == 2 * 1 + 4 * 50
    command = processes.command_of(again, again.brokers[0])
    assert command[command.index("--iggy") + 1] == "127.0.0.1:20250"


def test_what_is_stored_is_read_back(tmp_path: Path) -> None:
    folder = planned(tmp_path, 1, 2, 20000)
    folder.cluster_id = "c"
    folder.put(replace(folder.brokers[0], pid=77))
    again = load(tmp_path)
    assert again == folder
    content = json.loads((tmp_path / "cluster.json").read_text())
    assert content["cluster_id"] == "c"
    assert content["processes"][1] == {
        "role": BROKER,
        "id": 1,
        "pid": 77,
        "addresses": {
            "tank": "127.0.0.1:20000",
            "kafka": "127.0.0.1:20200",
            "http": "127.0.0.1:20001",
            "grpc": None,
        },
    }
    assert content["processes"][0]["role"] == CONTROLLER
    assert content["processes"][0]["addresses"]["grpc"] == "127.0.0.1:20100"


def test_a_cluster_keeps_its_ports_and_grows_by_brokers_alone(tmp_path: Path) -> None:
    planned(tmp_path, 3, 1, 20000).store()
    grown = planned(tmp_path, 3, 2, 30000)
    assert [b.port for b in grown.brokers] == [20000, 20002]
    grown.store()
    with pytest.raises(CliError, match="has 2 brokers"):
        planned(tmp_path, 3, 1, 20000)
    with pytest.raises(CliError, match="has 3 controllers"):
        planned(tmp_path, 5, 2, 20000)


def test_a_cluster_leaves_the_folder_of_a_broker_of_its_own_alone(tmp_path: Path, tank: Tank) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.json").write_text("{}")
    refused = tank("cluster", "up", "--data", str(data), "--base-port", "20000")
    assert refused.exit_code == 1
    assert "`tank serve`" in refused.stderr
    assert f"tank serve --data {data}" in refused.stderr, "the way out is a command"
    assert [each.name for each in data.iterdir()] == ["meta.json"], "nothing was written"


@pytest.mark.parametrize("below", ["", "broker-1", "controller-2"])
def test_a_broker_of_its_own_leaves_the_folders_of_a_cluster_alone(
    below: str, tmp_path: Path, tank: Tank
) -> None:
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    planned(cluster, 3, 1, 20000).store()
    refused = tank("serve", "--data", str(cluster / below), "--listen", "127.0.0.1:0")
    assert refused.exit_code == 1
    assert f"belongs to the cluster in {cluster}" in refused.stderr
    assert f"tank cluster up --data {cluster}" in refused.stderr
    assert [each.name for each in cluster.iterdir()] == ["cluster.json"], "nothing was written"


def test_a_folder_beside_those_of_a_cluster_is_free(tmp_path: Path) -> None:
    planned(tmp_path, 3, 1, 20000).store()
    cluster_folder.refuse_in_cluster(tmp_path / "mine")


def test_nobody_has_to_say_again_how_many_there_are(tmp_path: Path) -> None:
    assert len(planned(tmp_path, None, None, 20000).members) == 3 + 3
    planned(tmp_path, 1, 4, 20000).store()
    again = planned(tmp_path, None, None, 30000)
    assert (len(again.controllers), len(again.brokers)) == (1, 4)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"cluster_id": 1')
    with pytest.raises(CliError, match=r"cluster\.json can't be read"):
        load(tmp_path)


def test_a_number_that_another_process_has_by_now_is_nobodys(tmp_path: Path) -> None:
    folder = planned(tmp_path, 1, 1, 20000)
    assert not processes.is_alive(folder, replace(folder.brokers[0], pid=os.getpid()))
    assert not processes.is_alive(folder, folder.brokers[0])


def listening_where_all_behind_is_free(listener: socket.socket) -> int:
    """Below the ports that the system hands out: of those another test may have one that a controller of
    this cluster would get."""
    for port in range(14000 + os.getpid() % 1000, 30000, 500):
        with suppress(OSError):
            listener.bind(("127.0.0.1", port))
            listener.listen()
            return port
    raise AssertionError("no port between 14000 and 30000 is free")


def test_ports_that_somebody_else_has_are_named_before_anything_is_written(
    tank: Tank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(processes, "start", lambda folder, member: started.append(member.name))
    with socket.socket() as listener:
        taken = listening_where_all_behind_is_free(listener)
        for base in (taken, taken - 1):  # TANK of the first broker, and its HTTP
            up = ["cluster", "up", "--data", str(tmp_path / "c"), "--base-port", str(base)]
            ended = tank(*up)
            assert ended.exit_code == 1
            assert f"broker-1 can't listen on 127.0.0.1:{taken}" in ended.stderr
            assert "--base-port" in ended.stderr
            assert not (tmp_path / "c").exists(), "so that it may be tried with others"
        planned(tmp_path, 1, 1, taken).store()
        kept = tank("cluster", "up", "--data", str(tmp_path))
        assert (kept.exit_code, "keeps its ports" in kept.stderr) == (1, True)
    assert not started


def test_a_process_that_ended_is_not_ready_though_another_answers_at_its_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = planned(tmp_path, 1, 1, 20000)
    monkeypatch.setattr(processes, "readiness", lambda member: (True, "another cluster"))
    with pytest.raises(CliError, match="controller-1 ended"):
        processes.await_ready(folder, lambda member: None)
    assert folder.cluster_id == ""


def test_commands_that_want_a_cluster_say_that_there_is_none(tank: Tank, tmp_path: Path) -> None:
    for command in ("down", "logs"):
        ended = tank("cluster", command, "--data", str(tmp_path))
        assert ended.exit_code == 4
        assert "tank cluster up" in ended.stderr
    even = tank("cluster", "up", "--controllers", "2", "--data", str(tmp_path))
    assert even.exit_code == 2
    assert "odd" in even.stderr


def test_logs_show_the_last_lines_of_those_that_are_named(tank: Tank, tmp_path: Path) -> None:
    folder = planned(tmp_path, 1, 1, 20000)
    folder.store()
    log = folder.log_of(folder.brokers[0])
    log.parent.mkdir()
    log.write_text("one\ntwo\nthree\n")
    assert tank("cluster", "logs", "--data", str(tmp_path), "-n", "2").stdout.split() == [
        "broker-1", "two", "broker-1", "three",
    ]  # fmt: skip
    shown = tank("cluster", "logs", "--data", str(tmp_path), "controller-1", "--output", "json").stdout
    assert json.loads(shown) == {"logs": [{"name": "controller-1", "lines": []}]}
    unknown = tank("cluster", "logs", "--data", str(tmp_path), "broker-9")
    assert unknown.exit_code == 4
    assert "broker-1" in unknown.stderr


def test_processes_are_started_with_each_others_addresses(tmp_path: Path) -> None:
    folder = cluster_folder.planned(tmp_path, 3, 1, 20000)
    controller = processes.command_of(folder, folder.controllers[1])
    assert controller[controller.index("--id") + 1] == "2"
    assert "1=127.0.0.1:20100,2=127.0.0.1:20102,3=127.0.0.1:20104" in controller
    broker = processes.command_of(folder, folder.brokers[0])
    assert "127.0.0.1:20100,127.0.0.1:20102,127.0.0.1:20104" in broker
    assert broker[broker.index("--kafka") + 1] == "127.0.0.1:20200"
    assert "--kafka" not in controller


def test_brokers_keep_the_forwarding_that_was_chosen(tmp_path: Path) -> None:
    folder = cluster_folder.planned(tmp_path, 1, 1, 20000)
    assert "--forwarding" not in processes.command_of(folder, folder.brokers[0])
    folder.forwarding = "always"
    folder.store()
    kept = cluster_folder.load_existing(tmp_path)
    broker = processes.command_of(kept, kept.brokers[0])
    assert broker[broker.index("--forwarding") + 1] == "always"
    assert "--forwarding" not in processes.command_of(kept, kept.controllers[0])


def test_variables_reach_the_processes_that_may_be_the_same_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = planned(tmp_path, 1, 1, 12_000)
    told = ["import os, sys", "sys.stdout.write(repr({k: v for k, v in os.environ.items() if 'TANK_' in k}))"]
    monkeypatch.setattr(processes, "command_of", lambda *_: [sys.executable, "-c", ";".join(told)])
    for name in {*processes.PASSED_ON, *processes.kept_back(os.environ)}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TANK_LOG_LEVEL", "debug")
    monkeypatch.setenv("TANK_LISTEN", "127.0.0.1:9")
    monkeypatch.setenv("TANK_SERVERS", "127.0.0.1:9")
    assert processes.kept_back(os.environ) == ["TANK_LISTEN"]
    started = processes.start(folder, folder.brokers[0])
    assert started.pid is not None
    os.waitpid(started.pid, 0)
    assert folder.log_of(started).read_text() == "{'TANK_LOG_LEVEL': 'debug'}"


def test_a_process_that_was_started_just_now_counts_as_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its start and its first instruction the system says of it that it runs nothing."""
    folder = planned(tmp_path, 1, 1, 12_000)
    member = replace(folder.brokers[0], pid=os.getpid())
    said = [b"", b"", b"\0".join((b"python", b"--data", os.fsencode(folder.data_of(member)), b""))]
    original = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        return said.pop(0) if path.name == "cmdline" else original(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert processes.is_alive(folder, member)
    assert said == []
    said[:] = [b"another\0"]
    assert not processes.is_alive(folder, member), "its number was given again"
