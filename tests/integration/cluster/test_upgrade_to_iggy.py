"""A version that doesn't know Iggy's feature level becomes this one under clients of TANK and Kafka; then the
level comes into force, and Iggy's clients, who were waiting, work beside them: nothing acknowledged is lost.
"""

import contextlib
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tank_cli.cluster.controller_calls import Controllers
from tank_cli.cluster.report import level_text
from tank_client.sync import Client
from tank_node.users.limits import ROOT_WAIT_MS
from tank_protos.feature_levels import IGGY, NATIVE_GROUPS
from tank_protos.iggy.errors import IggyError
from tests.chaos.load import topics_of
from tests.chaos.members import tied_to_us, until
from tests.integration.cluster.iggy_writer import IggyWriter, missing
from tests.integration.cluster.rolling import (
    PATIENCE_S,
    Rolling,
    check,
    create_topics,
    levels,
    loaded,
    planned,
)
from tests.support.iggy.era_socket import EraSocket
from tests.support.iggy.iggy_line import IggyStatus
from tests.support.patience import patient
from tests.support.processes import older_version
from tests.support.processes.ports import free_port

pytest.importorskip("confluent_kafka")
pytest.importorskip("aiokafka")

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOPICS: Final = topics_of(kafka=True)
RAISED_S: Final = patient(10.0)
"""The leader looks once a second, and so do brokers."""
WAITS: Final = "Iggy's clients can't log in yet: they wait for feature level 5, and level 4 is in force"
COMES: Final = "feature level 5 is in force: Iggy's clients can log in"


def test_clients_of_all_three_protocols_work_when_the_last_old_process_is_gone(tmp_path: Path) -> None:
    sources = older_version.unpacked(tmp_path / "older", older_version.BEFORE_IGGY)
    older = older_version.environment(sources)
    with contextlib.ExitStack() as closing:
        members = closing.enter_context(planned(tmp_path / "cluster", kafka=True))
        olders = {member.name: [*older, *member.command] for member in members.all}
        ports = {broker.name: f"127.0.0.1:{free_port()}" for broker in members.brokers}
        todays = {member.name: member.command for member in members.all}
        for name, port in ports.items():
            todays[name] = [*todays[name], "--iggy", port]
        for member in members.all:
            member.command = olders[member.name]
        members.start_all()
        until(lambda: levels(members) == {NATIVE_GROUPS}, "the older level is not in force", PATIENCE_S)
        client = closing.enter_context(Client(members.servers))
        create_topics(client, TOPICS)
        addresses = [member.address for member in members.controllers]
        controllers = closing.enter_context(Controllers(addresses, ""))
        load = closing.enter_context(loaded([*tied_to_us(), sys.executable], members))
        rolling = Rolling(members, controllers, load, todays, olders)

        for broker in members.brokers:
            rolling.replace(broker)
        must_wait(ports[members.brokers[0].name])
        assert all(WAITS in broker.log.read_text() for broker in members.brokers)
        for controller in members.controllers[:-1]:
            rolling.replace(controller)
        assert rolling.levels() == {NATIVE_GROUPS}
        if not rolling.is_older(members.leader()):  # that one knows of no next level
            said = level_text(controllers.overview())
            assert said == "4; level 5, which Iggy's clients need, waits for controller 3"
        writer = IggyWriter(list(ports.values()))
        closing.callback(writer.end)
        rolling.replace(members.controllers[-1])
        until(lambda: rolling.levels() == {IGGY}, "this version's level is not in force", RAISED_S)
        until(lambda: writer.count > 0, "no Iggy client gets on", PATIENCE_S)
        told = "a broker doesn't say that Iggy's clients can log in"
        until(lambda: all(COMES in each.log.read_text() for each in members.brokers), told, RAISED_S)

        # Everything goes on over an orderly stop, and over a kill.
        rolling.replace(members.brokers[0])
        rolling.replace(members.controllers[0])
        members.brokers[1].kill()
        rolling.start(members.brokers[1])
        until_more(writer)
        writer.end()
        assert writer.refused == []
        for port in ports.values():
            with EraSocket(port) as reader:
                reader.login()
                assert missing(reader, writer) == []

        check(load, client, members, TOPICS)


def must_wait(address: str) -> None:
    """A login below the level is no wrong password: it waits, and is to be tried again."""
    began = time.monotonic()
    with EraSocket(address) as client, pytest.raises(IggyStatus) as refused:
        client.login()
    assert refused.value.code == IggyError.DISCONNECTED
    assert time.monotonic() - began >= ROOT_WAIT_MS / 1000


def until_more(writer: IggyWriter) -> None:
    """The Iggy client gets on."""
    before = writer.count
    until(lambda: writer.count > before + 10, "the Iggy client doesn't get on", PATIENCE_S)
