"""Where the newest Python client is, which chaos, end-to-end and failover runs have: in an environment of its
own, made when it is first asked for, and the same as for `make iggy`."""

from pathlib import Path
from typing import Final

from tests.kafka_clients.libraries import NotInstalledError, install_python_packages

PACKAGE: Final = "apache-iggy 0.9.0"
_HOME: Final = Path(__file__).resolve().parents[2] / "out" / "iggy_clients" / PACKAGE.replace(" ", "-")
_PYTHON: Final = _HOME / "bin" / "python"


def interpreter() -> str | None:
    """The Python that has the package; None where it can't be installed."""
    _HOME.parent.mkdir(parents=True, exist_ok=True)
    try:
        install_python_packages(_HOME, (PACKAGE.replace(" ", "=="),))
    except NotInstalledError:
        return None
    return str(_PYTHON)


def interpreter_that_is_there() -> str | None:
    """The same, without asking for anything from elsewhere; None: it was not installed yet."""
    return str(_PYTHON) if (_HOME / "installed").exists() else None
