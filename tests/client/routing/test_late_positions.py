"""Positions asked for at a broker that is behind with what the others know."""

import pytest

from tank_client import Client, errors
from tests.support.clients.scripted_pair import QUICK, two_brokers
from tests.support.storage.scripted_log import Log
from tests.support.waiting import run


def test_positions_are_not_taken_from_a_broker_that_has_not_heard_of_a_topic() -> None:
    async def scenario() -> None:
        async with two_brokers(leader=1) as brokers, Client(brokers[0].address, QUICK) as client:
            for broker in brokers:
                broker.topics = {"t": [Log()], "other": [Log()]}
                broker.positions = {"g": {("t", 0): (7, ""), ("other", 0): (3, "")}}
            await client.admin.describe_topics(["t", "other"])
            del brokers[0].topics["t"]
            kept = await client.admin.fetch_positions("g", ["other", "t"])
            assert {route: position.number for route, position in kept.items()} == {
                ("t", 0): 7,
                ("other", 0): 3,
            }
            with pytest.raises(errors.UnknownTopic, match="nowhere"):
                await client.admin.fetch_positions("g", ["t", "nowhere"])

    run(scenario())
