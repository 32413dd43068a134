"""What docs/iggy.md shows works as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, swept

pytestmark = pytest.mark.integration

PAGE: Final = (Path(__file__).parents[3] / "docs" / "iggy.md").read_text()
ADDRESS: Final = "127.0.0.1:8090"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def commands() -> list[str]:
    """All that is typed, but for what starts brokers."""
    typed = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in typed if not line.startswith(("tank serve", "tank cluster up"))]


@pytest.mark.timeout(400)
def test_the_python_and_the_commands_of_the_page_run(tmp_path: Path) -> None:
    pytest.importorskip("apache_iggy")
    cluster = LocalCluster(tmp_path / "cluster", controllers=1, brokers=1)
    cluster.size.append("--iggy")
    (python,) = blocks("python")
    with swept(cluster):
        cluster.up()
        (broker,) = cluster.processes("broker")
        program = python.replace(ADDRESS, str(broker.addresses["iggy"]))
        # The library's threads may abort a process that is done.
        program += "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n"
        shown = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=patient(60), check=False
        )
        assert shown.stdout.startswith("0 tea {"), shown.stderr
        (controller,) = cluster.processes("controller")
        environment = {
            **os.environ,
            "TANK_SERVERS": str(broker.addresses["tank"]),
            "TANK_CONTROLLERS": str(controller.addresses["grpc"]),
            "TANK_SECRET_FILE": str(tmp_path / "cluster" / "secret"),
        }
        tank = f'tank() {{ {sys.executable} -m tank_cli "$@"; }}; set -o pipefail; '
        for line in commands():
            ended = subprocess.run(
                ["bash", "-c", tank + line],
                env=environment,
                capture_output=True,
                text=True,
                timeout=patient(60),
                check=False,
            )
            assert ended.returncode == 0, f"{line}: {ended.stderr}"
            if line.startswith("tank lag"):
                assert "iggy:c:till" in ended.stdout
