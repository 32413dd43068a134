"""Real sockets: clients that stop sending, go away or wait for memory, and what is still owed to them."""

import socket
import struct
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.limits import KIB, MIB, Limits
from tank_node.log.flush_work import FlushWork
from tank_node.server.connection import Connection
from tank_node.tank.session import TankSession
from tank_protos.generated.tank import ConsumeResponse, StatusRequest
from tank_protos.wire.framing import frame
from tests.integration.connections.raw_connections import (
    consume,
    is_closed_by_the_broker,
    node,
    produce,
    produce_request,
)
from tests.support.clients.raw_client import RawConnection
from tests.support.nodes.served_node import ServedNode
from tests.support.patience import patient
from tests.support.waiting import until

__all__ = ["node"]

pytestmark = pytest.mark.integration


def connections(node: ServedNode) -> list[Connection]:
    return node.on_loop(lambda: list(node.server.connections.by_fd.values()))


def ended(node: ServedNode) -> bool:
    return any(connection.ended for connection in connections(node))


def test_a_client_that_closed_its_sending_side_gets_its_acknowledgements(tmp_path: Path) -> None:
    with ServedNode(tmp_path / "data") as node, RawConnection(node.port) as client:
        node.on_loop(lambda: node.controller.add("a", 1, flush="disk"))
        log = node.broker.topics["a"].partitions[0].log
        log.flushing = FlushWork(log.segments.files, 0, [], ())  # a round that does not end yet
        request = b"".join(frame(1, produce_request([b"x"]).encode()))
        client.socket.sendall(request * 3 + request[:20])
        client.socket.shutdown(socket.SHUT_WR)
        until(lambda: ended(node), "the end was not seen")

        def end_round() -> None:
            log.flushing = None
            node.broker.flusher.request(log, log.written)

        node.on_loop(end_round)
        assert [client.receive()[1][-1] for _ in range(3)] == [0, 0, 0]
        assert is_closed_by_the_broker(client)
        until(lambda: not connections(node), "the connection stays")


def test_a_consumer_that_closed_its_sending_side_gets_what_it_waits_for(node: ServedNode) -> None:
    with RawConnection(node.port) as consumer, RawConnection(node.port) as producer:
        consumer.send(2, consume(1, wait_ms=60_000).encode())
        consumer.socket.shutdown(socket.SHUT_WR)
        until(lambda: ended(node), "the end was not seen")
        assert produce(producer, [b"now"]) == 0
        assert b"now" in bytes(ConsumeResponse.decode(consumer.receive()[1]).chunks)
        assert is_closed_by_the_broker(consumer)


def test_requests_that_had_to_wait_for_others_are_answered_after_the_end_too(tmp_path: Path) -> None:
    with ServedNode(tmp_path / "data", Limits(in_flight=1)) as node, RawConnection(node.port) as client:
        node.on_loop(lambda: node.controller.add("a", 1, flush="disk"))
        request = b"".join(frame(1, produce_request([b"x"]).encode()))
        client.socket.sendall(request * 5)
        client.socket.shutdown(socket.SHUT_WR)
        assert [client.receive()[1][-1] for _ in range(5)] == [0] * 5
        assert is_closed_by_the_broker(client)


def test_a_wait_goes_with_its_client(node: ServedNode) -> None:
    consumer = RawConnection(node.port)
    assert consumer.socket.recv(5) == b"\3\0\0\0\0"  # what is unread would make the close a reset
    consumer.send(2, consume(1, wait_ms=3_600_000).encode())
    until(lambda: node.on_loop(lambda: node.metrics.waiting) == 1, "the wait was not taken")
    consumer.close()
    until(lambda: not connections(node), "the connection stays")
    assert node.on_loop(lambda: node.metrics.waiting) == 0


def test_half_a_frame_and_the_end_is_closed_at_once(node: ServedNode) -> None:
    for frame_bytes in (1000, MIB):
        with RawConnection(node.port) as client:
            client.socket.sendall(b"\1" + frame_bytes.to_bytes(4, "little") + b"half")
            client.socket.shutdown(socket.SHUT_WR)
            assert is_closed_by_the_broker(client)
    assert node.on_loop(lambda: node.metrics.held_bytes) == 0


CROWDED = Limits(
    frame_bytes=4 * MIB,
    bundle_bytes=3 * MIB,
    memory_bytes=4 * MIB + 512 * KIB,
    housekeeping_ms=10,
    stalled_frame_ms=600,
    slowest_bytes_per_s=64 * KIB,
)
LARGE = b"".join(frame(1, produce_request([b"x" * 2_900 * KIB]).encode()))


