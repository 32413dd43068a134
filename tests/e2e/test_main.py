"""`python -m e2e` with scripts in the place of clusters: what the suite is given, and that nothing stays."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e import __main__ as starter
from e2e.support import environment
from e2e.support.environment import PROGRAMS, ROOT, of_node

SHELL = "/bin/sh"
TOLD = (
    *("KUBECONFIG", "TANK_IMAGE", "TANK_IMAGE_LOAD", "TANK_SPARK_IMAGE"),
    *("TANK_NODE_STOP", "TANK_NODE_START", "TANK_IN_NODE"),
)


def program(place: Path, script: str) -> Path:
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!{SHELL}\n{script}\n")
    place.chmod(0o755)
    return place


class Machine:
    """Nothing that starts a cluster is on it. Its suite writes down what it is given."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.programs = folder / "programs"
        self.beside = folder / "a folder" / "k8s"
        self.did = folder / "did"
        self.did.touch()
        self._monkeypatch = monkeypatch
        for name in TOLD:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.setattr(starter, "BESIDE", self.beside)
        monkeypatch.setattr(starter, "ROOM_BYTES", 0)
        monkeypatch.setattr(sys, "argv", ["e2e", "-k", "scale"])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        for name in PROGRAMS:
            program(self.programs / name, "exit 0")
        for name in ("sh", "env", "sleep"):
            (self.programs / name).symlink_to(shutil.which(name, path="/usr/bin:/bin") or name)
        self.has_suite("exit 0")

    def has(self, name: str, script: str = "exit 0") -> None:
        """A program."""
        program(self.programs / name, self._writing(name, script))

    def has_beside(self, up: str, down: str = "exit 0") -> None:
        """Scripts beside the repository."""
        self.beside.parent.mkdir()
        program(self.beside / "up", self._writing("up", up))
        program(self.beside / "down", self._writing("down", down))

    def has_suite(self, script: str) -> None:
        """In the place of pytest."""
        suite = program(
            self.folder / "suite", self._writing("suite", f'env > "{self.folder}/told"\n{script}')
        )
        self._monkeypatch.setattr(starter, "SUITE", (str(suite),))

    def _writing(self, name: str, script: str) -> str:
        return f'echo "{name}" "$@" >> "{self.did}"\n{script}'

    def done(self) -> list[str]:
        """What was called, with which arguments."""
        return self.did.read_text().splitlines()

    def told(self) -> dict[str, str]:
        """The suite's environment."""
        lines = (self.folder / "told").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


UP = 'echo "export KUBECONFIG=$TANK_K8S_STATE/kubeconfig PATH=/k8s/bin:\\$PATH"'


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("code", [0, 1])
def test_the_suites_exit_code_is_ours_and_the_cluster_is_ended(machine: Machine, code: int) -> None:
    machine.has_beside(UP)
    machine.has_suite(f"exit {code}")
    assert starter.main() == code
    assert machine.done() == ["up --nodes 3", "suite -k scale", "down"]


def test_the_suite_is_told_how_to_reach_the_cluster_that_was_started(machine: Machine) -> None:
    machine.has_beside(UP)
    assert starter.main() == 0
    told = machine.told()
    state = told["TANK_K8S_STATE"]
    assert told["KUBECONFIG"] == f"{state}/kubeconfig"
    assert told["PATH"] == f"/k8s/bin:{machine.programs}"
    assert not Path(state).parent.exists(), "nothing of it is left"


def test_commands_of_a_folder_with_a_space_in_its_name_can_be_run(machine: Machine) -> None:
    machine.has_beside(UP)
    for name in ("load-image", "node-stop", "node-start", "in-node"):
        program(machine.beside / name, f'echo {name} "$@" >> "{machine.did}"')
    assert starter.main() == 0
    told = machine.told()
    for variable in ("TANK_IMAGE_LOAD", "TANK_NODE_STOP", "TANK_NODE_START", "TANK_IN_NODE"):
        subprocess.run(of_node(told[variable], "node12"), check=True)
    assert machine.done()[3:] == [
        "load-image",
        "in-node control ip link delete node12",
        "node-stop 12",
        "node-start 12",
        "in-node 12",
    ]


