"""Where Iggy's client is: in an environment of its own, which is made when it is first asked for."""

from pathlib import Path
from typing import Final

from tests.iggy_clients.__main__ import installed

PACKAGE: Final = "apache-iggy 0.9.0"
FOLDER: Final = Path(__file__).resolve().parents[3] / "out" / "iggy"


def interpreter() -> str | None:
    """The Python that has the package; None where it can't be installed."""
    python = installed(FOLDER, PACKAGE)
    return None if python is None else str(python)


def interpreter_that_is_there() -> str | None:
    """The same, without asking for anything from elsewhere; None: it was not installed yet."""
    home = FOLDER / PACKAGE.replace(" ", "-")
    return str(home / "bin" / "python") if (home / "ready").exists() else None
