"""The name service goes away, and with it the broker that leads and the controllers' leader: writes go on.

Every process sees a file of hosts of its own, and no server of names: to take the names away is to empty it.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.patience import patient
from tests.support.ports import free_port
from tests.support.readiness import facts_of
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

MEMBERS = (1, 2, 3)
SEES = 'mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/resolv.conf && shift 2 && exec "$@"'
NO_SERVER = "nameserver 127.0.0.99\noptions timeout:1 attempts:1\n"
"""Nothing listens there: the answer is that there is none, and not that there is no such name."""
WRITER = """
import sys, time
from tank_client.sync import Client
with Client(sys.argv[1].split(",")) as client, client.producer() as producer:
    number = 0
    while True:
        number += 1
        producer.send("t", b"%d" % number).result()
        print(number, flush=True)
        time.sleep(0.02)
"""


def is_ready(http: str) -> bool:
    return bool(facts_of(http).get("ready"))


class Named:
    """A cluster of processes that know each other by names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts, self.servers = folder / "hosts", folder / "resolv.conf"
        names = [f"{role}{number}" for role in "cb" for number in MEMBERS]
        self.hosts.write_text("".join(f"127.0.0.1 {name}.tank.test\n" for name in names))
        self.servers.write_text(NO_SERVER)
        self.ports = {name: free_port() for name in names}
        self.http = {name: f"127.0.0.1:{free_port()}" for name in names}
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.controllers = ",".join(self.at(f"c{number}") for number in MEMBERS)
        self.brokers = ",".join(self.at(f"b{number}") for number in MEMBERS)

    def at(self, name: str) -> str:
        return f"{name}.tank.test:{self.ports[name]}"

    def start(self) -> None:
        cluster = ",".join(f"{number}={self.at(f'c{number}')}" for number in MEMBERS)
        for number in MEMBERS:
            name = f"c{number}"
            listen = f"127.0.0.1:{self.ports[name]}"
            options = ["--id", str(number), "--cluster", cluster, "--listen", listen]
            self._run(name, "tank_controller", *options)
        for number in MEMBERS:
            name = f"b{number}"
            options = ["--broker-id", str(number), "--controllers", self.controllers]
            options += ["--listen", f"127.0.0.1:{self.ports[name]}", "--advertise", self.at(name)]
            self._run(name, "tank_node", *options)
        for name, http in self.http.items():
            until(partial(is_ready, http), f"{name} is not ready", 60)

    def _run(self, name: str, module: str, *options: str) -> None:
        data = ["--data", str(self.folder / name), "--http", self.http[name]]
        self.spawn(name, "-m", module, *options, *data)

    def spawn(self, name: str, *words: str) -> subprocess.Popen[str]:
        """A process that sees these names."""
        seeing = ["unshare", "--mount", "sh", "-c", SEES, "sh", str(self.hosts), str(self.servers)]
        with open(self.folder / f"{name}.log", "w") as log:
            self.processes[name] = subprocess.Popen(
                [*seeing, sys.executable, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if name == "writer" else log,
                stderr=log,
                text=True,
            )
        return self.processes[name]

    def tank(self, *words: str) -> str:
        asked = ["-m", "tank_cli", "--servers", self.brokers, *words]
        seeing = ["unshare", "--mount", "sh", "-c", SEES, "sh", str(self.hosts), str(self.servers)]
        done = subprocess.run(
            [*seeing, sys.executable, *asked],
            capture_output=True,
            text=True,
            timeout=patient(60),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@contextlib.contextmanager
def named_cluster(folder: Path) -> Iterator[Named]:
    may = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    if may.returncode:
        pytest.skip("NOT TESTED WITHOUT A NAME SERVICE: no mount namespace may be made here")
    cluster = Named(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.end()


def test_writes_go_on_while_names_have_no_answer_and_both_leaders_are_gone(tmp_path: Path) -> None:
    with named_cluster(tmp_path) as cluster:
        cluster.tank("topic", "create", "t", "--replication-factor", "3", "--set", "min.insync.replicas=2")
        writer = cluster.spawn("writer", "-c", WRITER, cluster.brokers)
        assert writer.stdout is not None
        for _ in range(50):
            assert writer.stdout.readline(), (tmp_path / "writer.log").read_text()
        described = json.loads(cluster.tank("topic", "describe", "t", "--output", "json"))
        leader = described["partitions"][0]["leader"]
        leads = next(f"c{n}" for n in MEMBERS if facts_of(cluster.http[f"c{n}"]).get("leads"))
        cluster.hosts.write_text("")
        for name in (leads, f"b{leader}"):
            cluster.processes[name].kill()
        for _ in range(200):
            assert writer.stdout.readline(), (tmp_path / "writer.log").read_text()
        said = "".join((tmp_path / f"b{n}.log").read_text() for n in MEMBERS if n != leader)
        assert "the name service does not answer for c" in said
