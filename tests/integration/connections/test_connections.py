"""Real sockets: many connections, slow ones, half frames, and clients that don't read."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.limits import KIB, MIB, Limits
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumeRequest,
    ConsumeResponse,
    CreateTopicRequest,
)
from tank_protos.wire.framing import frame
from tests.integration.connections.raw_connections import (
    consume,
    is_closed_by_the_broker,
    produce,
    produce_request,
)
from tests.integration.connections.raw_connections import node as node
from tests.support.clients.raw_client import RawConnection
from tests.support.nodes.served_node import ServedNode
from tests.support.processes.broker_process import BrokerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.integration

QUICK = Limits(
    housekeeping_ms=20,
    unused_connection_ms=150,
    stalled_frame_ms=150,
    slowest_bytes_per_s=10 * MIB,
    stalled_send_ms=300,
)


def ask(client: RawConnection, request: ConsumeRequest) -> ConsumeResponse:
    return ConsumeResponse.decode(client.ask(request.ID, request.encode()))


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[ServedNode]:
    with ServedNode(tmp_path / "data", QUICK) as node:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))
        yield node


def test_a_connection_that_never_sends_is_closed_and_one_that_did_is_not(quick: ServedNode) -> None:
    with RawConnection(quick.port) as used, RawConnection(quick.port) as unused:
        assert produce(used, [b"x"]) == 0
        assert is_closed_by_the_broker(unused)
        assert produce(used, [b"x"]) == 0
    assert quick.metrics.closed["unused"] == 1


def test_half_a_frame_is_closed_in_the_end(quick: ServedNode) -> None:
    with RawConnection(quick.port) as client:
        client.socket.sendall(b"\x01\x00\x01\x00\x00half")
        assert is_closed_by_the_broker(client)
    assert quick.metrics.closed["stalled_frame"] == 1


def test_a_client_that_sends_byte_after_byte_is_closed_in_the_end(quick: ServedNode) -> None:
    with RawConnection(quick.port) as client:
        client.socket.sendall(b"\x01\x00\x10\x00\x00")
        client.socket.settimeout(0.02)
        until(lambda: _closed_while_trickling(client), "the slow client is still served")
    assert quick.metrics.closed["slow_frame"] == 1


def _closed_while_trickling(client: RawConnection) -> bool:
    try:
        client.socket.sendall(b"x")
        return client.socket.recv(100) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_client_that_we_did_not_read_is_not_blamed_for_its_half_frame(tmp_path: Path) -> None:
    limits = replace(QUICK, in_flight=1, stalled_frame_ms=700)
    with ServedNode(tmp_path / "data", limits) as node, RawConnection(node.port) as client:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))
        wait = b"".join(frame(2, consume(1, wait_ms=900).encode()))
        late = b"".join(frame(1, produce_request([b"x"]).encode()))
        client.socket.sendall(wait + late[:20])
        assert client.receive()[0] == 2
        time.sleep(0.1)  # several looks at the connections
        client.socket.sendall(late[20:])
        assert client.receive()[1][-1] == 0


def test_garbage_closes_one_connection_and_no_other(node: ServedNode) -> None:
    with RawConnection(node.port) as good:
        for unknown_id in range(0x80, 0x80 + 50):  # a known one may begin a frame that is worth waiting for
            with RawConnection(node.port) as bad:
                bad.socket.sendall(bytes([unknown_id]) + os.urandom(200))
                assert is_closed_by_the_broker(bad)
        assert produce(good, [b"x"]) == 0
    assert sum(node.metrics.refused.values()) == 50


def test_a_bug_in_sending_to_one_client_costs_no_other_its_answers(node: ServedNode) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(RawConnection(node.port)) for _ in range(3)]
        for client in clients:
            assert produce(client, [b"x"]) == 0

        def send_to_all() -> None:
            for at, connection in enumerate(node.server.connections.by_fd.values()):
                connection.session.opened()
                if not at:
                    connection.session.out.append(None)  # type: ignore[arg-type]

        node.on_loop(send_to_all)
        assert is_closed_by_the_broker(clients[0])
        for client in clients[1:]:
            assert produce(client, [b"y"]) == 0


def test_what_came_before_a_bad_frame_is_stored_as_it_was_sent(node: ServedNode) -> None:
    """The clients of a tick share a buffer: what is staged in it must outlive the one that is closed."""
    bad = b"".join(frame(1, produce_request([b"first" * 20]).encode())) + b"\xff" * 5
    good = b"".join(frame(1, produce_request([b"other" * 20]).encode()))
    with RawConnection(node.port) as closed, RawConnection(node.port) as kept:
        assert [produce(client, [b"warm"]) for client in (closed, kept)] == [0, 0]

        def both_at_once() -> None:
            closed.socket.sendall(bad)
            kept.socket.sendall(good)

        node.on_loop(both_at_once)
        assert kept.receive()[1][-1] == 0
        stored = bundle.bundles(memoryview(ask(kept, consume(1)).chunks))
        values = [message.value for one in stored for message in bundle.decode(one, 1)]
    assert sorted(values) == [b"first" * 20, b"other" * 20, b"warm", b"warm"]


def test_frames_larger_than_a_receive_come_through_whole(node: ServedNode) -> None:
    content = [os.urandom(5 * MIB), os.urandom(300 * KIB), b"small"]
    with RawConnection(node.port) as client:
        for value in content:
            assert produce(client, [value]) == 0
        found = [
            bundle.decode(next(bundle.bundles(memoryview(ask(client, consume(n, size=1)).chunks))), n)[
                0
            ].value
            for n in (1, 2, 3)
        ]
    assert found == content
    assert node.on_loop(lambda: node.metrics.held_bytes) == 0


def test_large_frames_that_get_the_buffers_of_others_are_stored_as_they_were_sent(node: ServedNode) -> None:
    """Of four clients at once, each with several frames under way: staged bundles lie in those buffers."""
    sent = {number: [os.urandom(size * 100 * KIB) for size in (3, 9, 4, 12, 5, 7)] for number in range(4)}
    with ExitStack() as stack:
        clients = {number: stack.enter_context(RawConnection(node.port)) for number in sent}

        def write(number: int) -> None:
            for value in sent[number]:
                request = produce_request([bytes([number]) + value])
                clients[number].send(request.ID, request.encode())

        writers = [threading.Thread(target=write, args=(number,)) for number in sent]
        for writer in writers:
            writer.start()
        for number, client in clients.items():
            for _ in sent[number]:
                assert client.receive()[1][-1] == 0
        for writer in writers:
            writer.join()
        answer = ask(clients[0], consume(1, size=64 * MIB))
    stored: dict[int, list[bytes]] = {number: [] for number in sent}
    for each in bundle.bundles(memoryview(answer.chunks)):
        for message in bundle.decode(each, 1):
            stored[message.value[0]].append(bytes(message.value[1:]))
    assert stored == sent


def test_a_consumer_that_does_not_read_gets_no_more_and_holds_no_memory(node: ServedNode) -> None:
    with RawConnection(node.port) as client:
        for _ in range(16):
            produce(client, [b"x" * MIB])
    requests = 2000
    with RawConnection(node.port) as lazy, RawConnection(node.port) as lively:
        lazy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
        one = b"".join(frame(2, consume(1, size=16 * MIB).encode()))
        lazy.socket.setblocking(False)
        sent = 0
        for _ in range(requests):
            try:
                sent += lazy.socket.send(one)
            except BlockingIOError:
                break
        until(lambda: node.on_loop(lambda: _blocked(node)) == 1, "the lazy consumer is not held back")
        for _ in range(20):
            assert produce(lively, [b"y"]) == 0
        held = node.on_loop(lambda: node.metrics.held_bytes)
        assert held < 2 * MIB
        assert node.on_loop(lambda: node.metrics.consumed_bytes) < requests * 16 * MIB


def _blocked(node: ServedNode) -> int:
    return sum(1 for connection in node.server.connections.by_fd.values() if connection.unsent)


def test_a_client_that_takes_nothing_is_closed_in_the_end(quick: ServedNode) -> None:
    with RawConnection(quick.port) as client:
        for _ in range(8):
            produce(client, [b"x" * MIB])
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
        for _ in range(10):
            client.send(2, consume(1, size=8 * MIB).encode())
        until(lambda: quick.metrics.closed["stalled_send"] == 1, "it is still waited for")
    until(lambda: quick.on_loop(lambda: _pins(quick)) == 0, "its files are still pinned")


def _pins(node: ServedNode) -> int:
    """How often files of logs have to stay open."""
    segments = [segment for log in node.broker.data_folder.logs.values() for segment in log.segments.list]
    return sum(segment.log_end.file.pins + segment.index_end.file.pins for segment in segments)


def test_large_frames_wait_for_memory_and_come_through(tmp_path: Path) -> None:
    limits = Limits(
        frame_bytes=4 * MIB,
        bundle_bytes=3 * MIB,
        memory_bytes=5 * MIB,
        housekeeping_ms=10,
    )
    with ServedNode(tmp_path / "data", limits) as node, ExitStack() as stack:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))
        clients = [stack.enter_context(RawConnection(node.port)) for _ in range(6)]
        whole = b"".join(frame(1, produce_request([b"x" * 2 * MIB]).encode()))
        for client in clients:
            client.socket.sendall(whole[: 600 * KIB])
        until(
            lambda: node.on_loop(lambda: bool(node.server.connections.memory.starved)), "nobody had to wait"
        )
        assert (
            node.on_loop(lambda: node.metrics.held_bytes)
            <= limits.memory_bytes + 6 * 2 * limits.receive_bytes
        )
        for client in clients:
            client.socket.settimeout(30)
            _send_in_background(client, whole[600 * KIB :])
        for client in clients:
            assert client.receive()[1][-1] == 0


def _send_in_background(client: RawConnection, rest: bytes) -> None:
    """The broker may not read this one before others are done."""
    threading.Thread(target=client.socket.sendall, args=(rest,), daemon=True).start()


def test_beyond_the_bound_of_connections_the_oldest_unused_goes_else_the_new_one(tmp_path: Path) -> None:
    with ServedNode(tmp_path / "data", Limits(connections=2)) as node:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))
        with RawConnection(node.port) as used:
            assert produce(used, [b"x"]) == 0
            with RawConnection(node.port) as unused, RawConnection(node.port) as late:
                assert produce(late, [b"x"]) == 0
                assert is_closed_by_the_broker(unused)
                with RawConnection(node.port) as refused:
                    assert is_closed_by_the_broker(refused)
                assert produce(used, [b"x"]) == 0
        assert node.metrics.closed["evicted"] == 1
        assert node.metrics.refused["too_many_connections"] == 1


def test_a_stop_answers_who_waits(tmp_path: Path) -> None:
    with ServedNode(tmp_path / "data") as node:
        node.on_loop(lambda: node.controller.add("a", 1, flush="disk"))
        with RawConnection(node.port) as consumer, RawConnection(node.port) as producer:
            consumer.send(2, consume(1, wait_ms=60_000).encode())
            until(lambda: node.on_loop(lambda: node.metrics.waiting) == 1, "the wait was not taken")
            request = produce_request([b"x"])
            node.stop()
            assert ConsumeResponse.decode(consumer.receive()[1]).topics[0].partitions[0].chunk_length == 0
            with pytest.raises(OSError):
                producer.send(1, request.encode())
                producer.receive()


def test_a_thousand_idle_and_two_hundred_busy_connections(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker, ExitStack() as stack:
        idle_bytes = broker.resident_bytes()
        first = stack.enter_context(RawConnection(broker.port, 30))
        first.ask(7, CreateTopicRequest(1, "a", 1, b"flush=replicated").encode())
        idle = [stack.enter_context(RawConnection(broker.port, 30)) for _ in range(1000)]
        for client in idle:
            client.socket.sendall(b"\3\0\0\0\0")
        busy = [stack.enter_context(RawConnection(broker.port, 30)) for _ in range(200)]
        request = b"".join(frame(1, produce_request([b"x" * 20_000]).encode()))
        read = b"".join(frame(2, consume(1, wait_ms=10_000, size=20_000).encode()))
        for _ in range(10):
            for client in busy:
                client.socket.sendall(request * 2 + read)
            for client in busy:
                answers = dict([client.receive() for _ in range(3)])
                assert answers[1][-1] == 0
                assert ConsumeResponse.decode(answers[2]).topics[0].partitions[0].chunk_length > 20_000
        used_bytes = broker.resident_bytes()
        assert "tank_connections 1201.0" in broker.metrics()
        for client in (first, idle[0], idle[999], busy[199]):
            assert produce(client, [b"still here"]) == 0
        waits = [idle[0], busy[0]]
        for client in waits:
            client.send(2, consume(2**64 - 1, wait_ms=60_000).encode())
        until(lambda: 'tank_waiting_requests{kind="consume"} 2.0' in broker.metrics(), "they don't wait")
        assert broker.stop() == 0
        for client in waits:
            assert ConsumeResponse.decode(client.receive()[1]).topics[0].partitions[0].chunk_length == 0
    print(f"idle {idle_bytes / MIB:.0f} MiB, with 1,000 idle and 200 busy {used_bytes / MIB:.0f} MiB")
    assert idle_bytes < 60 * MIB
    assert used_bytes < 300 * MIB
