"""Processes of an older version become today's one after the other, under load; an older client works with
today's processes.

The older ones are built of this repository's history. Today's know one feature level more than they do: one
that is there for this test alone (`tests.support.processes.next_version`).
"""

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tank_cli.cluster.controller_calls import Controllers
from tank_client import CommittedPosition
from tank_client.sync import Client
from tank_protos.feature_levels import FIRST
from tests.chaos.checker import violations
from tests.chaos.copies import differing
from tests.chaos.load import TOPICS, places
from tests.chaos.load_process import LoadProcess
from tests.chaos.members import BROKER, CONTROLLER, Member, Members, stop_together, tied_to_us, until
from tests.chaos.network import Loopback
from tests.chaos.record import Fate, read, values_of
from tests.chaos.run import BROKERS, CONTROLLERS, NOTE_BYTES, SETTINGS, is_whole, read_all
from tests.support.patience import patient
from tests.support.processes import older_version
from tests.support.processes.next_level import NEXT
from tests.support.processes.readiness import samples_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

RATE = 50.0
PATIENCE_S = patient(90.0)
RAISED_S = 10.0
"""The leader looks once a second."""
NOT_RAISED_S = 2.5
REFUSED_S = 30.0
LEVEL = "tank_controller_feature_level"
SNAPSHOT = "tank_controller_snapshot_index"
REFUSED_BROKER = (
    f"the cluster works at feature level {NEXT}, and this version knows up to level {FIRST}: "
    "start a version at least as new as the others'"
)
REFUSED_CONTROLLER = f"raises the feature level to {FIRST + 1}, and this version knows up to level {FIRST}: "


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

    def go_back_and_forth(self) -> None:
        """Half way there is a way back, on what today's version left behind."""
        first, second, last = self.members.brokers
        self.replace(first, older=True)
        follower = next(c for c in self.members.controllers if c is not self.members.leader())
        self.replace(follower, older=True)
        self.must_wait_for(first, last, follower)
        self.replace(follower)
        self.replace(first)
        # Whole replicas are copied from one version to the other.
        self.refill(second, older=True)
        self.refill(second)

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
        """The level in force, by the word of all controllers."""
        return {int(samples_of(m.http)[LEVEL]) for m in self.members.controllers}

    def must_wait_for(self, *members: Member) -> None:
        """The first level is in force, and the leader lacks the word of these for the next. One of the older
        version knows of no next."""
        names = {member.name for member in members}

        def does() -> bool:
            return self._waits_for() == names or self.is_older(self.members.leader())

        until(does, f"the leader waits for others than {', '.join(names)}", PATIENCE_S)
        assert self.levels() == {FIRST}

    def _waits_for(self) -> set[str]:
        found = self.controllers.overview()
        brokers = {f"{BROKER} {number}" for number in found.brokers_behind}
        return brokers | {f"{CONTROLLER} {number}" for number in found.controllers_behind}

    def must_be_refused(self, member: Member, sentence: str) -> None:
        """The older version ends with a sentence in its log, and changes nothing: today's goes on there."""
        member.stop()
        self.choose(member, older=True)
        said_before = member.log.stat().st_size
        member.start()
        until(lambda: not member.runs, f"{member.name} of an older version goes on", REFUSED_S)
        assert member.process is not None
        assert member.process.returncode
        member.process = None
        said = member.log.read_bytes()[said_before:].decode()
        assert sentence in said, said
        assert "Traceback" not in said, said
        self.start(member)


def knowing_the_next_level(command: list[str]) -> list[str]:
    """The command line that starts the same module as one of a version that knows the next level."""
    at = command.index("-P")
    assert command[at + 1] == "-m"
    return [*command[:at], "-m", "tests.support.processes.next_version", *command[at + 2 :]]


@contextlib.contextmanager
def planned(folder: Path) -> Iterator[Members]:
    """A cluster that doesn't run yet, and of which nothing is left behind."""
    members = Members(folder, Loopback())
    members.plan(CONTROLLERS, BROKERS, fillable=False, secret=False)
    try:
        yield members
    finally:
        members.close(keep=False)


