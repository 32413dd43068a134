"""Receiving: one buffer for all connections of a tick, and a separate one for each large frame."""

import contextlib
import logging
from mmap import mmap
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.connection import Connection
from tank_node.server.connections import Connections
from tank_node.server.memory import unwritten
from tank_protos.wire.errors import WireError

logger = logging.getLogger(__name__)

_HEAD_BYTES: Final = 16
"""The bytes at a large frame's start by which its session decides when to take it."""
_DISCARDED_RECEIVES: Final = 16
"""The most receives of `discard`: it doesn't wait for a client that goes on sending."""


class Receiver:
    """Reads connections into one buffer, the arena, and gives the bytes to their sessions.

    Invariant: staged batches lie in the arena below `used` until the broker's tick has ended; only then
    `used` goes back to 0.
    """

    def __init__(self, connections: Connections, broker: Broker, limits: Limits, metrics: Metrics) -> None:
        self._connections = connections
        self._memory = connections.memory
        self._broker = broker
        self._metrics = metrics
        self._receive_bytes = limits.receive_bytes
        self._memory_bytes = limits.memory_bytes
        self._reused_bytes = limits.reused_frame_bytes
        self._arena = unwritten(limits.arena_bytes)
        self._view = memoryview(self._arena)
        self._front = self._view[: self._receive_bytes]
        """The place of a tick's first receive, made once: most ticks have only one."""
        self.used = 0
        """The bytes of the arena that this tick's batches occupy."""

    def receive(self, connection: Connection) -> None:
        """Receives once from a readable connection, and gives the bytes to its session."""
        start = self.used
        metrics = self._metrics
        if (
            start > connection.last_start
            or connection.pending
            or connection.large is not None
            or metrics.held_bytes >= self._memory_bytes
        ):
            self._receive_on(connection)
            return
        room = connection.receive_bytes
        try:
            if not start and room == self._receive_bytes:
                count = connection.receive_into(self._front)
            else:
                count = connection.receive_into(self._view[start : start + room])
        except BlockingIOError:
            return
        except OSError:
            count = -1
        if count <= 0:
            self._ended(connection, count)
            return
        metrics.received_bytes += count
        connection.used = True
        # Before the session is called, which may raise: batches that it staged before must not be
        # overwritten.
        self.used = end = start + count
        session = connection.session
        try:
            rest = session.receive(self._arena, self._view, start, end)
        except Exception as error:
            self._failed(connection, error)
            return
        # The next receive overwrites the bytes that the session no longer needs, so small batches lie
        # together.
        self.used = session.kept
        if rest != end:
            self._keep(connection, start, rest, end)

    def _receive_on(self, connection: Connection) -> None:
        """As `receive`, in the rarer cases: pending bytes, a large frame, a full arena or full memory."""
        pending = connection.pending
        if connection.large is not None:
            self._receive_large(connection, connection.large)
            return
        if self._memory.is_full and not pending and self._waits(connection):
            self._connections.starve(connection)
            return
        start = self.used
        if start > connection.last_start:
            self._broker.end_tick()
            self.used = start = 0
        end = start + len(pending)
        self._arena[start:end] = pending
        stop = start + connection.receive_bytes
        if stop <= end:  # more is pending than one receive holds
            stop = end + connection.most_bytes
        try:
            count = connection.receive_into(self._view[end:stop])
        except BlockingIOError:
            return
        except OSError:
            count = -1
        self._received(connection, start, end, count)

    def _waits(self, connection: Connection) -> bool:
        """Whether this is a connection of a client, which is not read while memory is full. One that has sent
        nothing is read: it may be a broker's, whose first frame says so."""
        return connection.used and not connection.session.is_peer

    def _received(self, connection: Connection, start: int, end: int, count: int) -> None:
        """Handles a receive. Pending bytes lie in the arena from `start` to `end`, the `count` new ones
        behind them. count 0: the other end has closed its sending side; -1: the connection is broken."""
        if count > 0:
            self._metrics.received_bytes += count
            connection.used = True
            self._take(connection, start, end + count)
        else:
            self._ended(connection, count)

    def _ended(self, connection: Connection, count: int) -> None:
        if count:
            self._connections.close(connection, "")
        else:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        """Handles the end of a client's input: its requests are still answered, because scripts close their
        sending side and wait. `input_ended` queues a ping; the host of a client that is gone resets the
        connection then."""
        connection.ended = True
        if not connection.session.is_full:
            connection.pending = b""  # part of a frame; whole frames are left only by a full session
        if connection.is_done:
            self._connections.close(connection, "")
            return
        self._memory.hold(connection)
        self._connections.watch(connection)
        connection.session.input_ended()

    def resume(self, connection: Connection) -> None:
        """Gives a session, without a receive, the frames that it left while it was full."""
        pending = connection.pending
        if not connection.frames_wait or connection.starved or connection.session.is_full:
            return
        if connection.large is not None:
            connection.read_again(self._broker.tick.monotonic_ms)
            self._take_large(connection, connection.large)
            return
        if self.used > connection.last_start:
            self._broker.end_tick()
            self.used = 0
        start, end = self.used, self.used + len(pending)
        self._arena[start:end] = pending
        connection.read_again(self._broker.tick.monotonic_ms)
        self._take(connection, start, end)

    def _take(self, connection: Connection, start: int, end: int) -> None:
        """Gives the session the arena's bytes from `start` to `end`, and keeps those that it leaves."""
        session = connection.session
        self.used = end
        try:
            rest = session.receive(self._arena, self._view, start, end)
        except Exception as error:
            self._failed(connection, error)
            return
        self.used = session.kept
        if rest != end:
            self._keep(connection, start, rest, end)
        elif connection.pending:
            connection.pending = b""
            connection.frame_since_ms = 0
            self._memory.hold(connection)

    def _failed(self, connection: Connection, error: Exception) -> None:
        """Closes a connection whose session raised."""
        if isinstance(error, WireError):
            self._connections.refuse(connection, error.reason, str(error))
            return
        logger.error(
            "a bug of ours: a request failed; its connection is closed, please report it", exc_info=error
        )
        self._connections.close(connection, "internal_error")

    def _keep(self, connection: Connection, start: int, rest: int, end: int) -> None:
        """Keeps the bytes that the session left: part of a frame, or whole frames when it is full."""
        session = connection.session
        connection.progress_ms = self._broker.tick.monotonic_ms
        left = end - rest
        if left != len(connection.pending) or rest > start:
            connection.pending = bytes(self._view[rest:end])
        if rest > start or not connection.frame_since_ms:
            connection.frame_since_ms = self._broker.tick.monotonic_ms
        connection.frames_wait = session.is_full
        total = 0 if connection.frames_wait else session.frame_bytes(connection.pending)
        if total:
            most = connection.most_bytes
            if total > most:
                self._begin_large(connection, total)
            else:
                # A client likely sends more frames of this size: the next receive holds a whole number of
                # them, so that no part of a frame is copied to `pending` and back.
                connection.receive_bytes = most - most % total
        self._memory.hold(connection)
        if connection.frames_wait:
            self._connections.watch(connection)

    def _begin_large(self, connection: Connection, total: int) -> None:
        """Gives a frame that is larger than one receive its own buffer, or starves the connection until there
        is room."""
        if not self._memory.begin_large(connection, total):
            self._connections.starve(connection)

    def _receive_large(self, connection: Connection, large: mmap) -> None:
        filled = connection.large_filled
        stop = min(connection.large_bytes, filled + 4 * self._receive_bytes)
        try:
            with memoryview(large) as view, view[filled:stop] as room:
                count = connection.receive_into(room)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self._memory.forget(connection)
            self._end(connection)
            return
        self._metrics.received_bytes += count
        connection.progress_ms = self._broker.tick.monotonic_ms
        connection.large_filled += count
        if connection.large_filled == connection.large_bytes:
            self._take_large(connection, large)

    def _take_large(self, connection: Connection, large: mmap) -> None:
        """Gives a session a large frame that has come as a whole, or keeps it until the session takes it."""
        with memoryview(large) as view, view[:_HEAD_BYTES] as head:
            connection.frames_wait = not connection.session.may_take(head)
        if connection.frames_wait:
            self._connections.watch(connection)
            return
        total = connection.large_bytes
        self._memory.end_large(connection)
        connection.frame_since_ms = 0
        if total <= self._reused_bytes:
            self._memory.taken.append(large)
        try:
            connection.session.take_frame(memoryview(large)[:total])
        except Exception as error:
            self._failed(connection, error)
            return
        self._memory.hold(connection)

    def discard(self, connection: Connection) -> None:
        """Reads and drops unread input before a close. Closing a socket with unread bytes resets the
        connection, and the client may lose the last answers."""
        with contextlib.suppress(OSError):
            for _ in range(_DISCARDED_RECEIVES):
                if not connection.receive_into(self._view):
                    return

    def feed_starved(self) -> None:
        """Reads starved connections again, in the queue's order, as far as there is memory."""
        memory = self._memory
        starved, memory.starved = memory.starved, {}
        for connection in starved:
            total = connection.session.frame_bytes(connection.pending)
            if total > connection.most_bytes:
                self._begin_large(connection, total)
                self._memory.hold(connection)
            if connection not in memory.starved:
                connection.starved = False
                connection.read_again(self._broker.tick.monotonic_ms)
                self._connections.watch(connection)
