"""Buffers for large frames: which are kept for the next frame."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap

from tank_node.limits import KIB, Limits
from tank_node.metrics import Metrics
from tank_node.server.connection import Connection
from tank_node.server.memory import ConnectionMemory
from tank_node.server.transport import Transport
from tank_node.session import Session

LIMITS = Limits(reused_frame_bytes=300 * KIB, reused_buffers=2)


@contextmanager
def connections(count: int) -> Iterator[list[Connection]]:
    sockets = [socket.socket() for _ in range(count)]
    yield [Connection(Transport(sock), Session(), 0, number) for number, sock in enumerate(sockets)]
    for sock in sockets:
        sock.close()


def buffer_of(memory: ConnectionMemory, connection: Connection, total: int) -> mmap:
    """The buffer that a frame of this size gets."""
    assert memory.begin_large(connection, total)
    assert connection.large is not None
    return connection.large


def end(memory: ConnectionMemory, connection: Connection) -> None:
    """The frame is whole, and its tick has ended."""
    assert connection.large is not None
    memory.taken.append(connection.large)
    memory.end_large(connection)
    memory.reuse()


def test_the_next_large_frame_gets_the_buffer_of_the_last() -> None:
    memory = ConnectionMemory(LIMITS, Metrics())
    with connections(2) as (one, other):
        first = buffer_of(memory, one, 280 * KIB)
        kept = id(first)
        del first
        end(memory, one)
        assert id(buffer_of(memory, other, 260 * KIB)) == kept
        assert id(buffer_of(memory, one, 260 * KIB)) != kept, "that one is in use"


def test_a_buffer_to_which_something_still_refers_is_not_given_to_another_frame() -> None:
    memory = ConnectionMemory(LIMITS, Metrics())
    with connections(1) as (connection,):
        held = memoryview(buffer_of(memory, connection, 260 * KIB))[:10]
        end(memory, connection)
        buffer_of(memory, connection, 260 * KIB)[:10] = b"other data"
        assert held == bytes(10)


def test_few_buffers_are_kept_and_no_larger_ones() -> None:
    memory = ConnectionMemory(LIMITS, Metrics())
    with connections(3) as several:
        buffers = [buffer_of(memory, each, 260 * KIB) for each in several]
        for each in several:
            end(memory, each)
        found = [buffer_of(memory, each, 260 * KIB) for each in several]
        assert sum(each in buffers for each in found) == LIMITS.reused_buffers
        for each in several:
            memory.end_large(each)
        assert len(buffer_of(memory, several[0], 301 * KIB)) == 301 * KIB
