"""A cluster of processes that are replaced by such of another version, one after the other, under load."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tank_cli.cluster.controller_calls import Controllers
from tank_client.sync import Client
from tests.chaos.checker import violations
from tests.chaos.copies import differing
from tests.chaos.load import TOPICS
from tests.chaos.load_process import LoadProcess
from tests.chaos.members import Member, Members, stop_together, until
from tests.chaos.network import Loopback
from tests.chaos.record import Fate, History, read, values_of
from tests.chaos.run import BROKERS, CONTROLLERS, SETTINGS, is_whole, read_all
from tests.support.patience import patient
from tests.support.processes.readiness import samples_of

RATE = 50.0
PATIENCE_S = patient(90.0)
LEVEL = "tank_controller_feature_level"


@dataclass
class Rolling:
    """A cluster whose processes are replaced by such of another version, and its clients."""

    members: Members
    controllers: Controllers
    load: LoadProcess
    todays: dict[str, list[str]]
    """By name: the command line that starts today's version."""
    olders: dict[str, list[str]]
    """Likewise of the older version."""

    def replace(self, member: Member, *, older: bool = False) -> None:
        """As docs/upgrades.md says: the next one has its turn when all are in sync, and clients get on."""
        member.stop()
        self.start(member, older=older)

    def start(self, member: Member, *, older: bool = False) -> None:
        """See `replace`."""
        self.choose(member, older=older)
        member.start()
        member.await_ready()
        self.go_on()

    def refill(self, member: Member, *, older: bool = False) -> None:
        """As `replace`, on an empty disk: others bring it all it had."""
        member.stop()
        member.empty_disk()
        self.start(member, older=older)

    def choose(self, member: Member, *, older: bool) -> None:
        """Which version it starts next."""
        member.command = (self.olders if older else self.todays)[member.name]

    def is_older(self, member: Member) -> bool:
        """Whether it is to run the older version."""
        return member.command == self.olders[member.name]

    def go_on(self) -> None:
        """Returns when all replicas are in sync, every client got on, and they are in sync still: writing
        needs no replica that refuses what it is sent."""
        until(lambda: is_whole(self.controllers), "not every replica is in sync", PATIENCE_S)
        self.load.await_all_get_on(PATIENCE_S)
        until(lambda: is_whole(self.controllers), "not every replica stays in sync", PATIENCE_S)
        assert not self.load.progress.broken
        assert not self.members.ended_by_themselves()

    def levels(self) -> set[int]:
        """See the function."""
        return levels(self.members)


def levels(members: Members) -> set[int]:
    """The level in force, by the word of all controllers."""
    return {int(samples_of(member.http)[LEVEL]) for member in members.controllers}


@contextlib.contextmanager
def planned(folder: Path, *, kafka: bool = False) -> Iterator[Members]:
    """A cluster that doesn't run yet, and of which nothing is left behind. `kafka`: its brokers serve Kafka's
    clients, too."""
    members = Members(folder, Loopback())
    members.plan(CONTROLLERS, BROKERS, fillable=False, secret=False, kafka=kafka)
    try:
        yield members
    finally:
        members.close(keep=False)


@contextlib.contextmanager
def loaded(python: list[str], members: Members) -> Iterator[LoadProcess]:
    """Clients of every kind, at work: a process that begins with `python`. Where the brokers serve Kafka's
    clients, those are there, and clients of each protocol use topics of both formats."""
    kafka = members.kafka_servers
    folder = members.folder / "clients"
    load = LoadProcess(
        python, folder, members.servers, RATE, 1, False, kafka, crossed=bool(kafka), groups=False
    )
    try:
        load.await_all_get_on(PATIENCE_S)
        yield load
    finally:
        load.close()


def create_topics(client: Client, topics: Mapping[str, int] = TOPICS) -> None:
    """Three replicas of each; `topics` has the partitions by name."""
    for topic, partitions in topics.items():
        client.admin.create_topic(topic, partitions, BROKERS, SETTINGS[topic])


def check(
    load: LoadProcess, client: Client, members: Members, topics: Iterable[str] = tuple(TOPICS)
) -> History:
    """Ends the load, and holds all that its clients did and saw against the log and the replicas. Returns
    what they did and saw."""
    load.end()
    assert not load.progress.broken
    history = read(load.folder.glob("*.jsonl"))
    assert violations(history, read_all(client, topics)) == []
    assert {sent.place[0] for _, sent in values_of(history, Fate.STORED)} == set(topics)
    # Kafka's clients have groups, too, where there are some.
    assert {f"{topic}-keeper" for topic in TOPICS} <= set(history.positions), sorted(history.positions)
    stop_together(members.brokers)
    assert list(differing({member.name: member.data for member in members.brokers})) == []
    assert [f"{m.name}: {line}" for m in members.all for line in m.bugs()] == []
    return history
