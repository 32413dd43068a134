"""A run of tests ends, whatever a failed test has left behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patient

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]

FAILS = """
import subprocess
import sys
import threading


def test_leaves_a_process_and_a_thread():
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(f"its number: {started.pid}")
    threading.Thread(target=threading.Event().wait, name="waits for ever").start()
    raise AssertionError("it fails")


def test_of_the_next_one(): ...
"""


def test_it_ends_the_process_and_does_not_wait_for_the_thread(tmp_path: Path) -> None:
    (tmp_path / "test_that_fails.py").write_text(FAILS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), str(tmp_path)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=patient(90),
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    assert "threads that tests left behind" in done.stderr
    assert "waits for ever" in done.stderr
    (number,) = re.findall(r"its number: (\d+)", done.stdout)
    command_line = Path(f"/proc/{number}/cmdline")
    assert not command_line.exists() or not command_line.read_bytes(), "the child lives"
