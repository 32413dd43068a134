"""Processes of an older version become today's one after the other, under load; an older client works with
today's processes.

The older ones are built of this repository's history. Today's know one feature level more than they do: one
that is there for this test alone (`tests.support.processes.next_version`).
"""

import contextlib
import sys
import time
from pathlib import Path

import pytest

from tank_cli.cluster.controller_calls import Controllers
from tank_client import CommittedPosition
from tank_client.sync import Client
from tests.chaos.load import TOPICS, places
from tests.chaos.members import BROKER, CONTROLLER, Member, tied_to_us, until
from tests.integration.cluster.rolling import (
    PATIENCE_S,
    Rolling,
    check,
    create_topics,
    levels,
    loaded,
    planned,
)
from tests.support.processes import older_version
from tests.support.processes.next_level import NEXT
from tests.support.processes.older_version import HIGHEST
from tests.support.processes.readiness import samples_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

RAISED_S = 10.0
"""The leader looks once a second."""
NOT_RAISED_S = 2.5
REFUSED_S = 30.0
NOTE_BYTES = 4_096
SNAPSHOT = "tank_controller_snapshot_index"
REFUSED_BROKER = (
    f"the cluster works at feature level {NEXT}, and this version knows up to level {HIGHEST}: "
    "start a version at least as new as the others'"
)
REFUSED_CONTROLLER = (
    f"raises the feature level to {HIGHEST + 1}, and this version knows up to level {HIGHEST}: "
)


def knowing_the_next_level(command: list[str]) -> list[str]:
    """The command line that starts the same module as one of a version that knows the next level."""
    at = command.index("-P")
    assert command[at + 1] == "-m"
    return [*command[:at], "-m", "tests.support.processes.next_version", *command[at + 2 :]]


def go_back_and_forth(rolling: Rolling) -> None:
    """Half way there is a way back, on what today's version left behind."""
    first, second, last = rolling.members.brokers
    rolling.replace(first, older=True)
    follower = next(c for c in rolling.members.controllers if c is not rolling.members.leader())
    rolling.replace(follower, older=True)
    must_wait_for(rolling, first, last, follower)
    rolling.replace(follower)
    rolling.replace(first)
    # Whole replicas are copied from one version to the other.
    rolling.refill(second, older=True)
    rolling.refill(second)


def must_wait_for(rolling: Rolling, *members: Member) -> None:
    """The older version's level is in force, and the leader lacks the word of these for the next. A leader of
    the older version knows of no next."""
    names = {member.name for member in members}

    def does() -> bool:
        return waits_for(rolling) == names or rolling.is_older(rolling.members.leader())

    until(does, f"the leader waits for others than {', '.join(names)}", PATIENCE_S)
    assert rolling.levels() == {HIGHEST}


def waits_for(rolling: Rolling) -> set[str]:
    """The names of those whose word the leading controller lacks for the next level."""
    found = rolling.controllers.overview()
    brokers = {f"{BROKER} {number}" for number in found.brokers_behind}
    return brokers | {f"{CONTROLLER} {number}" for number in found.controllers_behind}


def must_be_refused(rolling: Rolling, member: Member, sentence: str) -> None:
    """The older version ends with a sentence in its log, and changes nothing: today's goes on there."""
    member.stop()
    rolling.choose(member, older=True)
    said_before = member.log.stat().st_size
    member.start()
    until(lambda: not member.runs, f"{member.name} of an older version goes on", REFUSED_S)
    assert member.process is not None
    assert member.process.returncode
    member.process = None
    said = member.log.read_bytes()[said_before:].decode()
    assert sentence in said, said
    assert "Traceback" not in said, said
    rolling.start(member)


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
        until(lambda: levels(members) == {HIGHEST}, "the older version's level is not in force", PATIENCE_S)
        client = closing.enter_context(Client(members.servers))
        create_topics(client)
        addresses = [member.address for member in members.controllers]
        controllers = closing.enter_context(Controllers(addresses, ""))
        load = closing.enter_context(loaded([*tied_to_us(), sys.executable], members))
        rolling = Rolling(members, controllers, load, todays, olders)
        assert rolling.levels() == {HIGHEST}

        for controller in members.controllers:
            rolling.replace(controller)
        first, second, last = members.brokers
        must_wait_for(rolling, first, second, last)
        rolling.replace(first)
        rolling.replace(second)
        must_wait_for(rolling, last)
        make_snapshots(client, members.controllers)
        if and_back:
            go_back_and_forth(rolling)
        last.kill()
        time.sleep(NOT_RAISED_S)
        must_wait_for(rolling, last)

        rolling.start(last)
        until(lambda: rolling.levels() == {NEXT}, "the next level is not in force", RAISED_S)
        must_be_refused(rolling, first, REFUSED_BROKER)
        must_be_refused(rolling, members.controllers[0], REFUSED_CONTROLLER)
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
