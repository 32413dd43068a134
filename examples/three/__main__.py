"""`make three`: one topic, three protocols at once. A cluster starts, and three stock clients write into one
topic at the same time, each by its own protocol, while each reads what all three write.

    python -m examples.three --messages 200

Everything runs on this machine, in processes of its own that end with it. Exits with 1 when a client misses a
message, or reads in another order than the others.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from examples.cluster import Cluster, ClusterError
from tank_client.sync import Client

HERE = Path(__file__).parent
TOPIC = "shop.orders"
PATIENCE_S = 120.0
READY_S = 30.0
LOOK_S = 0.2

Message = tuple[int, str, str]
"""Offset, who wrote it, its value."""


class ThreeError(Exception):
    """The example failed; the message says at which point."""


@dataclass(frozen=True, slots=True)
class Stock:
    """A client that is not written for this example."""

    name: str
    """The protocol's, and what its program calls itself in the header of what it writes."""
    package: str
    """As pip is told."""
    module: str
    python: str
    """The interpreter that has the package."""
    server: str = ""
    """What it is given to connect to."""

    @property
    def is_there(self) -> bool:
        """Whether the interpreter has the package."""
        command = [self.python, "-c", f"import {self.module}"]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False

    def start(self, does: str, count: int) -> subprocess.Popen[str]:
        """The client's program, which writes or reads."""
        command = [self.python, str(HERE / f"with_{self.name}.py"), does, self.server, TOPIC, str(count)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="One topic, three protocols at once.")
    parser.add_argument("--messages", type=int, default=200, help="how many each client writes (200)")
    parser.add_argument(
        "--iggy-python", default=sys.executable, metavar="FILE", help="an interpreter that has apache-iggy"
    )
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    clients = [
        Stock("tank", "tank-cluster", "tank_client", sys.executable),
        Stock("kafka", "confluent-kafka>=2.8,<3", "confluent_kafka", sys.executable),
        Stock("iggy", "apache-iggy>=0.9,<0.10", "apache_iggy", given.iggy_python),
    ]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without taking the cluster along
    missing = [client for client in clients if not client.is_there]
    for client in missing:
        console.print(
            f"{client.python} has no {client.module}: {client.python} -m pip install '{client.package}'\n"
            "(`make three` installs all that is needed into .venv)",
            soft_wrap=True,
        )
    if missing:
        return 1
    try:
        run(console, clients, given.messages)
    except (ThreeError, ClusterError) as error:
        console.print(f"[red]failed:[/red] {error}", soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    return 0


def run(console: Console, clients: list[Stock], messages: int) -> None:
    """The whole example. Raises ThreeError."""
    tank, kafka, iggy = clients
    console.print("starting 3 controllers and 3 brokers, each with three ports for clients ...")
    with (
        tempfile.TemporaryDirectory(prefix="tank-three-") as folder,
        Cluster(Path(folder), iggy=True) as cluster,
    ):
        # An Iggy client knows one server: here the last broker. Any broker serves everything.
        iggy_server = cluster.iggy.split(",")[-1]
        served = [
            replace(tank, server=cluster.servers),
            replace(kafka, server=cluster.kafka),
            replace(iggy, server=iggy_server),
        ]
        for client in served:
            console.print(f"  {client.name:6} {client.server}")
        create(served[-1], cluster.servers)
        console.print(f"Iggy's client made topic 'orders' of stream 'shop'; the others call it {TOPIC!r}")
        found = exchanged(served, messages)
    report(console, found, messages)


def create(iggy: Stock, servers: str) -> None:
    """Stream and topic, by Iggy's client, and until all brokers know them. Raises ThreeError."""
    _ended(iggy.name, "creating", iggy.start("create", 1))
    deadline = time.monotonic() + READY_S
    for server in servers.split(","):
        with Client(server) as client:
            while TOPIC not in client.admin.partition_counts():
                if time.monotonic() > deadline:
                    raise ThreeError(f"the broker at {server} does not know topic {TOPIC!r}")
                time.sleep(LOOK_S)


def exchanged(clients: list[Stock], messages: int) -> dict[str, list[Message]]:
    """All clients write at the same time, and read what all write. Returns what each has read. Raises
    ThreeError."""
    with ExitStack() as processes:
        readers = {client.name: client.start("read", messages * len(clients)) for client in clients}
        writers = {client.name: client.start("write", messages) for client in clients}
        for process in (*readers.values(), *writers.values()):
            processes.callback(process.kill)
        for name, writer in writers.items():
            _ended(name, "writing", writer)
        return {
            name: [
                (offset, writer, value)
                for offset, writer, value in map(json.loads, _ended(name, "reading", reader).splitlines())
            ]
            for name, reader in readers.items()
        }


def _ended(name: str, does: str, process: subprocess.Popen[str]) -> str:
    """What a program printed. Raises ThreeError when it failed."""
    try:
        output, errors = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise ThreeError(f"{name}, {does}: no end after {PATIENCE_S:g} s") from None
    if process.returncode:
        raise ThreeError(f"{name}, {does}: {errors.strip()[-2000:]}")
    return output


def report(console: Console, found: dict[str, list[Message]], messages: int) -> None:
    """Prints who has read what. Raises ThreeError where something is missing."""
    names = list(found)
    table = Table("", *(f"written by {name}" for name in names))
    for reader, read in found.items():
        counts = Counter(writer for _, writer, _ in read)
        table.add_row(f"read by {reader}", *(f"{counts[writer]:,}" for writer in names))
    for column in table.columns[1:]:
        column.justify = "right"
    console.print(table)
    wanted = {(writer, f"order {number}") for writer in names for number in range(messages)}
    first = found[names[0]]
    turns = sum(one[1] != other[1] for one, other in pairwise(first))
    for reader, read in found.items():
        if len(read) != len(wanted) or {(writer, value) for _, writer, value in read} != wanted:
            raise ThreeError(f"{reader} has not read every message once")
        if read != first:
            raise ThreeError(f"{reader} has read in another order than {names[0]}")
    console.print(
        f"{len(wanted):,} messages, which each client has read once, in one order, with their headers; "
        f"the writer changes {turns:,} times in it",
        soft_wrap=True,
    )


if __name__ == "__main__":
    sys.exit(main())
