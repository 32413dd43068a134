"""The command line of `tank-controller`."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tank_controller import __main__ as command
from tank_controller.k8s.client import KubernetesConfig
from tank_controller.node import ControllerConfig
from tank_protos.http_api.token import Token

CLUSTER = "1=a:1,2=b:2,3=c:3"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[ControllerConfig]:
    ran: list[ControllerConfig] = []

    def run(config: ControllerConfig) -> int:
        ran.append(config)
        return 0

    monkeypatch.setattr(command, "run", run)
    return ran


def test_it_listens_where_the_cluster_says_that_it_is(ran: list[ControllerConfig], tmp_path: Path) -> None:
    arguments = ["--id", "2", "--cluster", CLUSTER, "--data", str(tmp_path)]
    ended = CliRunner().invoke(command.main, arguments, env={"TANK_SESSION_TIMEOUT_MS": "9000"})
    assert ended.exit_code == 0, ended.output
    (config,) = ran
    assert config.cluster == {1: "a:1", 2: "b:2", 3: "c:3"}
    assert (config.ordinal, config.listen, config.session_timeout_ms) == (2, "b:2", 9000)


@pytest.mark.parametrize(
    ("options", "http"),
    [
        ([], "127.0.0.1:3"),
        (["--listen", "0.0.0.0:9090"], "127.0.0.1:9091"),
        (["--listen", "[::]:65535"], "127.0.0.1:0"),
        (["--http", "0.0.0.0:9"], "0.0.0.0:9"),
        (["--http", "OFF"], ""),
    ],
)
def test_http_is_served_to_this_machine_unless_it_is_said(
    ran: list[ControllerConfig], tmp_path: Path, options: list[str], http: str
) -> None:
    arguments = ["--id", "2", "--cluster", CLUSTER, "--data", str(tmp_path), *options]
    assert CliRunner().invoke(command.main, arguments).exit_code == 0
    (config,) = ran
    assert config.http == http


def test_the_token_is_in_a_file_or_in_the_environment(ran: list[ControllerConfig], tmp_path: Path) -> None:
    arguments = ["--id", "2", "--cluster", CLUSTER, "--data", str(tmp_path)]
    for environment, token in (
        ({}, Token()),
        ({"TANK_API_TOKEN": "s" * 16}, Token(text="s" * 16)),
        ({"TANK_API_TOKEN_FILE": "/there"}, Token(Path("/there"))),
    ):
        assert CliRunner().invoke(command.main, arguments, env=environment).exit_code == 0
        assert ran.pop().api_token == token
    both = CliRunner().invoke(
        command.main, [*arguments, "--api-token-file", "x"], env={"TANK_API_TOKEN": "s"}
    )
    assert (both.exit_code, "say one of both" in both.output) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--id", "4", "--cluster", CLUSTER], "names [1, 2, 3], and not 4"),
        (["--id", "1", "--cluster", "1=a"], "write ID=HOST:PORT"),
        (["--id", "1", "--cluster", "1=a:99999"], "write ID=HOST:PORT"),
        (["--id", "1", "--cluster", "1=a:1,1=b:2"], "controller 1 is named twice"),
        (["--id", "1"], "--cluster"),
    ],
)
def test_what_can_not_be_used_is_named(
    ran: list[ControllerConfig], tmp_path: Path, arguments: list[str], said: str
) -> None:
    ended = CliRunner().invoke(command.main, [*arguments, "--data", str(tmp_path)])
    assert ended.exit_code == 2
    assert said in ended.output
    assert ran == []


def test_in_a_pod_it_is_numbered_by_it_and_knows_the_brokers_stateful_set(
    ran: list[ControllerConfig], tmp_path: Path
) -> None:
    environment = {
        "TANK_ID": "tank-controller-4",
        "TANK_KUBERNETES_BROKERS": "tank-broker",
        "TANK_KUBERNETES_CONTROLLERS": "tank-controller",
        "TANK_KUBERNETES_NAMESPACE": "prod",
        "POD_NAME": "tank-controller-4",
        "POD_UID": "u",
    }
    cluster = ",".join(f"{n}=tank-controller-{n}.tank-controller.prod.svc:9090" for n in range(3))
    arguments = ["--cluster", cluster, "--data", str(tmp_path)]
    ended = CliRunner().invoke(command.main, arguments, env=environment)
    assert ended.exit_code == 0, ended.output
    (config,) = ran
    assert config.ordinal == 4
    assert config.kubernetes == KubernetesConfig(
        "prod", "tank-broker", "tank-controller-4", "u", "tank-controller"
    )
    assert list(config.cluster) == [0, 1, 2, 4]
    assert config.cluster[4] == config.listen == "tank-controller-4.tank-controller.prod.svc:9090"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--id", "two"], "write a whole number, or a pod's name"),
        (["--id", "Pod-1"], "write a whole number, or a pod's name"),
        (["--id", "1", "--kubernetes-brokers", "b"], "--kubernetes-namespace: say where"),
        (
            ["--id", "1", "--kubernetes-controllers", "c", "--kubernetes-namespace", "n"],
            "--cluster: the addresses are not those of one StatefulSet's pods",
        ),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, options: list[str], why: str) -> None:
    ended = CliRunner().invoke(command.main, ["--cluster", CLUSTER, "--data", str(tmp_path), *options])
    assert ended.exit_code == 2
    assert why in ended.output


def test_the_first_process_of_a_container_can_be_stopped_while_it_imports_and_leaves_no_children_behind(
    ran: list[ControllerConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [(number, signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGCHLD)]
    monkeypatch.setattr(os, "getpid", lambda: 1)
    arguments = ["--id", "2", "--cluster", CLUSTER, "--data", str(tmp_path)]
    try:
        assert CliRunner().invoke(command.main, arguments).exit_code == 0
        told = signal.getsignal(signal.SIGTERM)
        assert callable(told)
        with pytest.raises(SystemExit, match="143"):
            told(signal.SIGTERM, None)
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    finally:
        for number, handler in kept:
            signal.signal(number, handler)
    slow = "sorted({'grpc', 'aiohttp', 'tank_controller.app.process'} & set(sys.modules))"
    code = f"import sys, tank_controller.__main__; print({slow})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n", "these are imported before it hears a signal"


@pytest.mark.parametrize(
    ("options", "line"), [([], "Z INFO tank.test: hello"), (["--log-format", "json"], '"message": "hello"')]
)
def test_log_lines_are_as_brokers_write_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str], line: str
) -> None:
    def run(config: ControllerConfig) -> int:
        logging.getLogger("tank.test").info("hello")
        return 0

    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(command, "run", run)
    arguments = ["--id", "2", "--cluster", CLUSTER, "--data", str(tmp_path), *options]
    ended = CliRunner().invoke(command.main, arguments)
    assert ended.exit_code == 0, ended.output
    assert line in ended.output
