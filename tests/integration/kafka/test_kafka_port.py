"""The port for Kafka clients, at a real broker: where it is, and what happens to strange conversations."""

import re
import socket
import time
from pathlib import Path

import pytest

from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tank_protos.wire.message import Message
from tests.integration.programs.served import serve, started
from tests.support.clients.kafka_calls import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch_of,
    create_topic,
    fetch_request,
    fetched,
    produce_request,
    values_of,
)
from tests.support.clients.kafka_socket import KafkaSocket, frame
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess, running_broker
from tests.support.processes.ports import free_port
from tests.support.waiting import until

pytestmark = pytest.mark.integration

STOP_S = patient(30)
DEFAULT = ("127.0.0.1", 9092)


def served(client: KafkaSocket, version: int = 3) -> dict[int, tuple[int, int]]:
    """The versions that the broker serves, by api key."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = client.ask(request, ApiVersionsResponse, version)
    assert answer.error_code == 0
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def refusals(broker: BrokerProcess, reason: str) -> float:
    """How many connections the broker closed for this reason."""
    found = re.search(rf'^tank_connections_closed_total{{reason="{reason}"}} (\S+)$', broker.metrics(), re.M)
    return float(found[1]) if found else 0.0


def test_a_kafka_client_asks_what_is_served_and_the_start_line_says_where(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        assert f", Kafka clients on 127.0.0.1:{broker.kafka_port}; data in" in broker.output()
        with KafkaSocket(broker.kafka_port) as client:
            for version in (0, 1, 2, 3, 4):
                assert served(client, version)[ApiVersionsRequest.ID] == (0, 4)


def test_a_default_port_that_is_taken_costs_a_warning_and_no_start(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            other.bind(DEFAULT)
            other.listen()
        except OSError:
            pass  # another broker on this machine has it, which is as good
        listen = f"127.0.0.1:{free_port()}"
        process, line = started("--listen", listen, "--http", "off", "--data", str(tmp_path / "d"))
        process.terminate()
        _, errors = process.communicate(timeout=STOP_S)
    assert f"listening on {listen}; data in" in line, "it serves TANK's clients alone"
    assert "this broker serves no Kafka clients: can't listen on 127.0.0.1:9092 " in errors
    assert "--kafka" in errors
    assert process.returncode == 0


def test_a_port_that_was_asked_for_must_be_free(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        listen = ("--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0", "--http", "off")
        refused = serve(*listen, "--kafka", address)
        assert refused.returncode == 1
        assert f"can't listen on {address} " in refused.stderr
        assert "--kafka" in refused.stderr
        outside = ("--kafka-outside-listen", address, "--kafka-outside-advertise", "b.example.org:9092")
        refused = serve(*listen, "--kafka", "127.0.0.1:0", *outside)
        assert refused.returncode == 1
        assert "--kafka-outside-listen" in refused.stderr


def test_without_a_kafka_port_there_is_none(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--kafka", "off") as broker:
        assert "Kafka" not in broker.output()
        with pytest.raises(ConnectionRefusedError):
            KafkaSocket(broker.kafka_port)


def test_clients_from_outside_have_a_port_of_their_own(tmp_path: Path) -> None:
    port = free_port()
    outside = (
        "--kafka-outside-listen",
        f"127.0.0.1:{port}",
        "--kafka-outside-advertise",
        "b.example.org:9092",
    )
    with running_broker(tmp_path, *outside), KafkaSocket(port) as client:
        assert ApiVersionsRequest.ID in served(client)


def partitions_of(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    """The error code of a topic and the number of its partitions, for a client that would have it created."""
    request = MetadataRequest([MetadataRequestTopic(name=topic)])
    with KafkaSocket(broker.kafka_port) as client:
        (found,) = client.ask(request, MetadataResponse, 4).topics
    return found.error_code, len(found.partitions)


def test_a_topic_that_a_client_names_is_created_as_the_options_say(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--kafka-default-partitions", "3") as broker:
        until(lambda: partitions_of(broker, "orders.v1") == (0, 3), "a broker alone creates no topic")
    with BrokerProcess(tmp_path / "other", "--kafka-auto-create", "off") as broker:
        assert partitions_of(broker, "orders.v1") == (3, 0)


def test_a_half_closed_connection_gets_its_answers_and_no_stray_bytes(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        with KafkaSocket(broker.kafka_port) as client:
            asked = [client.send(ApiVersionsRequest(), 0) for _ in range(20)]
            client.socket.shutdown(socket.SHUT_WR)
            for correlation_id in asked:
                assert int.from_bytes(client.receive()[:4], "big") == correlation_id
            assert client.is_closed_by_the_broker()
        with KafkaSocket(broker.kafka_port) as client:
            client.socket.shutdown(socket.SHUT_WR)
            assert client.is_closed_by_the_broker()


def test_a_silent_client_hears_nothing_and_is_served_later(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, KafkaSocket(broker.kafka_port) as client:
        client.socket.settimeout(1.5)  # a TANK client has had its first ping by then
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        client.socket.settimeout(patient(10))
        assert served(client)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_client_that_has_sent_nothing_for_longer_than_tanks_is_served(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, KafkaSocket(broker.kafka_port, 60) as client:
        time.sleep(20)
        assert served(client)


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "invalid_frame_size", id="http"),
        pytest.param(
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), "invalid_frame_size", id="tls"
        ),
        pytest.param(b"\x00\x00\x00\x07" + bytes(7), "invalid_frame_size", id="too short"),
        pytest.param(b"\xff\xff\xff\xff" + bytes(8), "invalid_frame_size", id="negative"),
        pytest.param(b"\x00\x00\x00\x0c\x27\x10\x00\x00" + bytes(8), "unknown_request", id="unknown key"),
        pytest.param(
            b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\x00\x08", "truncated", id="lying length"
        ),
    ],
)
def test_garbage_closes_its_connection_for_a_counted_reason_and_no_other(
    tmp_path: Path, garbage: bytes, reason: str
) -> None:
    with running_broker(tmp_path) as broker, KafkaSocket(broker.kafka_port) as good:
        assert served(good)
        with KafkaSocket(broker.kafka_port) as bad:
            bad.socket.sendall(garbage)
            assert bad.is_closed_by_the_broker()
        until(lambda: refusals(broker, reason) == 1, f"no connection was closed for {reason}")
        assert f"refused input: {reason}: " in broker.output(), "the log says nothing of it"
        assert served(good)


def test_requests_of_many_kinds_sent_at_once_are_answered_in_their_order(tmp_path: Path) -> None:
    """A fetch that waits holds up what is behind it; a produce request with acks 0 has no answer."""
    with running_broker(tmp_path) as broker, KafkaSocket(broker.kafka_port) as client:
        create_topic(client, "a")
        quiet = produce_request("a", batch_of(b"quiet"), acks=0)
        loud = produce_request("a", batch_of(b"loud"))
        waiting = fetch_request("a", 3, wait_ms=300)
        requests: list[tuple[Message, int]] = [
            (loud, PRODUCE_VERSION),
            (quiet, PRODUCE_VERSION),
            (loud, PRODUCE_VERSION),
            (ApiVersionsRequest("test", "1"), 3),
            (waiting, FETCH_VERSION),
            (quiet, PRODUCE_VERSION),
            (MetadataRequest(None), 12),
            (loud, PRODUCE_VERSION),
            (ApiVersionsRequest(), 0),
            (fetch_request("a", 0), FETCH_VERSION),
        ]
        data = [frame(request, version, number) for number, (request, version) in enumerate(requests)]
        client.socket.sendall(b"".join(data))
        answers = [client.receive() for request, _ in requests if request is not quiet]
        found = [int.from_bytes(answer[:4], "big") for answer in answers]
        assert found == [number for number, (request, _) in enumerate(requests) if request is not quiet]
        last = FetchResponse.decode(memoryview(answers[-1])[5:], FETCH_VERSION)
        assert values_of(fetched(last), 0) == [b"loud", b"quiet", b"loud", b"quiet", b"loud"]
