"""A real broker and Kafka clients that send very much at once: that is bounded, and others are served."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tank_node.limits import KIB, MIB
from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.support.clients.kafka_calls import (
    PRODUCE_VERSION,
    batch_of,
    create_topic,
    produce,
    produce_request,
)
from tests.support.clients.kafka_socket import KafkaSocket, frame
from tests.support.processes.broker_process import BrokerProcess, running_broker
from tests.support.waiting import until

pytestmark = pytest.mark.integration

FLOOD = 50_000
AT_ONCE = 5_000
DROPPED = 2_000
DROPPED_AT_ONCE = 400


def serves(client: KafkaSocket) -> bool:
    return produce(client, "good", batch_of(b"beside it")) >= 0


@contextmanager
def bounded(folder: Path, *arguments: str) -> Iterator[tuple[BrokerProcess, KafkaSocket]]:
    """A broker that has not grown by 32 MiB at the end, and a client of its that has worked once."""
    with running_broker(folder, *arguments) as broker, KafkaSocket(broker.kafka_port, 60) as good:
        create_topic(good, "good")
        assert serves(good)
        held = broker.resident_bytes()
        yield broker, good
        assert serves(good)
        grown = broker.resident_bytes() - held
        print(f"the broker grew by {grown / MIB:.1f} MiB")
        assert grown < 32 * MIB


def test_fifty_thousand_requests_of_one_client(tmp_path: Path) -> None:
    with bounded(tmp_path) as (broker, good), KafkaSocket(broker.kafka_port, 60) as flood:
        requests = frame(ApiVersionsRequest(), 0, 7) * AT_ONCE
        sender = threading.Thread(target=_send, args=(flood, requests, FLOOD // AT_ONCE))
        sender.start()
        for number in range(FLOOD):
            answer = flood.receive()
            assert answer[:4] == b"\0\0\0\7"
            if number % AT_ONCE == 0:
                assert serves(good)
        sender.join()
        ApiVersionsResponse.decode(memoryview(answer)[4:], 0)


def _send(client: KafkaSocket, data: bytes, times: int) -> None:
    for _ in range(times):
        client.socket.sendall(data)


def test_fifty_thousand_records_without_acknowledgement(tmp_path: Path) -> None:
    """There is no answer that holds the client back; each record is stored all the same."""
    with bounded(tmp_path) as (broker, good), KafkaSocket(broker.kafka_port, 60) as flood:
        create_topic(good, "a")
        requests = frame(produce_request("a", batch_of(b"x"), acks=0), PRODUCE_VERSION, 7) * AT_ONCE
        for _ in range(FLOOD // AT_ONCE):
            flood.socket.sendall(requests)
            assert serves(good)
        assert produce(flood, "a", batch_of(b"last")) == FLOOD


def test_a_client_that_asks_and_asks_and_never_reads(tmp_path: Path) -> None:
    """It is read no further when a MiB of answers waits for it."""
    with bounded(tmp_path) as (broker, good), KafkaSocket(broker.kafka_port, 60) as lazy:
        lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
        create_topic(good, "many", 1_000)
        lazy.socket.setblocking(False)
        requests = frame(MetadataRequest(None), 12, 7) * 1_000
        sent = 0
        while sent < 512 * KIB:
            try:
                sent += lazy.socket.send(requests)
            except BlockingIOError:
                break
        for _ in range(20):
            assert serves(good)
        assert broker.held_bytes() < 4 * MIB


def test_thousands_of_connections_opened_and_dropped(tmp_path: Path) -> None:
    """Some never say anything, some leave half a frame or an answer behind, some reset the connection."""
    whole = frame(ApiVersionsRequest(), 0, 1)
    beginnings = (
        b"",
        whole[:3],
        whole[:9],
        whole * 3,
        b"\0\x10\0\0\0\0\0\x09half",
        b"GET / HTTP/1.1\r\n\r\n",
    )
    with bounded(tmp_path) as (broker, good):
        for _ in range(DROPPED // DROPPED_AT_ONCE):
            with ExitStack() as stack:
                for number in range(DROPPED_AT_ONCE):
                    client = stack.enter_context(KafkaSocket(broker.kafka_port, 30))
                    client.socket.sendall(beginnings[number % len(beginnings)])
                    if number % 7 == 0:
                        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                assert serves(good)
            until(
                lambda: "\ntank_connections 1.0\n" in broker.metrics(), "those that are gone are still there"
            )
        assert broker.held_bytes() == 0


def test_thousands_of_topics_that_there_are_not(tmp_path: Path) -> None:
    """Answered, and not remembered: names of strangers are no labels of metrics."""
    with bounded(tmp_path, "--kafka-auto-create", "off") as (broker, good):
        for number in range(20):
            names = [f"nobody-{number}-{one}" for one in range(2_000)]
            request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
            answer = good.ask(request, MetadataResponse, 9)
            assert {topic.error_code for topic in answer.topics} == {3}
            if number == 0:
                lines = broker.metrics().count("\n")
        assert broker.metrics().count("\n") == lines


def test_buffers_of_large_frames_that_never_end(tmp_path: Path) -> None:
    """Sixty clients announce a batch of 60 MiB each, and send a little of it."""
    with bounded(tmp_path) as (broker, good), ExitStack() as stack:
        head = frame(produce_request("good", batch_of(bytes(1000))), PRODUCE_VERSION, 1)
        for _ in range(60):
            client = stack.enter_context(KafkaSocket(broker.kafka_port, 30))
            client.socket.sendall((60 * MIB).to_bytes(4, "big") + head[4:])
        assert serves(good)
