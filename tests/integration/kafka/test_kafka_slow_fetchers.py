"""Kafka clients that ask for very much and read nothing, at a real broker: what they cost."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tank_node.limits import KIB, MIB
from tests.support.clients.kafka_calls import (
    batch_of,
    create_topic,
    fetch_request,
    produce,
)
from tests.support.clients.kafka_socket import KafkaSocket, frame
from tests.support.processes.broker_process import running_broker
from tests.support.waiting import until

pytestmark = pytest.mark.integration

SLOW = 100
REQUESTS_EACH = 20
CROWDS = 4
"""One behind the other: each that left 6 MiB behind for ever would be seen at the fourth."""
STORED_BYTES = 60 * MIB
WANTED_BYTES = 50 * MIB
"""Java's fetch.max.bytes."""


@pytest.mark.parametrize(
    ("stored", "version", "most_bytes"),
    [
        pytest.param("kafka", 12, 32 * MIB, id="record batches as they are stored"),
        pytest.param("tank", 12, 96 * MIB, id="bundles as record batches"),
        pytest.param("kafka", 1, 96 * MIB, id="record batches as message sets"),
    ],
)
def test_a_hundred_fetchers_that_read_nothing(
    tmp_path: Path, stored: str, version: int, most_bytes: int
) -> None:
    """What is sent from files takes no memory. Of what is converted, an answer holds 4 MiB at most, and less
    when others hold some. The system's allocator keeps some of it for the next crowd, more or less of it by
    chance: a leak shows in what a later crowd takes on top."""
    with running_broker(tmp_path) as broker, KafkaSocket(broker.kafka_port, 60) as good:
        create_topic(good, "a", log_format=stored)
        create_topic(good, "b")
        for _ in range(STORED_BYTES // MIB):
            produce(good, "a", batch_of(*[bytes(100 * KIB)] * 10))
        held = broker.resident_bytes()
        taken = []
        for _ in range(CROWDS):
            with ExitStack() as stack:
                for _ in range(SLOW):
                    stack.enter_context(_slow_fetcher(broker.kafka_port, version))
                    assert produce(good, "b", batch_of(b"beside it")) >= 0
                taken.append(broker.resident_bytes() - held)
                assert taken[-1] < most_bytes
            until(lambda: "tank_held_bytes 0.0" in broker.metrics(), "they are gone, not their answers")
            left_bytes = broker.resident_bytes() - held
            print(f"{stored} {version}: {taken[-1] / MIB:.1f} MiB for them, {left_bytes / MIB:.1f} MiB left")
    assert taken[-1] - taken[0] < 16 * MIB


def _slow_fetcher(port: int, version: int) -> KafkaSocket:
    """A client that has asked, and reads nothing."""
    client = KafkaSocket(port, 60)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
    request = fetch_request("a", 0, most_bytes=WANTED_BYTES, max_bytes=WANTED_BYTES)
    client.socket.sendall(b"".join(frame(request, version, number) for number in range(REQUESTS_EACH)))
    return client
