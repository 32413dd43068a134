"""A real process and real sockets: very many of something, and clients that never read.

What they cost is bounded, what is over a bound is refused and counted, and the client beside them goes on.
"""

import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tank_node.limits import KIB, MIB
from tank_protos import bundle
from tank_protos.generated.tank import (
    AwaitEndsRequest,
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    KnownEnd,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    StatusRequest,
)
from tank_protos.wire.framing import frame
from tank_protos.wire.message import Message
from tests.integration.connections.honest_node import create_topic, node, produce, serves
from tests.support.clients.raw_client import RawConnection
from tests.support.patience import patient
from tests.support.processes.bare_process import BareProcess
from tests.support.processes.broker_process import BrokerProcess
from tests.support.waiting import until

__all__ = ["node"]

pytestmark = pytest.mark.integration

CONNECTIONS = 10_000
AT_ONCE = 500
PING = b"\x03\0\0\0\0"
END = 2**64 - 1


def framed(message: Message) -> bytes:
    return b"".join(frame(message.ID, message.encode()))


def test_ten_thousand_connections_opened_and_dropped(node: BareProcess) -> None:
    """Some never say anything, some leave half a frame or an answer behind, some reset the connection."""
    beginnings = (b"", PING, b"\x01\x00\x01\x00\x00half", framed(StatusRequest()), b"\x01")
    before, sockets = node.counters(), node.sockets()
    with node.connect() as good:
        assert serves(good, b"before")
        held = node.resident_bytes()
        for number in range(0, CONNECTIONS, AT_ONCE):
            with ExitStack() as stack:
                for one in range(AT_ONCE):
                    client = stack.enter_context(socket.create_connection(("127.0.0.1", node.port), 30))
                    client.sendall(beginnings[one % len(beginnings)])
                    if one % 7 == 0:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                assert serves(good, b"with %d more" % number)
            until(lambda: node.counters()["connections"] == 1, "connections that are gone are still there")
        assert node.counters()["opened"] - before["opened"] == CONNECTIONS + 1
        assert node.sockets() == sockets + 1
        assert node.resident_bytes() - held < 32 * MIB
    after = node.counters()
    assert after["refused"] == before["refused"]
    assert after["held_bytes"] == 0


def test_a_client_that_never_reads_its_answers(tmp_path: Path) -> None:
    """It is not read any more when a MiB of answers waits for it, and closed when it takes nothing at all."""
    with BareProcess(tmp_path, housekeeping_ms=20, stalled_send_ms=500) as node:
        create_topic(node)
        held = node.resident_bytes()
        with node.connect() as good, node.connect() as lazy:
            lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
            sender = threading.Thread(
                target=_send_until_closed, args=(lazy, framed(StatusRequest()) * 1000), daemon=True
            )
            sender.start()
            number = 0
            while not node.counters()["closed"]:
                number += 1
                assert serves(good, b"%d" % number)
                assert node.counters()["held_bytes"] < 8 * MIB
            sender.join(patient(30))
            assert not sender.is_alive()
        found = node.counters()
        assert found["refused"] == found["closed"] == {"stalled_send": 1}
        assert found["held_bytes"] == 0
        assert node.resident_bytes() - held < 32 * MIB


def _send_until_closed(client: RawConnection, data: bytes) -> None:
    with suppress(OSError):
        while True:
            client.socket.sendall(data)


def test_a_client_that_asks_for_chunks_and_never_reads(tmp_path: Path) -> None:
    with BareProcess(tmp_path, housekeeping_ms=20, stalled_send_ms=500) as node:
        create_topic(node)
        with node.connect() as good, node.connect() as lazy:
            for _ in range(8):
                plain = bundle.encode([bytes(MIB)], timestamps=1, codec=bundle.Codec.NONE)
                assert produce(good, plain) == 0
            held = node.resident_bytes()
            lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
            for _ in range(50):
                lazy.socket.sendall(framed(_consume(1, size=8 * MIB)))
            node.wait_for("closed", "stalled_send", 1)
            assert serves(good, b"beside it")
            assert node.resident_bytes() - held < 32 * MIB


def _consume(number: int, *, wait_ms: int = 0, size: int = MIB, entries: int = 1) -> ConsumeRequest:
    asked = [ConsumePartition(0, number, size)] * entries
    return ConsumeRequest(2, 1, "", wait_ms, 0, 0, [ConsumeTopic("a", asked)])


