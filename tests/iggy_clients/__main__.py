"""`make iggy`: stock clients of Iggy's protocol against a broker of ours.

Each client is installed into a folder of its own, and walks through everything that it can do against a
fresh broker, or by way of one broker of a fresh cluster; each step is printed as OK or FAIL. Those that can't
be installed here are left out, and the run says why. `--into FILE` puts what was run into the tables of that
page. Exit code 1 when a step failed.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.iggy_clients.clients import CLIENTS, NOT_HAD
from tests.iggy_clients.stock_client import StockClient
from tests.iggy_clients.table import Walked, tables, with_tables
from tests.kafka_clients.libraries import ROOT, NotInstalledError
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.cluster import LocalCluster, swept
from tests.support.processes.ports import free_port

FOLDER: Final = ROOT / "out" / "iggy_clients"
WALK_S: Final = patient(300.0)
"""The longest that a walk may take."""


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


def walked(client: StockClient, folder: Path, data: Path, brokers: int) -> Walked:
    """Runs a client's walk against fresh brokers."""
    steps: dict[str, str] = {}
    with _served(data, brokers) as address:
        host, port = address.rsplit(":", 1)
        command = client.command(folder, host, int(port))
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
    return Walked(client.name, client.kind, steps, client.cannot)


def _chosen() -> argparse.Namespace:
    names = [client.name for client in CLIENTS]
    parser = argparse.ArgumentParser(prog="python -m tests.iggy_clients", description=__doc__)
    parser.add_argument("--client", action="append", default=[], help="this one alone; may be repeated")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="how many (default: 1)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"where they are installed ({FOLDER})")
    parser.add_argument("--into", type=Path, metavar="FILE", help="put what was run into the page's tables")
    chosen = parser.parse_args()
    if unknown := [each for each in chosen.client if each not in names]:
        parser.error(f"no client is called {unknown[0]!r}; there are {', '.join(names)}")
    return chosen


def main() -> int:
    """See the module."""
    chosen = _chosen()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    found: list[Walked] = []
    left_out: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="tank-iggy-") as made:
        for client in CLIENTS:
            if chosen.client and client.name not in chosen.client:
                continue
            folder = client.folder(chosen.folder)
            try:
                client.install(folder)
            except NotInstalledError as error:
                left_out[client.name] = str(error)
                print(f"left out: {client.name}: {error}", flush=True)
                continue
            print(f"{client.name}:", flush=True)
            found.append(walked(client, folder, Path(made) / f"data-{len(found)}", chosen.brokers))
            failures = found[-1].failures()
            for step, wrong in found[-1].steps.items():
                told = f"FAIL {step}: {failures[step]}" if step in failures else f"OK   {step}"
                print(f"  {told}{' (it can not)' if wrong and step not in failures else ''}", flush=True)
    left_out |= NOT_HAD
    for name, reason in NOT_HAD.items():
        print(f"left out: {name}: {reason}", flush=True)
    if chosen.into:
        shown = tables(found, left_out, chosen.brokers)
        chosen.into.write_text(with_tables(chosen.into.read_text(), shown))
    failed = sum(len(each.failures()) for each in found)
    steps = sum(len(each.steps) for each in found)
    print(f"{len(found)} clients, {steps} steps, {failed} failed", flush=True)
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
