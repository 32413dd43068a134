"""The sockets of a broker's addresses: when they are bound, and who may have them meanwhile."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tank_node.app import config as node_config
from tank_node.app.config import ListenAddress, NodeConfig
from tank_node.app.ports import ListenError, Ports

HOST = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[ListenAddress]:
    """An address on which another process listens."""
    with socket.create_server((HOST, 0)) as server:
        yield ListenAddress(HOST, server.getsockname()[1])


def config(**flags: str) -> NodeConfig:
    return node_config.load({"listen": f"{HOST}:0", **flags}, {"HOME": "/home/u"})


def bound(wanted: NodeConfig) -> Ports:
    async def bind() -> Ports:
        return await Ports.bind(wanted, asyncio.get_running_loop())

    return asyncio.run(bind())


def by_default(kafka: ListenAddress) -> NodeConfig:
    """As if this were the default address for Kafka clients."""
    return replace(config(kafka=str(kafka)), kafka_is_default=True)


def answers(address: ListenAddress) -> bool:
    try:
        socket.create_connection((address.host, address.port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_bound_port_is_known_and_refuses_clients_until_it_listens() -> None:
    outside = {"outside_listen": f"{HOST}:0", "outside_advertise": "b.example.org:1"}
    ports = bound(config(kafka=f"{HOST}:0", **outside))
    try:
        addresses = [port.address for port in ports.all]
        assert len({each.port for each in addresses}) == 3
        assert not any(answers(each) for each in addresses)
        ports.listen()
        assert all(answers(each) for each in addresses)
    finally:
        ports.close()
    assert not any(answers(each) for each in addresses)


@pytest.mark.parametrize(
    ("flag", "needed"),
    [
        ("listen", {}),
        ("outside_listen", {"outside_advertise": "b.example.org:1"}),
        ("kafka", {}),
        ("kafka_outside_listen", {"kafka": f"{HOST}:0", "kafka_outside_advertise": "b.example.org:1"}),
    ],
)
def test_an_address_that_is_taken_is_named_with_its_flag(
    taken: ListenAddress, flag: str, needed: dict[str, str]
) -> None:
    with pytest.raises(ListenError) as refusal:
        bound(config(**{**needed, flag: str(taken)}))
    assert f"can't listen on {taken} " in str(refusal.value)
    assert str(refusal.value).endswith("--" + flag.replace("_", "-"))


def test_an_address_that_another_process_takes_meanwhile_is_named_with_its_flag() -> None:
    first = bound(config())
    second = bound(config(kafka=str(first.tank.address)))  # both have bound it, and none listens yet
    try:
        first.listen()
        with pytest.raises(ListenError, match="--kafka"):
            second.listen()
    finally:
        first.close()
        second.close()


def test_a_default_kafka_port_that_is_taken_is_done_without(
    taken: ListenAddress, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "tank"):
        ports = bound(by_default(taken))
    ports.close()
    assert ports.kafka is None
    assert f"this broker serves no Kafka clients: can't listen on {taken} " in caplog.text


def test_of_two_brokers_that_start_at_once_one_has_the_default_kafka_port() -> None:
    first = bound(config())
    assert first.kafka is not None
    second = bound(by_default(first.kafka.address))
    try:
        assert second.kafka is None, "the first may have registered it already"
        first.listen()
        second.listen()
    finally:
        first.close()
        second.close()
