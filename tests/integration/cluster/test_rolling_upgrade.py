"""The version before this one becomes this one, process after process, while clients of both protocols write
and read on topics of both formats: nothing acknowledged is lost, repeated or out of order.

`make upgrade` runs it; `make upgrade FROM=COMMIT` begins with another version.
"""

import contextlib
import sys
from pathlib import Path

import pytest

from tank_cli.cluster.controller_calls import Controllers
from tank_client.sync import Client
from tank_protos.feature_levels import KAFKA, OWN
from tests.chaos.load import topics_of
from tests.chaos.members import tied_to_us, until
from tests.chaos.record import Fate, History, values_of
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

pytest.importorskip("confluent_kafka")
pytest.importorskip("aiokafka")

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOPICS = topics_of(kafka=True)
WROTE = {
    ("disk", "disk-writer"),
    ("disk", "LibrdkafkaWriter"),
    ("disk", "AiokafkaWriter"),
    ("kafka", "kafka-writer"),
    ("kafka", "LibrdkafkaWriter"),
    ("kafka", "AiokafkaWriter"),
}
"""The topics that clients of both protocols write to, with the beginnings of their producers' names."""
RAISED_S = 10.0
"""The leader looks once a second."""


def test_the_version_before_becomes_this_one_under_clients_of_both_protocols(tmp_path: Path) -> None:
    sources = older_version.unpacked(tmp_path / "older", older_version.BEFORE)
    assert (sources / "node/tank_node/kafka").is_dir(), "it serves no Kafka clients: take a later one"
    older = older_version.environment(sources)
    with contextlib.ExitStack() as closing:
        members = closing.enter_context(planned(tmp_path / "cluster", kafka=True))
        todays = {member.name: member.command for member in members.all}
        olders = {member.name: [*older, *member.command] for member in members.all}
        for member in members.all:
            member.command = olders[member.name]
        members.start_all()
        until(lambda: min(levels(members)) >= KAFKA, "no topic may have Kafka's format", PATIENCE_S)
        client = closing.enter_context(Client(members.servers))
        create_topics(client, TOPICS)
        addresses = [member.address for member in members.controllers]
        controllers = closing.enter_context(Controllers(addresses, ""))
        load = closing.enter_context(loaded([*tied_to_us(), sys.executable], members))
        rolling = Rolling(members, controllers, load, todays, olders)

        # A newer broker asks older controllers, and newer controllers answer older brokers.
        for broker, controller in zip(members.brokers, members.controllers, strict=True):
            rolling.replace(broker)
            rolling.replace(controller)
        until(lambda: rolling.levels() == {OWN.highest}, "this version's level is not in force", RAISED_S)
        rolling.go_on()
        # What older processes left behind is found again after a kill, too.
        members.brokers[0].kill()
        rolling.start(members.brokers[0])

        history = check(load, client, members, TOPICS)
        assert wrote(history) >= WROTE


def wrote(history: History) -> set[tuple[str, str]]:
    """Topics with those whose values there were acknowledged, without the numbers of names."""
    return {
        (sent.place[0], name)
        for _, sent in values_of(history, Fate.STORED)
        for _, name in WROTE
        if sent.writer.startswith(name)
    }
