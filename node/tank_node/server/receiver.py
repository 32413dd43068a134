"""What comes in: a shared buffer for all connections of a tick, and one of its own for a large frame."""

import contextlib
import logging
from mmap import mmap
from typing import TYPE_CHECKING, Final

from tank_node.limits import Limits
from tank_node.server.connection import Connection
from tank_node.session import Session
from tank_protos.errors import WireError
from tank_protos.framing import HEADER_BYTES

if TYPE_CHECKING:
    from tank_node.server.server import TankServer

logger = logging.getLogger(__name__)

_DISCARDED_RECEIVES: Final = 16
"""A client that goes on sending is not waited for."""


class Receiver:
    """Reads connections into the arena and gives it to their sessions.

    Invariant: batches that were staged lie in the arena below `used` until the broker's tick has ended; only
    then does `used` go back to 0.
    """

    def __init__(self, server: "TankServer", limits: Limits) -> None:
        self._server = server
        self._limits = limits
        self._broker = server.broker
        self._metrics = server.metrics
        self._receive_bytes = limits.receive_bytes
        self._peer_receive_bytes = min(limits.peer_receive_bytes, limits.arena_bytes // 4)
        self._memory_bytes = limits.memory_bytes
        self._arena = bytearray(limits.arena_bytes)
        self._view = memoryview(self._arena)
        self._front = self._view[: self._receive_bytes]
        """Where the first receive of a tick goes, and the only one of most."""
        self.used = 0
        """How much of the arena this tick's batches occupy."""
        self.starved: dict[Connection, None] = {}
        """Connections that are not read until memory is free, the longest waiting first."""
        self._large_frames = 0
        """How many clients have one under way."""

    def serve(self, connection: Connection, session: Session) -> None:
        """How much this connection is read at once, from now on."""
        most = self._peer_receive_bytes if session.is_peer else self._receive_bytes
        connection.most_bytes = connection.receive_bytes = most
        # Behind it there is room for a receive and all that can be pending before it, and some to spare.
        connection.last_start = len(self._arena) - 3 * most

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
        if self._metrics.held_bytes >= self._memory_bytes and not pending and self._waits(connection):
            self._starve(connection)
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
            self._server.close(connection, "")
        else:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        """The client sends nothing more. What it asked for before is still answered: scripts close their
        sending side and wait. If it is gone altogether, its system says so when it gets the ping."""
        connection.ended = True
        if not connection.session.is_full:
            connection.pending = b""  # part of a frame; of a full session's there may be whole ones
        if connection.is_done:
            self._server.close(connection, "")
            return
        self._server.hold(connection)
        self._server.watch(connection)
        connection.session.ping()

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
            self._server.hold(connection)

    def _failed(self, connection: Connection, error: Exception) -> None:
        """The session could not take what came."""
        if isinstance(error, WireError):
            self._server.refuse(connection, error)
            return
        logger.error("a request failed by a bug of ours; its connection is closed", exc_info=error)
        self._server.close(connection, "internal_error")

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
        if left >= HEADER_BYTES and not connection.frames_wait:
            total = HEADER_BYTES + int.from_bytes(connection.pending[1:HEADER_BYTES], "little")
            most = connection.most_bytes
            if total > most:
                self._begin_large(connection, total)
            else:
                # Whoever sends such frames sends more of them: the next receive is to end where one does, so
                # that no part of a frame is copied here and back.
                connection.receive_bytes = most - most % total
        self._server.hold(connection)
        if connection.frames_wait:
            self._server.watch(connection)

    def _begin_large(self, connection: Connection, total: int) -> None:
        """Goes over to a buffer of its own for a frame that is larger than one receive.

        Who finds no room waits in line. One such frame is let through at any time, so the line moves, and
        who holds memory is bound to `Limits.slowest_bytes_per_s`: nobody waits for ever. Brokers, which are
        few, don't stand in that line.
        """
        full = self._metrics.held_bytes + total > self._limits.memory_bytes
        if not connection.session.is_peer and (self.starved or (full and self._large_frames)):
            self._starve(connection)
            return
        try:
            large = mmap(-1, total)
        except OSError:  # the system has none
            self._starve(connection)
            return
        pending = connection.pending
        large[: len(pending)] = pending
        connection.large = large
        connection.large_bytes = total
        connection.large_filled = len(pending)
        connection.pending = b""
        self._large_frames += not connection.session.is_peer

    def _receive_large(self, connection: Connection, large: mmap) -> None:
        filled = connection.large_filled
        stop = min(connection.large_bytes, filled + 4 * self._limits.receive_bytes)
        try:
            with memoryview(large) as view, view[filled:stop] as room:
                count = connection.socket.recv_into(room)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self.forget(connection)
            self._end(connection)
            return
        self._metrics.received_bytes += count
        connection.progress_ms = self._broker.tick.monotonic_ms
        connection.large_filled += count
        if connection.large_filled < connection.large_bytes:
            return
        connection.large = None
        connection.frame_since_ms = 0
        connection.large_bytes = connection.large_filled = 0
        self._large_frames -= not connection.session.is_peer
        try:
            connection.session.frame(large[0], memoryview(large)[HEADER_BYTES:])
        except Exception as error:
            self._failed(connection, error)
            return
        self._server.hold(connection)

    def forget(self, connection: Connection) -> None:
        """Drops the large frame that is under way, and the place in the line."""
        if connection.large is not None:
            connection.large = None
            connection.large_bytes = connection.large_filled = 0
            self._large_frames -= not connection.session.is_peer
        self.starved.pop(connection, None)

    def discard(self, connection: Connection) -> None:
        """Throws away what came and was not read. A socket that is closed over unread bytes resets the
        connection, which can overtake the last answers."""
        with contextlib.suppress(OSError):
            for _ in range(_DISCARDED_RECEIVES):
                if not connection.socket.recv_into(self._view):
                    return

    def _starve(self, connection: Connection) -> None:
        if not connection.starved:
            connection.starved = True
            self._metrics.refused["memory_pressure"] += 1
        self.starved[connection] = None
        self._server.watch(connection)

    def feed_starved(self) -> None:
        """Reads again those that waited for memory, in their order, if there is some."""
        starved, self.starved = self.starved, {}
        for connection in starved:
            total = 0
            if len(connection.pending) >= HEADER_BYTES:
                total = HEADER_BYTES + int.from_bytes(connection.pending[1:HEADER_BYTES], "little")
            if total > connection.most_bytes:
                self._begin_large(connection, total)
                self._server.hold(connection)
            if connection not in self.starved:
                connection.starved = False
                connection.read_again(self._broker.tick.monotonic_ms)
                self._server.watch(connection)
