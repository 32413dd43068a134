"""Names have no answer, a broker and the controllers' leader are gone: writes go on, controllers elect."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patient
from tests.support.processes.name_service import Mood

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
MOODS = pytest.mark.parametrize("mood", [Mood.SILENT, pytest.param(Mood.FAILING, marks=pytest.mark.long)])

STORY_S = patient(240)
UNSHARE = ["unshare", "--net", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]


def has_namespaces() -> bool:
    if not shutil.which("unshare") or not shutil.which("ip"):
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


def told(module: str, mood: Mood, folder: Path) -> list[str]:
    """Plays a story in namespaces of its own; what it said."""
    story = [*UNSHARE, "--kill-child", sys.executable, "-m", f"tests.support.processes.{module}", mood.value]
    ended = subprocess.run(
        [*story, str(folder)], capture_output=True, text=True, timeout=STORY_S, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()


needs_namespaces = pytest.mark.skipif(
    not has_namespaces(), reason="it needs namespaces of its own: unshare and iproute2"
)


@needs_namespaces
@MOODS
def test_writes_go_on_without_names_a_broker_and_the_controllers_leader(mood: Mood, tmp_path: Path) -> None:
    assert told("cluster_of_names", mood, tmp_path) == [
        "written while names are away",
        "written without a broker and the controllers' leader",
        "said by the brokers that are left",
        "written by a new client",
        "all read",
    ]


@needs_namespaces
@MOODS
def test_controllers_that_came_back_elsewhere_find_each_other_without_names(
    mood: Mood, tmp_path: Path
) -> None:
    assert told("controllers_of_names", mood, tmp_path) == ["another one leads"]
