"""A story for namespaces of its own: the name service goes away, then a broker and the controllers' leader
do, and writes go on. `python -m tests.support.processes.cluster_of_names MOOD FOLDER`; it says what it
saw."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self
from unittest.mock import patch

from tank_cli.cluster import processes
from tank_cli.cluster.folder import BROKER, ClusterFolder, ClusterMember, make_secrets, planned
from tank_client import ClientSettings
from tank_client.sync import Client, Producer
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, swept
from tests.support.processes.name_service import ZONE, Mood, use
from tests.support.waiting import until

BASE_PORT = 11011
PARTITIONS = 6
SETTINGS = ClientSettings(request_timeout_ms=int(patient(60_000)))
_command_of = processes.command_of


def name_of(member: ClusterMember) -> str:
    """host:port under which the others know it."""
    return f"{member.name}.{ZONE}:{member.port}"


def command_with_names(folder: ClusterFolder, member: ClusterMember) -> list[str]:
    """As `tank cluster up` starts a process, but all are known by names."""
    command = _command_of(folder, member)
    flag = "--controllers" if member.role == BROKER else "--cluster"
    place = command.index(flag) + 1
    for controller in folder.controllers:
        command[place] = command[place].replace(controller.address, name_of(controller))
    return [*command, "--advertise", name_of(member)] if member.role == BROKER else command


def running(folder: Path) -> ClusterFolder:
    """Starts three controllers and three brokers."""
    made = planned(folder, 3, 3, BASE_PORT)
    folder.mkdir()
    made.store()
    make_secrets(made)
    with patch.object(processes, "command_of", command_with_names):
        for member in made.members:
            processes.start(made, member)
    processes.await_ready(made, lambda ready: None)
    return made


def write(client: Client, value: bytes) -> None:
    """One message to each partition, stored, by a producer of its own."""
    with client.producer() as producer:
        produce(producer, value)


def produce(producer: Producer, value: bytes) -> None:
    """One message to each partition, stored."""
    sent = [producer.send("t", value, partition=partition) for partition in range(PARTITIONS)]
    producer.flush()
    assert all(each.result() for each in sent)


class Writer:
    """Writes on and on in a thread, by one producer; within `with`, whose end raises what failed."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self.rounds = 0
        """Messages that are stored in each partition."""

    def __enter__(self) -> Self:
        self._writing = self._pool.submit(self._write)
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        self._pool.shutdown()
        self._writing.result()

    def _write(self) -> None:
        while not self._is_over.is_set():
            produce(self._producer, b"%d" % self.rounds)
            self.rounds += 1

    def goes_on(self) -> None:
        """Returns when messages are stored that were sent from now on."""
        enough = self.rounds + 20
        until(lambda: self.rounds >= enough or self._writing.done(), "it writes no more")


def say(what: str) -> None:
    print(what, flush=True)


def play(cluster: LocalCluster, folder: ClusterFolder, away: Callable[[], None]) -> None:
    """The story; raises when a write fails."""
    survivor, victim = folder.brokers[0], folder.brokers[1]
    with (
        # Named by an address: what it knows of names it has from brokers.
        Client([survivor.address], SETTINGS) as long_there,
        # Named by names: it has looked them up itself.
        Client([name_of(broker) for broker in folder.brokers], SETTINGS) as of_names,
        of_names.producer() as producer,
    ):
        settings = {"min.insync.replicas": "2"}
        long_there.admin.create_topic("t", PARTITIONS, replication_factor=3, settings=settings)
        named = {str(controller) for controller in long_there.admin.describe_cluster().controllers}
        assert named == {name_of(controller) for controller in folder.controllers}

        write(long_there, b"before")
        with Writer(producer) as writer:
            writer.goes_on()
            away()
            writer.goes_on()
            write(long_there, b"names are away")
            say("written while names are away")
            led = [each.leader for each in long_there.admin.describe_topics(["t"])[0].partitions]
            assert victim.number in led
            leader = cluster.leader()
            next(each for each in cluster.processes(BROKER) if each.number == victim.number).kill()
            leader.kill()
            writer.goes_on()
            write(long_there, b"so are a broker and the leader of the controllers")
            say("written without a broker and the controllers' leader")
        said = "".join(folder.log_of(each).read_text() for each in folder.brokers if each is not victim)
        assert "the name service does not answer for controller" in said
        say("said by the brokers that are left")
        with Client([survivor.address], SETTINGS) as new:
            write(new, b"by one that never had a name's address")
        say("written by a new client")
        with long_there.consumer(["t"], start="first", stop_at_end=True) as consumer:
            assert sum(len(batch.values) for batch in consumer) >= (4 + writer.rounds) * PARTITIONS
        say("all read")


def main() -> None:
    """Exit code 0: it went as it should."""
    mood, folder = Mood(sys.argv[1]), Path(sys.argv[2])
    names = use(folder)
    cluster = LocalCluster(folder / "c")
    with swept(cluster):
        made = running(folder / "c")
        until(lambda: bool(cluster.leader()), "no controller leads")

        def away() -> None:
            names.mood = mood

        play(cluster, made, away)
        assert names.mood is mood


if __name__ == "__main__":
    main()