@contextlib.contextmanager
def loaded(python: list[str], members: Members) -> Iterator[LoadProcess]:
    """Clients of every kind, at work: a process that begins with `python`."""
    load = LoadProcess(python, members.folder / "clients", members.servers, RATE, 1, old_clients=False)
    try:
        load.await_all_get_on(PATIENCE_S)
        yield load
    finally:
        load.close()


def create_topics(client: Client) -> None:
    for topic, partitions in TOPICS.items():
        client.admin.create_topic(topic, partitions, BROKERS, SETTINGS[topic])


def make_snapshots(client: Client, controllers: list[Member]) -> None:
    """Positions of a group are kept with the longest notes, until all controllers begin with a state of now:
    one of another version that takes their place reads it."""
    notes = dict.fromkeys(places(TOPICS), CommittedPosition(0, "x" * NOTE_BYTES))
    before = [samples_of(controller.http)[SNAPSHOT] for controller in controllers]

    def made() -> bool:
        client.admin.commit_positions("of no topic's", notes)
        now = [samples_of(controller.http)[SNAPSHOT] for controller in controllers]
        return all(index > earlier for index, earlier in zip(now, before, strict=True))

    until(made, "no snapshot is made", PATIENCE_S)


def check(load: LoadProcess, client: Client, members: Members) -> None:
    """Ends the load, and holds all that its clients did and saw against the log and the replicas."""
    load.end()
    assert not load.progress.broken
    history = read(load.folder.glob("*.jsonl"))
    assert violations(history, read_all(client)) == []
    assert {sent.place[0] for _, sent in values_of(history, Fate.STORED)} == set(TOPICS)
    assert set(history.positions) == {f"{topic}-keeper" for topic in TOPICS}
    stop_together(members.brokers)
    assert list(differing({member.name: member.data for member in members.brokers})) == []
    assert [f"{m.name}: {line}" for m in members.all for line in m.bugs()] == []


@pytest.mark.parametrize(
    "and_back", [False, pytest.param(True, marks=pytest.mark.long)], ids=["forth", "forth and back"]
)
def test_a_cluster_rolls_from_an_older_version_to_todays_under_load(tmp_path: Path, and_back: bool) -> None:
    older = older_version.environment(older_version.unpacked(tmp_path / "older"))
    with contextlib.ExitStack() as closing:
        members = closing.enter_context(planned(tmp_path / "cluster"))
        todays = {member.name: knowing_the_next_level(member.command) for member in members.all}
        olders = {member.name: [*older, *member.command] for member in members.all}
        for member in members.all:
            member.command = olders[member.name]
        members.start_all()
        client = closing.enter_context(Client(members.servers))
        create_topics(client)
        addresses = [member.address for member in members.controllers]
        controllers = closing.enter_context(Controllers(addresses, ""))
        load = closing.enter_context(loaded([*tied_to_us(), sys.executable], members))
        rolling = Rolling(members, controllers, load, todays, olders)
        assert rolling.levels() == {FIRST}

        for controller in members.controllers:
            rolling.replace(controller)
        first, second, last = members.brokers
        rolling.must_wait_for(first, second, last)
        rolling.replace(first)
        rolling.replace(second)
        rolling.must_wait_for(last)
        make_snapshots(client, members.controllers)
        if and_back:
            rolling.go_back_and_forth()
        last.kill()
        time.sleep(NOT_RAISED_S)
        rolling.must_wait_for(last)

        rolling.start(last)
        until(lambda: rolling.levels() == {NEXT}, "the next level is not in force", RAISED_S)
        rolling.must_be_refused(first, REFUSED_BROKER)
        rolling.must_be_refused(members.controllers[0], REFUSED_CONTROLLER)
        assert rolling.levels() == {NEXT}
        check(load, client, members)


def test_an_older_client_works_with_todays_processes(tmp_path: Path) -> None:
    sources = older_version.unpacked(tmp_path / "older")
    with planned(tmp_path / "cluster") as members:
        members.start_all()
        with Client(members.servers) as client:
            create_topics(client)
            python = [
                *older_version.environment(sources, older_version.ROOT),
                *tied_to_us(),
                sys.executable,
                "-P",
            ]
            with loaded(python, members) as load:
                # Its connections break, and leaders move.
                members.brokers[0].stop()
                members.brokers[0].start()
                members.brokers[0].await_ready()
                load.await_all_get_on(PATIENCE_S)
                check(load, client, members)
