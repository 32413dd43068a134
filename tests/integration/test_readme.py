"""What the README and the client's guide show works as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import running_broker

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "client.md"
ADDRESS = "127.0.0.1:11011"


def blocks(language: str, page: Path = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def session() -> list[str]:
    """The commands of the section "By hand", without installing and without starting the broker."""
    (block,) = [b for b in blocks("console") if "tank serve" in b]
    typed = [line[2:].split("  # ")[0].strip() for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in typed if not line.startswith(("pip ", "tank serve"))]


@pytest.mark.integration
def test_the_commands_and_the_python_of_the_readme_run(tmp_path: Path) -> None:
    (python,) = [b for b in blocks("python") if "asyncio.run" in b]
    with running_broker(tmp_path) as broker:
        environment = {**os.environ, "TANK_SERVERS": broker.address}
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        outputs = [
            subprocess.run(
                ["bash", "-c", f"set -o pipefail; {line}"],
                env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
            ).stdout
            for line in session()
        ]  # fmt: skip
        assert any('"number": 1' in output for output in outputs), outputs
        shown = subprocess.run(
            [sys.executable, "-c", python.replace(ADDRESS, broker.address)],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
        ).stdout  # fmt: skip
    assert "b'alice'" in shown
    assert "b'{\"id\": 1}'" in shown


@pytest.mark.integration
def test_the_python_of_the_clients_guide_runs(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        shown = [
            subprocess.run(
                [sys.executable, "-c", python.replace(ADDRESS, broker.address)],
                cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
            ).stdout.splitlines()
            for python in blocks("python", GUIDE)
        ]  # fmt: skip
    asynchronous, synchronous = shown
    assert asynchronous[0] == "Stored(first=1, last=1)", "as the comment beside it says"
    assert asynchronous[1].endswith(" 1 [b'late']")
    assert synchronous[0] == "Stored(first=2, last=2)"
    assert sorted(synchronous[1:]) == ["None b'one'", "None b'two'", "b'AA' b'late'", "b'AA' b'on time'"]
