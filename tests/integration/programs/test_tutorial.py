"""What docs/tutorial.md shows can be typed, in its order, and answers as shown there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patient
from tests.support.processes.ports import free_port

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial.md"
ADDRESS = "127.0.0.1:11011"
SERVE = "tank serve --data tutorial &"
UNTIL_IT_SERVES = "until tank status > /dev/null 2>&1; do sleep 0.1; done"
FREE = "127.0.0.1:0"


def steps() -> list[tuple[str, list[str]]]:
    """What is typed, each with the lines that are shown behind it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def form(line: str) -> str:
    """A line without what differs from run to run: numbers, folders, the kernel, widths of columns."""
    line = re.sub(r"\S*/tutorial", "FOLDER", line)
    line = re.sub(r"(compiled|pure) kernel", "kernel", line)
    line = re.sub(r"\d+ (B|KiB)\b", "SIZE", line)
    return " ".join(re.sub(r"[\d.:]*\d", "N", line).split())


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_the_tutorial_can_be_typed_and_answers_as_it_shows(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    [worker] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "worker.py").write_text(worker.replace(ADDRESS, address))
    lines = ["set -o pipefail", "trap 'kill $(jobs -p) 2> /dev/null' EXIT"]
    for at, (command, _) in enumerate(steps()):
        lines.append(f"echo '=== {at}'")
        if command == SERVE:
            lines += [
                f"tank serve --data tutorial --listen {address} --http {FREE} --kafka {FREE} 2>&1 &",
                UNTIL_IT_SERVES,
            ]
        else:
            lines.append(f"{command} 2>&1")
        if command == "kill $!":
            lines.append("wait $!")  # it says that it stops
    environment = {**os.environ, "TANK_SERVERS": address}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    ended = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=patient(120),
    )  # fmt: skip
    answers = re.split(r"=== \d+\n", ended.stdout)[1:]
    assert len(answers) == len(steps()), ended.stderr
    for (command, shown), answer in zip(steps(), answers, strict=True):
        assert [form(line) for line in answer.splitlines()] == [form(line) for line in shown], command
