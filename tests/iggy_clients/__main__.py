"""`make iggy`: stock clients of Iggy's protocol against a broker of ours.

Each package is installed into an environment of its own, and walks through everything that it can do against
a fresh broker, or by way of one broker of a fresh cluster; each step is printed as OK or FAIL. `--into FILE`
puts what was run into the table of that page. Exit code 1 when a step failed.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.iggy_clients.table import Walked, with_table
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.cluster import LocalCluster, swept
from tests.support.processes.ports import free_port

PACKAGES: Final = (
    "apache-iggy 0.9.0",
    "apache-iggy 0.8.0",
    "apache-iggy 0.7.0",
    "apache-iggy 0.6.0",
    "apache-iggy 0.5.0",
    "iggy-py 0.4.0",
)
HERE: Final = Path(__file__).parent
WALK_S: Final = patient(300.0)
"""The longest that a walk may take."""


def installed(folder: Path, package: str) -> Path | None:
    """Installs a package; returns the interpreter that has it, or None where it can't be had."""
    home = folder / package.replace(" ", "-")
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        wanted = package.replace(" ", "==")
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted]
        if subprocess.run(command, check=False).returncode:
            return None
        (home / "ready").touch()
    return python


@contextlib.contextmanager
def _served(folder: Path, brokers: int) -> Iterator[str]:
    """The address of a broker that serves Iggy's clients; of three brokers it is the last one."""
    if brokers == 1:
        address = f"127.0.0.1:{free_port()}"
        with BrokerProcess(folder, "--iggy", address):
            yield address
        return
    cluster = LocalCluster(folder, brokers=brokers)
    cluster.size.append("--iggy")
    with swept(cluster):
        cluster.up()
        yield str(cluster.processes("broker")[-1].addresses["iggy"])


def walked(python: Path, folder: Path, brokers: int) -> dict[str, str]:
    """Runs a walk against fresh brokers; returns what was wrong at each step."""
    steps: dict[str, str] = {}
    with _served(folder, brokers) as address:
        command = [str(python), str(HERE / "programs" / "walk.py"), address]
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        try:
            done = subprocess.run(
                command, env=clean, stdout=subprocess.PIPE, text=True, timeout=WALK_S, check=False
            )
            output, ended = done.stdout, done.returncode
        except subprocess.TimeoutExpired as late:
            output, ended = (late.stdout or b"").decode(), -1
    for line in output.splitlines():
        step, wrong = json.loads(line)
        steps[step] = wrong
    if ended:
        steps["ends in order"] = f"exit code {ended}"
    return steps


def _chosen() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.iggy_clients", description=__doc__)
    parser.add_argument("--package", action="append", default=[], help="this one alone; may be repeated")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="how many (default: 1)")
    parser.add_argument("--folder", type=Path, default=None, help="where the packages are installed")
    parser.add_argument("--into", type=Path, metavar="FILE", help="put what was run into the page's table")
    chosen = parser.parse_args()
    if unknown := [each for each in chosen.package if each not in PACKAGES]:
        parser.error(f"no package is called {unknown[0]!r}; there are {', '.join(PACKAGES)}")
    return chosen


def main() -> int:
    """See the module."""
    chosen = _chosen()
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="tank-iggy-") as made:
        folder = chosen.folder or Path(made)
        for package in chosen.package or PACKAGES:
            python = installed(folder, package)
            if python is None:
                print(f"left out: {package}, which can't be installed", flush=True)
                continue
            print(f"{package}:", flush=True)
            found[package] = walked(python, Path(made) / f"data-{len(found)}", chosen.brokers)
            for step, wrong in found[package].items():
                print(f"  {'FAIL' if wrong else 'OK  '} {step}{': ' if wrong else ''}{wrong}", flush=True)
    results: Walked = found
    if chosen.into:
        chosen.into.write_text(with_table(chosen.into.read_text(), results))
    failed = sum(bool(wrong) for steps in found.values() for wrong in steps.values())
    steps = sum(len(each) for each in found.values())
    print(f"{len(found)} packages, {steps} steps, {failed} failed", flush=True)
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
