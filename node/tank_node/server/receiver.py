"""What comes in: a shared buffer for all connections of a tick, and one of its own for a large frame."""

import contextlib
import logging
from mmap import mmap
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.connection import Connection
from tank_node.server.connections import Connections
from tank_protos.wire.errors import WireError

logger = logging.getLogger(__name__)

_DISCARDED_RECEIVES: Final = 16
"""A client that goes on sending is not waited for."""


class Receiver:
    """Reads connections into the arena and gives it to their sessions.

    Invariant: batches that were staged lie in the arena below `used` until the broker's tick has ended; only
    then does `used` go back to 0.
    """

    def __init__(self, connections: Connections, broker: Broker, limits: Limits, metrics: Metrics) -> None:
        self._connections = connections
        self._memory = connections.memory
        self._broker = broker
        self._metrics = metrics
        self._receive_bytes = limits.receive_bytes
        self._memory_bytes = limits.memory_bytes
        self._arena = bytearray(limits.arena_bytes)
        self._view = memoryview(self._arena)
        self._front = self._view[: self._receive_bytes]
        """Where the first receive of a tick goes, and the only one of most."""
        self.used = 0
        """How much of the arena this tick's batches occupy."""

    def receive(self, connection: Connection) -> None:
        """Reads a connection that has something, and gives what came to its session."""
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
        # Also when the session refuses: what it staged before the bad frame must not be overwritten.
        self.used = end = start + count
        session = connection.session
        try:
            rest = session.receive(self._arena, self._view, start, end)
        except Exception as error:
            self._failed(connection, error)
            return
        # What it does not need any more the next connection may have, so that small batches lie together.
        self.used = session.kept
        if rest != end:
            self._keep(connection, start, rest, end)

    def _receive_on(self, connection: Connection) -> None:
        """As `receive`, with what came before and was no whole frame; or when there is no room."""
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
        if stop <= end:  # more than part of a frame is there
            stop = end + connection.most_bytes
        try:
            count = connection.receive_into(self._view[end:stop])
        except BlockingIOError:
            return
        except OSError:
            count = -1
        self._received(connection, start, end, count)

    def _waits(self, connection: Connection) -> bool:
        """Whether it is a client's, which is not read while memory is held. What comes first may be a
        broker's opening."""
        return connection.used and not connection.session.is_peer

    def _received(self, connection: Connection, start: int, end: int, count: int) -> None:
        """So many bytes came, to `end` of the arena, behind what was there from `start` on; -1: broken."""
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
        """The client sends nothing more. What it asked for before is still answered: scripts close their
        sending side and wait. If it is gone altogether, its system says so when it gets the ping."""
        connection.ended = True
        if not connection.session.is_full:
            connection.pending = b""  # part of a frame; of a full session's there may be whole ones
        if connection.is_done:
            self._connections.close(connection, "")
            return
        self._memory.hold(connection)
        self._connections.watch(connection)
        connection.session.input_ended()

    def resume(self, connection: Connection) -> None:
        """Takes frames that had to wait for answers, without receiving."""
        pending = connection.pending
        if not connection.frames_wait or connection.starved or connection.session.is_full:
            return
        if self.used > connection.last_start:
            self._broker.end_tick()
            self.used = 0
        start, end = self.used, self.used + len(pending)
        self._arena[start:end] = pending
        connection.read_again(self._broker.tick.monotonic_ms)
        self._take(connection, start, end)

    def _take(self, connection: Connection, start: int, end: int) -> None:
        """Gives the session what is in the arena from `start` to `end`, and keeps what it leaves."""
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
        """The session could not take what came."""
        if isinstance(error, WireError):
            self._connections.refuse(connection, error.reason, str(error))
            return
        logger.error("a request failed by a bug of ours; its connection is closed", exc_info=error)
        self._connections.close(connection, "internal_error")

    def _keep(self, connection: Connection, start: int, rest: int, end: int) -> None:
        """Keeps what the session left: part of a frame, or frames that have to wait."""
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
                # Whoever sends such frames sends more of them: the next receive is to end where one does, so
                # that no part of a frame is copied here and back.
                connection.receive_bytes = most - most % total
        self._memory.hold(connection)
        if connection.frames_wait:
            self._connections.watch(connection)

    def _begin_large(self, connection: Connection, total: int) -> None:
        """Goes over to a buffer of its own for a frame that is larger than one receive, or waits in line."""
        if not self._memory.begin_large(connection, total):
            self._connections.starve(connection)

    def _receive_large(self, connection: Connection, large: mmap) -> None:
        filled = connection.large_filled
        stop = min(connection.large_bytes, filled + 4 * self._receive_bytes)
        try:
            with memoryview(large) as view, view[filled:stop] as room:
                count = connection.socket.recv_into(room)
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
        if connection.large_filled < connection.large_bytes:
            return
        self._memory.end_large(connection)
        connection.frame_since_ms = 0
        try:
            connection.session.take_frame(memoryview(large))
        except Exception as error:
            self._failed(connection, error)
            return
        self._memory.hold(connection)

    def discard(self, connection: Connection) -> None:
        """Throws away what came and was not read. A socket that is closed over unread bytes resets the
        connection, which can overtake the last answers."""
        with contextlib.suppress(OSError):
            for _ in range(_DISCARDED_RECEIVES):
                if not connection.socket.recv_into(self._view):
                    return

    def feed_starved(self) -> None:
        """Reads again those that waited for memory, in their order, if there is some."""
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
