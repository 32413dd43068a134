"""An older version of the processes and of the client, out of this repository's history.

The version before this one is the commit before it. Another one, such as that of the last release, is given
in `TANK_UPGRADE_FROM`.
"""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tank_protos.feature_levels import KAFKA

COMMIT = "eda5b73cf16733e5c47a5c38f0c3a39c4615f1cd"
HIGHEST = KAFKA
"""The newest feature level that the processes of that commit know."""
BEFORE_IGGY = "f276ab83a7cb8b61d62c79346d918903f4ff0b8e"
"""The last commit whose processes don't know the feature level of Iggy's clients."""
BEFORE = os.environ.get("TANK_UPGRADE_FROM") or "HEAD~"
"""The version before this one."""
ROOT = Path(__file__).parents[3]
_PACKAGES = {
    "node": "tank_node",
    "controller": "tank_controller",
    "protos": "tank_protos",
    "client": "tank_client",
}
"""By the folder that they are in."""
_GIT_S = 60.0
_PYTHON_S = 60.0


def unpacked(folder: Path, commit: str = COMMIT) -> Path:
    """The sources of a commit, in a new folder; skips the test where the history doesn't reach back to
    it."""
    archive = ["git", "-C", str(ROOT), "archive", "--format=zip", commit, *_PACKAGES]
    try:
        taken = subprocess.run(archive, capture_output=True, check=True, timeout=_GIT_S)
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", b"").decode().strip() or error
        pytest.skip(f"NO OLDER VERSION WAS TRIED: git can't give commit {commit} ({why}); clone all history")
    with zipfile.ZipFile(io.BytesIO(taken.stdout)) as files:
        files.extractall(folder)
    _must_be_found_alone(folder)
    return folder


def environment(sources: Path, *behind: Path) -> list[str]:
    """What a command line begins with, to run on these sources and, `behind` them, on others."""
    paths = [*(sources / folder for folder in _PACKAGES), *behind]
    # What is compiled is of today.
    return ["env", f"PYTHONPATH={':'.join(map(str, paths))}", "TANK_KERNEL=pure"]


def _must_be_found_alone(sources: Path) -> None:
    """A process with that environment imports all it has of us from there."""
    look = (
        "import sys, tank_node.__main__, tank_controller.__main__, tank_client.sync\n"
        "print(*(m.__file__ for name, m in sys.modules.items() if name.startswith('tank_')), sep='\\n')"
    )
    command = [*environment(sources), sys.executable, "-P", "-c", look]
    shown = subprocess.run(command, capture_output=True, check=True, text=True, timeout=_PYTHON_S)
    found = [Path(line) for line in shown.stdout.split()]
    strangers = [path for path in found if not path.is_relative_to(sources)]
    assert found, "nothing was imported"
    assert not strangers, strangers