def test_two_hundred_thousand_pings(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        held = broker.resident_bytes()
        with RawConnection(broker.port) as flood, RawConnection(broker.port) as good:
            for _ in range(20):
                flood.socket.sendall(PING * 10_000)
                assert good.ask(10, StatusRequest().encode())
            # It was read to the end: what comes behind the pings is answered.
            assert flood.ask(10, StatusRequest().encode())
        assert 'tank_requests_total{kind="ping",outcome="ok"} 200000.0' in broker.metrics()
        assert broker.resident_bytes() - held < 32 * MIB


def test_thousands_of_unknown_topics(tmp_path: Path) -> None:
    """Answered, counted, and not remembered: names of strangers are no labels of metrics."""
    with BrokerProcess(tmp_path / "data") as broker, RawConnection(broker.port) as client:
        entry = [ProducePartition(0, memoryview(bundle.as_batch(bundle.encode([b"x"], timestamps=1))))]
        topics = 0
        for number in range(60):
            names = [f"nobody-{number}-{one}" for one in range(250)]
            topics += len(names)
            request = ProduceRequest(topics=[ProduceTopic(name, entry) for name in names])
            assert bytes(client.ask(1, request.encode())[4:]) == b"\xff" * len(names)
            question = ConsumeRequest(max_wait_ms=60_000, topics=[ConsumeTopic(name, []) for name in names])
            answer = ConsumeResponse.decode(client.ask(2, question.encode()))
            assert all(topic.unknown for topic in answer.topics)
            if number == 0:
                held, lines = broker.resident_bytes(), broker.metrics().count("\n")
        text = broker.metrics()
        assert f'tank_request_errors_total{{error="unknown_topic",kind="produce"}} {topics}.0' in text
        assert f'tank_request_errors_total{{error="unknown_topic",kind="consume"}} {topics}.0' in text
        assert text.count("\n") == lines
        assert broker.resident_bytes() - held < 32 * MIB


def test_waits_beyond_every_bound(tmp_path: Path) -> None:
    """Those that are too many are answered at once and counted; the others end with their client."""
    limits = {"waits_per_partition": 100, "wait_entries": 1000, "all_wait_entries": 2000, "in_flight": 300}
    with BareProcess(tmp_path, **limits) as node:
        create_topic(node)
        with ExitStack() as stack, node.connect() as good:
            # 255 entries a wait: four fit a connection, eight all of them.
            greedy = [stack.enter_context(node.connect()) for _ in range(3)]
            for client in greedy:
                client.socket.sendall(framed(_consume(END, wait_ms=3_600_000, entries=255)) * 5)
            answers = [client.receive() for client in (greedy[0], greedy[1], *[greedy[2]] * 4)]
            assert all(message_id == 2 for message_id, _ in answers)
            until(lambda: node.counters()["waiting"] == 7, "not as many wait as may")
            assert node.counters()["refused"]["too_many_waits"] >= 6
            assert serves(good, b"wakes them")
        until(lambda: node.counters()["waiting"] == 0, "waits outlived their clients")


def test_waits_on_one_partition_beyond_its_bound(tmp_path: Path) -> None:
    with BareProcess(tmp_path, waits_per_partition=100) as node:
        create_topic(node)
        known = [KnownEnd("a", 0, 0)]
        with node.connect() as many, node.connect() as good:
            many.socket.sendall(framed(AwaitEndsRequest(0, 1, 3_600_000, known)) * 150)
            assert [many.receive()[0] for _ in range(50)] == [75] * 50
            assert node.counters()["waiting"] == 100
            assert node.counters()["refused"] == {"too_many_waits": 50}
            assert serves(good, b"wakes them")
            assert [many.receive()[0] for _ in range(100)] == [75] * 100
            assert node.counters()["waiting"] == 0


def test_more_requests_under_way_than_one_client_may_have(tmp_path: Path) -> None:
    """The rest waits, unread, and is answered when there is room: nobody is closed for it."""
    with BareProcess(tmp_path, in_flight=50) as node:
        create_topic(node)
        with node.connect() as many, node.connect() as good:
            many.socket.sendall(framed(_consume(END, wait_ms=3_600_000)) * 120)
            until(lambda: node.counters()["waiting"] == 50, "not as many wait as may")
            heard = 0
            while heard < 120:
                assert serves(good, b"wakes those that wait")
                for _ in range(min(50, 120 - heard)):
                    assert many.receive()[0] == 2
                    heard += 1
            assert node.counters()["closed"] == {}
