"""Several answers that leave together, however much of them the socket takes."""

import socket
from collections.abc import Iterator

import pytest

from tank_node.server.connection import Connection
from tank_node.server.transport import Transport
from tank_node.session import Session


@pytest.fixture
def ends() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection whose socket takes little at once, and its other end."""
    ours, other = socket.socketpair()
    with ours, other:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        ours.setblocking(False)
        other.setblocking(False)
        yield Connection(Transport(ours), Session(), 0, 1), other


def received(connection: Connection, other: socket.socket, size: int) -> bytes:
    """What arrives, while the rest is sent."""
    data = b""
    while len(data) < size:
        try:
            data += other.recv(1 << 20)
        except BlockingIOError:
            connection.drain(1 << 20)
    return data


@pytest.mark.parametrize("sizes", [(10, 20), (1, 40_000), (50_000, 3), (200_000, 5, 300_000), (9_000,) * 12])
def test_pieces_arrive_in_their_order(ends: tuple[Connection, socket.socket], sizes: tuple[int, ...]) -> None:
    connection, other = ends
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    count = connection.send_joined(list(pieces), sum(sizes))
    assert count + connection.unsent_bytes == sum(sizes)
    assert received(connection, other, sum(sizes)) == b"".join(pieces)
    assert not connection.unsent


def test_pieces_wait_for_a_socket_that_is_full(ends: tuple[Connection, socket.socket]) -> None:
    connection, other = ends
    connection.send(b"x" * 400_000)
    sent = 400_000 - connection.unsent_bytes
    connection.unsent.clear()
    connection.unsent_bytes = 0
    assert connection.send_joined([b"a" * 30_000, b"b" * 30_000], 60_000) == 0
    found = received(connection, other, sent + 60_000)
    assert found == b"x" * sent + b"a" * 30_000 + b"b" * 30_000
