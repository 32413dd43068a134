"""`tank connections`: the clients of each broker, and brokers that can't be asked."""

import pytest

from tank_cli.messages import connections
from tank_cli.messages.connections import AskedForClients
from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_client.model import Address, BrokerDescription, ClientProtocol, ConnectedClient
from tests.cli.conftest import Tank
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.clients.scripted_client import FakeBroker


def client(number: int, name: str = "billing-1") -> ConnectedClient:
    return ConnectedClient(
        number, ClientProtocol.KAFKA, Address("10.0.0.7", 4711), name, "librdkafka", "2.6.0", 61_000, 4_711,
        None, 1, {"Fetch": 16, "status": None},
    )  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[int, AskedForClients]:
    """The answers of brokers by number; those not in it can't be asked."""
    answers: dict[int, AskedForClients] = {}

    async def ask(room: object, broker: BrokerDescription, most: int | None) -> AskedForClients:
        number = broker.broker_id
        found = answers.get(number, AskedForClients(number, why="10.0.0.2:11011 can't be asked from here"))
        return AskedForClients(number, found.clients[:most], found.why)

    monkeypatch.setattr(connections, "ask_broker", ask)
    return answers


def test_clients_are_shown_with_what_they_are(
    tank: Tank, broker: FakeBroker, asked: dict[int, AskedForClients]
) -> None:
    asked[1] = AskedForClients(1, (client(7),))
    found = parsed(tank("connections", "-o", "json"))
    example = SHAPES["connections"][0]
    assert found["brokers"][0]["connections"][0]["sent_bytes"] is None
    found["brokers"][0]["connections"][0]["sent_bytes"] = 5
    found["brokers"][0]["connections"][0]["requests"].pop()
    assert_same_shape(found, example)
    shown = tank("connections", "--requests").stdout
    for text in (
        "kafka",
        "10.0.0.7:4711",
        "billing-1",
        "librdkafka 2.6.0",
        "1 min 1 s",
        "4.6 KiB",
        "Fetch 16, status",
    ):
        assert text in shown
    assert "Fetch" not in tank("connections").stdout


def test_a_broker_that_cannot_be_asked_hides_no_other(
    tank: Tank, broker: FakeBroker, asked: dict[int, AskedForClients]
) -> None:
    broker.brokers = [BrokerDescription(1, Address("h", 1)), BrokerDescription(2, Address("10.0.0.2", 11011))]
    asked[1] = AskedForClients(1, (client(7),))
    ended = tank("connections")
    assert ended.exit_code == 0
    assert "billing-1" in ended.stdout
    assert "broker 2: 10.0.0.2:11011 can't be asked from here." in ended.stderr
    assert [each["reached"] for each in parsed(tank("connections", "-o", "json"))["brokers"]] == [True, False]
    alone = tank("connections", "--broker", "2")
    assert alone.exit_code == ExitCode.UNREACHABLE
    unknown = tank("connections", "--broker", "9")
    assert unknown.exit_code == ExitCode.NOT_FOUND
    assert "there are: 1, 2" in unknown.stderr


def test_more_connections_than_shown_are_told(
    tank: Tank, broker: FakeBroker, asked: dict[int, AskedForClients]
) -> None:
    asked[1] = AskedForClients(1, tuple(client(number, f"c{number}") for number in range(5)))
    ended = tank("connections", "--limit", "2")
    assert [line.split()[3] for line in ended.stdout.splitlines()[1:]] == ["c0", "c1"]
    assert "Broker 1 has more" in ended.stderr
    assert len(parsed(tank("connections", "--limit", "2", "-o", "json"))["brokers"][0]["connections"]) == 2
    assert len(parsed(tank("connections", "-o", "json"))["brokers"][0]["connections"]) == 5


def test_without_clients_it_says_so(
    tank: Tank, broker: FakeBroker, asked: dict[int, AskedForClients]
) -> None:
    asked[1] = AskedForClients(1)
    assert "No client is connected." in tank("connections").stderr
