"""Members of one group at real brokers: they share a topic's partitions, come, end, die and come back."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Protocol, Self

import pytest

from tank_client import ConsumerGroupState, errors
from tank_client.sync import Client
from tests.support.groups.coordinator import coordinator_of
from tests.support.patience import patient
from tests.support.processes.broker_process import running_broker
from tests.support.processes.cluster import running_cluster
from tests.support.waiting import until

pytestmark = pytest.mark.integration

PARTITIONS = 6
ALL = list(range(PARTITIONS))
QUICK = ("--group-consumer-session-ms", "3000", "--group-consumer-heartbeat-ms", "200")


class Reader(Protocol):
    """Any member, by what it has read: partition and number of each message, as they came."""

    read: list[tuple[int, int]]


@dataclass
class Read:
    """The reader that another library's member is."""

    read: list[tuple[int, int]]


class Worker:
    """A member in a process of its own (`tests.support.clients.sharing_worker`)."""

    def __init__(self, servers: str, group: str, instance: str = "") -> None:
        self.partitions: set[int] = set()
        self.changes: list[tuple[str, list[int]]] = []
        self.read: list[tuple[int, int]] = []
        """Partition and number of each message, as they came."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.clients.sharing_worker", servers, "t", group, instance],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, *rest = json.loads(line)
            if what == "read":
                self.read += [(rest[0], number) for number in rest[1]]
                continue
            self.changes.append((what, sorted(rest[0])))
            self.partitions = (
                self.partitions | set(rest[0]) if what == "assigned" else (self.partitions - set(rest[0]))
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """Its input ends: it leaves the group."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._end()
        assert self._process.returncode == 0

    def _end(self) -> None:
        self._process.wait(patient(60))
        self._thread.join(patient(10))


class Scene:
    """A topic, and what was written to it."""

    def __init__(self, client: Client, servers: str, stack: ExitStack) -> None:
        self.client = client
        self._servers = servers
        self._stack = stack
        self._producer = client.producer()
        self.stored: list[tuple[int, int]] = []

    def worker(self, group: str = "g", instance: str = "") -> Worker:
        return self._stack.enter_context(Worker(self._servers, group, instance))

    def write(self, count: int) -> None:
        """So many messages to each partition."""
        for partition in ALL:
            for _ in range(count):
                stored = self._producer.send("t", b"x", partition=partition).result(patient(60))
                self.stored.append((partition, stored.first))

    def shared(self, *workers: Worker) -> None:
        """Waits until these have all partitions among them, evenly."""

        def is_so() -> bool:
            sizes = [len(each.partitions) for each in workers]
            found = sorted(number for each in workers for number in each.partitions)
            return found == ALL and max(sizes) - min(sizes) <= 1

        until(is_so, "the partitions are not shared", 90)

    def reads(self, *readers: Reader) -> None:
        """Waits until these have read everything among them."""
        until(
            lambda: {place for each in readers for place in each.read} >= set(self.stored),
            "messages are missing",
            90,
        )


@contextmanager
def scene(servers: str) -> Iterator[Scene]:
    with Client(servers) as client, ExitStack() as stack:
        client.admin.create_topic("t", PARTITIONS)
        yield Scene(client, servers, stack)


def test_members_share_come_leave_and_die(tmp_path: Path) -> None:
    with running_broker(tmp_path, *QUICK) as broker, scene(broker.address) as here:
        here.write(5)
        first = here.worker()
        here.shared(first)
        here.reads(first)
        second = here.worker()
        here.shared(first, second)
        kept = set(first.partitions)
        third = here.worker()
        here.shared(first, second, third)
        assert first.partitions <= kept, "who stays keeps what it has"
        here.write(5)
        here.reads(first, second, third)
        together = [place for each in (first, second, third) for place in each.read]
        assert sorted(together) == sorted(here.stored), "each message once"
        [described] = here.client.admin.describe_groups(["g"])
        assert described.state is ConsumerGroupState.STABLE
        assert sorted(route for member in described.members for route in member.assignment) == [
            ("t", number) for number in ALL
        ]
        with pytest.raises(errors.TankError):
            here.client.admin.reset_positions("g", [("t", 0)], to="first")
        with pytest.raises(errors.GroupNotEmpty):
            here.client.admin.delete_groups(["g"])
        third.stop()
        here.shared(first, second)
        second.kill()
        here.shared(first)
        here.write(5)
        here.reads(first, second, third)
        first.stop()
        assert first.changes[-1] == ("revoked", ALL)
        positions = here.client.admin.fetch_positions("g", ["t"])
        assert {route: kept.number for route, kept in positions.items()} == {
            ("t", number): 16 for number in ALL
        }
        here.client.admin.reset_positions("g", [("t", 0)], to="first")
        assert here.client.admin.fetch_positions("g", ["t"])["t", 0].number == 1
        here.client.admin.delete_groups(["g"])
        assert here.client.admin.fetch_positions("g", ["t"]) == {}


def test_a_static_member_that_starts_again_moves_nothing(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, "--group-consumer-heartbeat-ms", "200") as broker,
        scene(broker.address) as here,
    ):
        static, other = here.worker(instance="one"), here.worker(instance="two")
        here.shared(static, other)
        before, changes = set(static.partitions), list(other.changes)
        static.stop()
        again = here.worker(instance="one")
        here.shared(again, other)
        assert again.partitions == before
        assert other.changes == changes, "the other one notices nothing"
        here.write(2)
        here.reads(again, other)


def test_members_go_on_when_the_coordinator_is_killed(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        servers = ",".join(str(each.addresses["tank"]) for each in cluster.processes("broker"))
        with scene(servers) as here:
            workers = [here.worker(), here.worker()]
            here.shared(*workers)
            here.write(2)
            here.reads(*workers)
            changes: list[Any] = [list(each.changes) for each in workers]
            number = coordinator_of("g", cluster)
            (coordinator,) = [each for each in cluster.processes("broker") if each.number == number]
            coordinator.kill()
            here.write(2)
            here.reads(*workers)
            assert [each.changes for each in workers] == changes, "nothing moves"


def test_two_libraries_share_one_group(tmp_path: Path) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    with running_broker(tmp_path, *QUICK) as broker, scene(broker.address) as here:
        here.write(3)
        ours = here.worker()
        here.shared(ours)
        here.reads(ours)
        theirs = confluent.Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{broker.kafka_port}",
                "group.id": "g",
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        theirs.subscribe(["t"])
        found: list[tuple[int, int]] = []

        def poll() -> None:
            message = theirs.poll(0.05)
            if message is not None and not message.error():
                found.append((message.partition(), message.offset() + 1))
                theirs.commit(message, asynchronous=False)

        def together() -> list[int]:
            poll()
            return sorted([*ours.partitions, *(each.partition for each in theirs.assignment())])

        until(lambda: together() == ALL and len(ours.partitions) == 3, "they don't share", 90)
        assert found == [], "ours has committed what it read"
        here.write(3)

        def is_read() -> bool:
            poll()
            return {*found, *ours.read} == set(here.stored)

        until(is_read, "messages are missing", 90)
        assert len(found) + len(ours.read) == len(here.stored), "each message once"
        theirs.close()
        here.shared(ours)
        here.write(1)
        here.reads(ours, Read(found))