def test_who_waits_for_memory_is_not_blamed_for_it(tmp_path: Path) -> None:
    with ServedNode(tmp_path / "data", CROWDED) as node, ExitStack() as stack:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))
        first, second = (stack.enter_context(RawConnection(node.port, 30)) for _ in range(2))
        first.socket.sendall(LARGE[: 600 * KIB])
        until(lambda: any(c.large is not None for c in connections(node)), "it got no room")
        sender = threading.Thread(target=second.socket.sendall, args=(LARGE,), daemon=True)
        sender.start()
        until(
            lambda: bool(node.on_loop(lambda: dict(node.server.connections.memory.starved))),
            "it did not wait",
        )
        at = 600 * KIB
        until_s = time.monotonic() + 2.5 * CROWDED.stalled_frame_ms / 1000
        while time.monotonic() < until_s:  # slowly, but fast enough
            first.socket.sendall(LARGE[at : at + 10 * KIB])
            at += 10 * KIB
            time.sleep(0.05)
        assert not node.on_loop(lambda: dict(node.metrics.closed))
        first.socket.sendall(LARGE[at:])
        assert [client.receive()[1][-1] for client in (first, second)] == [0, 0]
        sender.join(patient(10))


def test_small_frames_that_hold_all_memory_do_not_lock_out_a_large_one(tmp_path: Path) -> None:
    limits = replace(CROWDED, stalled_frame_ms=30_000)
    with ServedNode(tmp_path / "data", limits) as node, ExitStack() as stack:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))
        holders = [stack.enter_context(RawConnection(node.port)) for _ in range(12)]
        for holder in holders:
            holder.socket.sendall(b"\1" + (250 * KIB).to_bytes(4, "little") + bytes(200 * KIB))
        until(lambda: node.on_loop(lambda: node.metrics.held_bytes) >= 12 * 200 * KIB, "they hold nothing")
        with RawConnection(node.port) as client:
            client.socket.settimeout(20)
            client.socket.sendall(LARGE)
            assert client.receive()[1][-1] == 0


def all_memory_held(node: ServedNode, stack: ExitStack) -> list[RawConnection]:
    """Connections that hold it."""
    holders = [stack.enter_context(RawConnection(node.port)) for _ in range(30)]
    for holder in holders:
        holder.socket.sendall(b"\1" + (250 * KIB).to_bytes(4, "little") + bytes(200 * KIB))
    memory_bytes = node.limits.memory_bytes
    until(lambda: node.on_loop(lambda: node.metrics.held_bytes) >= memory_bytes, "there is room")
    return holders


def test_brokers_are_heard_whatever_clients_hold(tmp_path: Path) -> None:
    limits = replace(CROWDED, stalled_frame_ms=30_000)
    with ServedNode(tmp_path / "data", limits) as node, ExitStack() as stack:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))
        peer = stack.enter_context(RawConnection(node.port, 20))
        peer.ask(10, StatusRequest(1).encode())
        (session,) = [connection.session for connection in connections(node)]
        assert isinstance(session, TankSession)
        node.on_loop(session.forwards)
        client = stack.enter_context(RawConnection(node.port))
        client.ask(10, StatusRequest(1).encode())
        all_memory_held(node, stack)
        client.send(10, StatusRequest(1).encode())
        until(
            lambda: node.on_loop(lambda: bool(node.server.connections.memory.starved)),
            "the client did not wait",
        )
        peer.ask(10, StatusRequest(1).encode())
        large = produce_request([b"x" * 2_900 * KIB])
        large.client_version = 0x101
        peer.send(1, large.encode())
        assert peer.receive()[1][-1] == 0
        assert node.on_loop(lambda: node.server.connections.memory.large_frames) == 0
        # What comes first may be a broker's opening.
        stack.enter_context(RawConnection(node.port, 20)).ask(10, StatusRequest(1).encode())
        assert node.on_loop(lambda: bool(node.server.connections.memory.starved))


def test_a_client_that_is_gone_while_it_waits_for_memory_is_let_go_at_once(tmp_path: Path) -> None:
    limits = replace(CROWDED, stalled_frame_ms=30_000, housekeeping_ms=60_000)
    with ServedNode(tmp_path / "data", limits) as node, ExitStack() as stack:
        gone = RawConnection(node.port)
        gone.ask(10, StatusRequest(1).encode())
        holders = all_memory_held(node, stack)
        before = node.on_loop(lambda: node.metrics.refused["memory_pressure"])
        gone.send(10, StatusRequest(1).encode())
        until(
            lambda: node.on_loop(lambda: node.metrics.refused["memory_pressure"]) > before,
            "it did not have to wait",
        )
        gone.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
        until(lambda: len(connections(node)) == len(holders), "the connection stays")


def test_a_stop_does_not_forget_answers_that_are_about_to_leave(node: ServedNode) -> None:
    with RawConnection(node.port) as client:
        client.ask(10, StatusRequest(1).encode())

        def answer() -> bool:
            (connection,) = node.server.connections.by_fd.values()
            connection.session.opened()
            return node.server.is_busy()

        assert node.on_loop(answer)


def test_the_last_answers_are_not_lost_to_requests_that_come_too_late(node: ServedNode) -> None:
    with RawConnection(node.port) as client:
        client.send(2, consume(1, wait_ms=60_000).encode())
        until(lambda: node.on_loop(lambda: node.metrics.waiting) == 1, "the wait was not taken")

        def take_no_more() -> None:
            node.server.connections.stopping = True
            for connection in node.server.connections.by_fd.values():
                node.server.connections.watch(connection)

        node.on_loop(take_no_more)
        for _ in range(20):
            client.send(1, produce_request([b"x" * 1000]).encode())
        node.stop()
        assert client.receive()[0] == 2
        assert client.socket.recv(1) == b"", "it was reset"
