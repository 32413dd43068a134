"""A run of tests ends, whatever a failed test leaves behind, and waits as long as it was asked to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import VARIABLE, patient
from tests.support.waiting import until

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]
FAILS = """
import subprocess, sys, threading, time
from pathlib import Path

def test_that_fails():
    threading.Thread(target=threading.Event().wait, name="waits-for-ever").start()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("child").write_text(str(child.pid))
    assert False
"""
TAKES_TIME = """
import time

def test_that_takes_time():
    time.sleep(3)
"""


WAITS = """
import subprocess, sys, time
from pathlib import Path

def test_that_waits():
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(command, start_new_session=True)
    Path("child.new").write_text(str(child.pid))
    Path("child.new").rename("child")
    time.sleep(600)
"""


def _alone() -> dict[str, str]:
    """The environment of a run that is no worker of another one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}


def pytest_runs(folder: Path, source: str, *arguments: str, **environment: str) -> tuple[int, str]:
    """A run of its own: exit code and output."""
    (folder / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    ended = subprocess.run(
        [*command, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), *arguments, "test_it.py"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=patient(120),
        env={**_alone(), "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_run_has_started_ends_when_a_signal_ends_the_run(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "test_it.py").write_text(WAITS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    run = subprocess.Popen(
        [*command, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "test_it.py"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**_alone(), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        until((tmp_path / "child").exists, "the run doesn't begin")
        child = int((tmp_path / "child").read_text())
        run.send_signal(number)
        until(lambda: not _lives(child), "its process lives on")
    finally:
        run.kill()
        run.wait()


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long
def test_a_thread_that_waits_for_ever_and_a_process_do_not_hold_a_run(tmp_path: Path) -> None:
    code, said = pytest_runs(tmp_path, FAILS)
    assert code == 1, said
    assert "waits-for-ever" in said, "the thread is named"
    child = int((tmp_path / "child").read_text())
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]


@pytest.mark.long
def test_waits_are_as_long_as_the_run_was_asked_for(tmp_path: Path) -> None:
    hurried = ("-o", "timeout=1")
    assert pytest_runs(tmp_path, TAKES_TIME, *hurried, **{VARIABLE: "1"})[0] == 1
    assert pytest_runs(tmp_path, TAKES_TIME, *hurried, **{VARIABLE: "20"})[0] == 0
    assert VARIABLE in pytest_runs(tmp_path, TAKES_TIME, **{VARIABLE: "soon"})[1]
