"""The files of the repository, as its own tests read them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


ROOMS = ("node", "controller", "protos", "client", "spark")


def tracked() -> list[Path]:
    """All files that git tracks or would track, as paths from the root; where there is no git, all."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        listed = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if ".venv" not in p.parts]
    return [Path(name) for name in listed if (ROOT / name).is_file()]


def python_files() -> list[Path]:
    return [p for p in tracked() if p.suffix == ".py" and "generated" not in p.parts]
