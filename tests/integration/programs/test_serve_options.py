"""What `tank serve` tells clients and operators: addresses, defaults, damage."""

import contextlib
import json
import socket
from pathlib import Path

import pytest

from tank_node.monitoring.http import MAX_CONNECTIONS
from tank_protos.generated.tank import DescribeTopicsRequest, DescribeTopicsResponse
from tests.integration.programs.served import create_topic, get, stored, write_one
from tests.support.clients.raw_client import RawConnection
from tests.support.processes.broker_process import BrokerProcess, running_broker
from tests.support.waiting import until

pytestmark = pytest.mark.integration


def described(broker: BrokerProcess) -> DescribeTopicsResponse:
    request = DescribeTopicsRequest(request_id=1)
    with RawConnection(broker.port) as connection:
        return DescribeTopicsResponse.decode(connection.ask(request.ID, request.encode()))


def address(broker: BrokerProcess) -> tuple[str, int, str]:
    (told,) = described(broker).brokers
    return told.host, told.port, told.rack


def test_clients_are_told_what_is_advertised_and_else_where_it_listens(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        assert address(broker) == ("127.0.0.1", broker.port, "")
        assert broker.stop() == 0
        broker.arguments = ("--advertise", "broker-1.example.org:7777", "--rack", "r1")
        broker.start()
        assert address(broker) == ("broker-1.example.org", 7777, "r1")


def test_what_other_machines_reach_is_told_and_that_iggys_clients_log_in(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--iggy", "0.0.0.0:0") as broker:
        said = broker.output()
        assert "other machines can reach 0.0.0.0:" in said
        assert "Iggy's clients log in, but nothing is encrypted" in said
        assert "no authentication" not in said, "it listens on this machine alone for others"
        until(
            lambda: "Iggy's root user is iggy, with the password " in broker.output(),
            "the password that was made is not shown",
        )


def test_flush_is_the_default_of_topics_that_do_not_say(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--flush", "replicated") as broker:
        create_topic(broker, "says", config=b"flush=disk")
        create_topic(broker, "silent")
        flush = {
            topic.name: (setting.value, setting.is_default)
            for topic in described(broker).topics
            for setting in topic.settings
            if setting.key == "flush"
        }
        assert flush == {"says": ("disk", 0), "silent": ("replicated", 1)}


def test_damage_that_the_start_mended_is_told(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        create_topic(broker, "t")
        write_one(broker, "t")
        broker.kill()
        (index,) = (broker.data / "topics").rglob("*.index")
        index.unlink()
        broker.start()
        assert "1 damaged partition, see the log and /readyz" in broker.output()
        (found,) = json.loads(get(broker.http_port, "/readyz")[1])["found_at_start"]
        assert "rebuilt" in found
        assert stored(broker, "t") == [b"one"]


def test_who_holds_connections_to_the_http_port_shuts_nobody_out(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, contextlib.ExitStack() as held:
        idle = [
            held.enter_context(socket.create_connection(("127.0.0.1", broker.http_port), 10))
            for _ in range(MAX_CONNECTIONS + 20)
        ]
        for _ in range(2):  # the first may come in one burst with those that wait to be taken
            assert get(broker.http_port, "/healthz")[0] == 200
        assert idle[0].recv(1) == b"", "the oldest had to go"
        assert broker.stop(5) == 0
