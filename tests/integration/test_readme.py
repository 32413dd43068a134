"""What the README shows works as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import running_broker

README = Path(__file__).resolve().parents[2] / "README.md"
ADDRESS = "127.0.0.1:11011"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)


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
