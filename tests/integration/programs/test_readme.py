"""What the README and the client's guide show works as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patient
from tests.support.processes.broker_process import running_broker
from tests.support.processes.cluster import LocalCluster, swept

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "client.md"
ADDRESS = "127.0.0.1:11011"


def blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def typed(command: str) -> list[str]:
    """What is typed in the block that shows this command."""
    (block,) = [b for b in blocks("console") if command in b]
    return [line[2:].split("  # ")[0].strip() for line in block.splitlines() if line.startswith("$ ")]


def session() -> list[str]:
    """The commands of the section "By hand", without installing and without starting the broker."""
    return [line for line in typed("tank serve") if not line.startswith(("pip ", "tank serve"))]


@pytest.mark.integration
def test_the_commands_and_the_python_of_the_readme_run(tmp_path: Path) -> None:
    (python,) = [b for b in blocks("python") if "asyncio.run" in b]
    with running_broker(tmp_path) as broker:
        environment = {**os.environ, "TANK_SERVERS": broker.address}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        outputs = [
            subprocess.run(
                ["bash", "-c", f"set -o pipefail; {line}"],
                env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
                timeout=patient(60),
            ).stdout
            for line in session()
        ]  # fmt: skip
        assert any('"number": 1' in output for output in outputs), outputs
        shown = subprocess.run(
            [sys.executable, "-c", python.replace(ADDRESS, broker.address)],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=patient(60),
        ).stdout  # fmt: skip
    assert "b'alice'" in shown
    assert "b'{\"id\": 1}'" in shown


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_the_cluster_of_the_readme_outlives_a_broker(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path / "cluster")
    script = "\n".join(typed("tank cluster up"))
    for offset in (0, 2, 4):
        script = script.replace(str(12011 + offset), str(cluster.base_port + offset))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TANK_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    with swept(cluster):
        ended = subprocess.run(
            ["bash", "-ec", script],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=patient(240),
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "100000" in ended.stdout.split("\n")
    assert "is up: 1 of 6 processes started" in ended.stdout
    assert "Stopped 6 processes." in ended.stdout


@pytest.mark.integration
def test_the_python_of_the_clients_guide_runs(tmp_path: Path) -> None:
    """The two whole programs. The others are parts of `examples/client`, which `tests/examples` runs."""
    with running_broker(tmp_path) as broker:
        shown = [
            subprocess.run(
                [sys.executable, "-c", python.replace(ADDRESS, broker.address)],
                cwd=tmp_path, capture_output=True, text=True, check=True, timeout=patient(60),
            ).stdout.splitlines()
            for python in blocks("python", GUIDE)
            if python.startswith(("import ", "from "))
        ]  # fmt: skip
    asynchronous, synchronous = shown
    assert asynchronous[0] == "Stored(first=1, last=1)", "as the comment beside it says"
    assert asynchronous[1].endswith(" 1 [b'late']")
    assert synchronous[0] == "Stored(first=2, last=2)"
    topics, partitions, said = zip(*(line.split(" ", 2) for line in synchronous[1:]), strict=True)
    assert set(topics) == {"flights"}
    assert all(number.isdigit() for number in partitions)
    assert sorted(said) == ["None b'one'", "None b'two'", "b'AA' b'late'", "b'AA' b'on time'"]
