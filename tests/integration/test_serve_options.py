"""Options of `tank serve` that clients see."""

from pathlib import Path

import pytest

from tank_protos.generated.tank import DescribeTopicsRequest, DescribeTopicsResponse
from tests.integration.test_serve import create_topic
from tests.support.broker_process import BrokerProcess, running_broker
from tests.support.raw_client import RawConnection

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