def test_a_cluster_that_does_not_start_is_no_failure_is_said_and_is_ended(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.has_beside("exit 1")
    assert starter.main() == 0
    assert "DID NOT RUN: ../shared/k8s/up could not start one" in capsys.readouterr().err
    assert machine.done() == ["up --nodes 3", "down"]


def test_where_nothing_can_be_started_that_is_said(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert starter.main() == 0
    assert "DID NOT RUN: KUBECONFIG" in capsys.readouterr().err
    assert machine.done() == []


def test_a_cluster_that_is_merely_open_is_left_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "production")
    machine.has_beside(UP)
    assert starter.main() == 0
    assert "left alone" in capsys.readouterr().err
    assert machine.told()["KUBECONFIG"] != "production"


@pytest.mark.parametrize("variable", ["TANK_IMAGE", "TANK_IMAGE_LOAD"])
def test_a_cluster_that_an_image_is_named_for_is_taken(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", "for-trying")
    monkeypatch.setenv(variable, "something")
    machine.has_beside(UP)
    assert starter.main() == 0
    assert machine.told()["KUBECONFIG"] == "for-trying"
    assert machine.done() == ["suite -k scale"]


def test_without_a_program_that_the_suite_needs_the_run_fails_and_names_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "for-trying")
    monkeypatch.setenv("TANK_IMAGE", "tank:1")
    monkeypatch.setenv("PATH", str(machine.folder / "empty"))
    assert starter.main() == 1
    assert "helm and kubectl can't be found" in capsys.readouterr().err
    assert machine.done() == []


def test_kinds_cluster_has_a_name_of_its_own_and_is_deleted(machine: Machine) -> None:
    machine.has("docker")
    machine.has("kind")
    for _ in range(2):
        assert starter.main() == 0
    kind = [words[1:] for words in map(str.split, machine.done()) if words[0] == "kind"]
    assert [words[:2] for words in kind] == [["create", "cluster"], ["delete", "cluster"]] * 2
    first, deleted, second, _ = (words[words.index("--name") + 1] for words in kind)
    assert first == deleted != second
    assert machine.told()["TANK_IMAGE_LOAD"].endswith(f"--name {second}")


def test_a_docker_client_without_an_engine_is_no_docker(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.has("docker", "exit 1")
    machine.has("kind")
    assert starter.main() == 0
    assert "DID NOT RUN" in capsys.readouterr().err
    assert machine.done() == ["docker info"]


def test_an_engine_that_hangs_is_no_docker(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "DOCKER_S", 0.2)
    machine.has("docker", "exec sleep 60")
    machine.has("kind")
    assert starter.main() == 0
    assert "DID NOT RUN" in capsys.readouterr().err
    assert machine.done() == ["docker info"]


def test_without_room_for_its_nodes_none_is_started_and_that_is_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.has_beside(UP)
    monkeypatch.setattr(starter, "ROOM_BYTES", 10**18)
    assert starter.main() == 0
    assert re.search(r"DID NOT RUN: \S+ has \d+ GB free, .* TMPDIR", capsys.readouterr().err)
    assert machine.done() == []


RUN = """
import sys
from pathlib import Path
from e2e import __main__ as starter
starter.BESIDE, starter.SUITE, starter.ROOM_BYTES = Path(sys.argv[1]), (sys.argv[2],), 0
del sys.argv[1:]
sys.exit(starter.main())
"""


def started(machine: Machine, program: str = RUN) -> "subprocess.Popen[bytes]":
    """As from a terminal: a signal to its group reaches all that are in there."""
    suite = str(machine.folder / "suite")
    return subprocess.Popen(
        [sys.executable, "-c", program, str(machine.beside), suite],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


ENDING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.parametrize("during", ["up", "suite"])
@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_the_cluster_as_well_whenever_it_comes(
    machine: Machine, during: str, number: signal.Signals
) -> None:
    machine.has_beside("exec sleep 60" if during == "up" else UP)
    machine.has_suite("exec sleep 60")
    process = started(machine)
    await_true(lambda: any(line.startswith(during) for line in machine.done()), process)
    process.send_signal(number)
    assert process.wait(60) == 128 + number
    assert machine.done()[-1] == "down"


def test_a_second_signal_does_not_disturb_the_end_of_the_cluster(machine: Machine) -> None:
    machine.has_beside(UP, f'sleep 0.5; echo "is down" >> "{machine.did}"')
    machine.has_suite("exec sleep 60")
    process = started(machine)
    for wanted in ("suite", "down"):
        await_true(lambda wanted=wanted: any(line.startswith(wanted) for line in machine.done()), process)  # type: ignore[misc]
        os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 128 + signal.SIGINT
    assert machine.done()[-1] == "is down"


@pytest.mark.parametrize("number", ENDING)
def test_somebody_elses_cluster_is_given_back_what_was_done_to_it_before_a_signal_ends_the_suite(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("KUBECONFIG", "for-trying")
    monkeypatch.setenv("TANK_IMAGE", "tank:1")
    back = f'sleep 0.5; echo "gave back" >> "{machine.did}"; exit 2'
    machine.has_suite(f"trap '{back}' INT; echo works >> \"{machine.did}\"; sleep 60 & wait")
    process = started(machine)
    await_true(lambda: machine.done() == ["suite", "works"], process)
    os.killpg(process.pid, number)
    assert process.wait(60) == 128 + number
    assert machine.done() == ["suite", "works", "gave back"]


def test_a_signal_while_the_suite_is_started_ends_the_suite_as_well(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "for-trying")
    monkeypatch.setenv("TANK_IMAGE", "tank:1")
    machine.has_suite(f'trap \'echo "gave back" >> "{machine.did}"; exit 2\' INT; sleep 60 & wait')
    process = started(machine, SIGNAL_AT_START + RUN)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert machine.done() == ["suite", "gave back"]


SIGNAL_AT_START = """
import os, signal, subprocess, time
class Popen(subprocess.Popen):
    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)
subprocess.Popen = Popen
"""
"""Its process runs, and the call that started it has not returned."""


def await_true(true: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    """While the process runs."""
    while not true():
        assert process.poll() is None
        time.sleep(0.02)
