"""Sockets to frames, in ticks: the node's event loop for the TANK port.

All sockets hang on an epoll of our own, whose descriptor the asyncio loop watches: one callback handles everything that is ready.
It reads each ready connection into one shared buffer, lets the sessions take their frames, ends the broker's tick (one write per
partition), and sends what the sessions answered, one system call per connection. See docs/decisions/0002-event-loop.md.
"""

import asyncio
import errno
import logging
import os
import resource
import select
import socket
from mmap import mmap

from tank_node.broker import Broker
from tank_node.connection import Connection
from tank_node.housekeeping import Housekeeping
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.sessions.tank import HEADER_BYTES, TankSession
from tank_protos.errors import WireError

logger = logging.getLogger(__name__)

_IN = select.EPOLLIN
_OUT = select.EPOLLOUT
_TROUBLE = select.EPOLLHUP | select.EPOLLERR
_BACKLOG = 1024
_STOP_STEP_S = 0.01


class TankServer:
    """Serves the TANK protocol on one address. `start` and `stop` are the composition root's."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        listen: tuple[str, int],
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self.broker = broker
        self.loop = loop
        self.listen = listen
        self.limits = limits
        self.metrics = metrics
        self.connections: dict[int, Connection] = {}
        """By descriptor."""
        self.starved: list[Connection] = []
        """Connections that are not read until memory is free."""
        self._epoll = select.epoll()
        self._listener: socket.socket | None = None
        self._spare_fd = -1
        """Given up for a moment when there are no descriptors left, to take a connection and close it."""
        self._arena = bytearray(limits.arena_bytes)
        self._view = memoryview(self._arena)
        self._used = 0
        """How much of the arena this tick's batches occupy."""
        self._dirty: list[Connection] = []
        """Connections whose session has answers."""
        self._in_tick = False
        self._finish_posted = False
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._housekeeping = Housekeeping(self)
        self._most_connections = limits.connections

    # --- life ------------------------------------------------------------------------------------

    async def start(self) -> tuple[str, int]:
        """Listens, and returns the address with the port that the system chose for port 0. Raises OSError."""
        host, port = self.listen
        infos = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = infos[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_connections = max(1, min(self.limits.connections, files - self.limits.files_kept_free))
        self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._epoll.register(listener.fileno(), _IN)
        self.loop.add_reader(self._epoll.fileno(), self._on_ready)
        self._housekeeping.start()
        bound: tuple[str, int] = listener.getsockname()[:2]
        return bound

    async def stop(self, grace_s: float) -> None:
        """Takes no more connections and requests, answers what waits, and closes; returns after `grace_s` at the latest.

        The broker's logs are still open afterwards: close the broker next.
        """
        self._stopping = True
        self._housekeeping.stop()
        if self._listener is not None:
            self._epoll.unregister(self._listener.fileno())
            self._listener.close()
            self._listener = None
        self.broker.begin_tick()
        self.broker.end_waits()
        self._finish_tick()
        for connection in list(self.connections.values()):
            self._watch(connection)
        deadline = self.loop.time() + grace_s
        while self.loop.time() < deadline and any(
            c.session.in_flight or c.unsent for c in self.connections.values()
        ):
            await asyncio.sleep(_STOP_STEP_S)
        for connection in list(self.connections.values()):
            self.close(connection, "")
        if self._timer is not None:
            self._timer.cancel()
        self.loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        if self._spare_fd >= 0:
            os.close(self._spare_fd)
            self._spare_fd = -1

    # --- the tick --------------------------------------------------------------------------------

    def _on_ready(self) -> None:
        """One tick: everything that is ready now."""
        began = self.loop.time()
        self.broker.begin_tick()
        self._in_tick = True
        connections = self.connections
        for fd, events in self._epoll.poll(0, self.limits.tick_events):
            connection = connections.get(fd)
            if connection is None:
                if self._listener is not None and fd == self._listener.fileno():
                    self._accept(self._listener)
                continue
            if events & _OUT:
                self._drain(connection)
            if events & (_IN | _TROUBLE) and not connection.closed:
                self._receive(connection)
        self._finish_tick()
        self.metrics.end_tick(self.loop.time() - began)

    def _finish_tick(self) -> None:
        """Ends the broker's tick and sends the answers; also after an fsync, a deadline or the controller made some."""
        self._in_tick = True
        self._finish_posted = False
        # Answers make room for requests that had to wait, whose answers make room again; each round handles new bytes,
        # so this ends. Rounds are few: one, unless a client has more under way than `Limits.in_flight`.
        while True:
            self.broker.end_tick()
            self._used = 0
            dirty = self._dirty
            if not dirty:
                break
            self._dirty = []
            for connection in dirty:
                if not connection.closed:
                    self._flush(connection)
            for connection in dirty:
                if not connection.closed and not connection.unsent:
                    if connection.pending:
                        self._resume(connection)
                    if not connection.events:
                        self._watch(connection)
        self._in_tick = False
        self._set_timer()

    def ready(self, connection: Connection) -> None:
        """A session has its first answer since it was flushed."""
        self._dirty.append(connection)
        if not self._in_tick and not self._finish_posted:
            self._finish_posted = True
            self.loop.call_soon(self._finish_late)

    def _finish_late(self) -> None:
        if self._finish_posted and not self._epoll.closed:
            self._finish_tick()

    def _set_timer(self) -> None:
        """Wakes the loop at the earliest deadline of a wait."""
        deadline_ms = self.broker.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        now_ms = self.broker.clock.monotonic_ms()
        self._timer_ms = deadline_ms
        self._timer = self.loop.call_later(max(deadline_ms - now_ms, 0) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.broker.begin_tick()
        self._in_tick = True
        self.broker.expire()
        self._finish_tick()

    # --- connections -----------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(self.limits.accepts_per_tick):
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._turn_away(listener)
                    return
                continue  # the client was gone before we came
            if len(self.connections) >= self._most_connections and not self._evict():
                self._housekeeping.refused("too_many_connections")
                sock.close()
                continue
            self._adopt(sock)

    def _turn_away(self, listener: socket.socket) -> None:
        """No descriptor is left: takes one connection with the spare one and closes it, so that epoll falls silent."""
        self._housekeeping.refused("no_descriptors")
        if self._spare_fd >= 0:
            os.close(self._spare_fd)
            self._spare_fd = -1
        try:
            listener.accept()[0].close()
        except OSError:
            pass
        try:
            self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            pass

    def _evict(self) -> bool:
        """Makes room by closing the oldest connection that never sent anything."""
        for connection in self.connections.values():
            if not connection.used:
                self.close(connection, "evicted")
                return True
        return False

    def _adopt(self, sock: socket.socket) -> None:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self.limits.socket_send_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.socket_send_bytes)
            connection = Connection(sock, TankSession(self.broker), self.broker.tick.monotonic_ms)
            connection.session.ready = lambda: self.ready(connection)
            self._epoll.register(connection.fd, _IN)
        except OSError:
            sock.close()
            return
        connection.events = _IN
        self.connections[connection.fd] = connection
        self.metrics.connections += 1
        self.metrics.connections_opened += 1
        connection.session.ping()

    def close(self, connection: Connection, reason: str) -> None:
        """Ends a connection. `reason` counts why we did; empty when the client did, or the server stops."""
        if connection.closed:
            return
        connection.closed = True
        if reason:
            self.metrics.closed[reason] += 1
        del self.connections[connection.fd]
        self.metrics.connections -= 1
        connection.session.close()
        connection.release()
        self._hold(connection)
        connection.socket.close()  # the kernel takes it out of epoll

    # --- receiving -------------------------------------------------------------------------------

    def _receive(self, connection: Connection) -> None:
        if connection.large is not None:
            self._receive_large(connection, connection.large)
            return
        if self.metrics.held_bytes >= self.limits.memory_bytes and not connection.pending:
            self._starve(connection)
            return
        pending = connection.pending
        if self._used + len(pending) + self.limits.receive_bytes > len(self._arena):
            self.broker.end_tick()
            self._used = 0
        start = self._used
        end = start + len(pending)
        if pending:
            self._arena[start:end] = pending
        try:
            count = connection.socket.recv_into(
                self._view[end : start + self.limits.receive_bytes + len(pending)]
            )
        except BlockingIOError:
            return
        except OSError:
            self.close(connection, "")
            return
        if not count:
            self.close(connection, "")
            return
        self.metrics.received_bytes += count
        connection.used = True
        connection.progress_ms = self.broker.tick.monotonic_ms
        self._take(connection, start, end + count)

    def _resume(self, connection: Connection) -> None:
        """Takes frames that had to wait for answers, without receiving."""
        pending = connection.pending
        if len(pending) < HEADER_BYTES or connection.session.in_flight >= self.limits.in_flight:
            return
        start, end = self._used, self._used + len(pending)
        if end > len(self._arena):
            self.broker.end_tick()
            start, end = 0, len(pending)
        self._arena[start:end] = pending
        self._take(connection, start, end)

    def _take(self, connection: Connection, start: int, end: int) -> None:
        """Gives the session what is in the arena from `start` to `end`, and keeps what it leaves."""
        session = connection.session
        try:
            rest = session.receive(self._arena, self._view, start, end)
        except WireError as error:
            self.refuse(connection, error)
            return
        except Exception:
            logger.exception("a request failed by a bug of ours; its connection is closed")
            self.close(connection, "internal_error")
            return
        self._used = end
        if rest == end:
            if connection.pending:
                connection.pending = b""
                connection.frame_since_ms = 0
                self._hold(connection)
            return
        left = end - rest
        if left != len(connection.pending) or rest > start:
            connection.pending = bytes(self._view[rest:end])
        if rest > start or not connection.frame_since_ms:
            connection.frame_since_ms = self.broker.tick.monotonic_ms
        if left >= HEADER_BYTES and session.in_flight < self.limits.in_flight:
            total = HEADER_BYTES + int.from_bytes(connection.pending[1:HEADER_BYTES], "little")
            if total > self.limits.receive_bytes:
                self._begin_large(connection, total)
        self._hold(connection)
        if session.in_flight >= self.limits.in_flight:
            self._watch(connection)

    def _begin_large(self, connection: Connection, total: int) -> None:
        """Goes over to a buffer of its own for a frame that is larger than one receive."""
        if self.metrics.held_bytes + total > self.limits.memory_bytes:
            self._starve(connection)
            return
        pending = connection.pending
        connection.large = mmap(-1, total)
        connection.large[: len(pending)] = pending
        connection.large_bytes = total
        connection.large_filled = len(pending)
        connection.pending = b""

    def _receive_large(self, connection: Connection, large: mmap) -> None:
        filled = connection.large_filled
        stop = min(connection.large_bytes, filled + 4 * self.limits.receive_bytes)
        try:
            with memoryview(large) as view, view[filled:stop] as room:
                count = connection.socket.recv_into(room)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self.close(connection, "")
            return
        self.metrics.received_bytes += count
        connection.progress_ms = self.broker.tick.monotonic_ms
        connection.large_filled += count
        if connection.large_filled < connection.large_bytes:
            return
        connection.large = None
        connection.frame_since_ms = 0
        connection.large_bytes = connection.large_filled = 0
        try:
            connection.session.frame(large[0], memoryview(large)[HEADER_BYTES:])
        except WireError as error:
            self.refuse(connection, error)
            return
        except Exception:
            logger.exception("a request failed by a bug of ours; its connection is closed")
            self.close(connection, "internal_error")
            return
        self._hold(connection)

    def refuse(self, connection: Connection, error: WireError) -> None:
        """Closes a connection that sent what can't be taken: without an answer, as the protocol has it."""
        self._housekeeping.refused(error.reason, str(error))
        self.close(connection, error.reason)

    # --- sending ---------------------------------------------------------------------------------

    def _flush(self, connection: Connection) -> None:
        """Sends what the session answered."""
        session = connection.session
        out = session.out
        if not out:
            return
        if not connection.unsent and len(out) == 1 and isinstance(out[0], bytes):
            data = out[0]
        elif not connection.unsent and not session.has_chunks:
            data = b"".join(out)  # type: ignore[arg-type]
        else:
            connection.queue(out)
            out.clear()
            session.has_chunks = False
            self._drain(connection)
            return
        out.clear()
        try:
            count = connection.socket.send(data)
        except BlockingIOError:
            count = 0
        except OSError:
            self.close(connection, "")
            return
        self.metrics.sent_bytes += count
        if count < len(data):
            connection.queue([data[count:]])
            self._blocked(connection)

    def _drain(self, connection: Connection) -> None:
        """Sends what didn't fit before."""
        try:
            sent = connection.drain(self.limits.send_once_bytes)
        except OSError as error:
            if isinstance(error, ConnectionError):
                self.close(connection, "")
            else:
                logger.error("a chunk could not be sent: %s", error)
                self.close(connection, "chunk_lost")
            return
        self.metrics.sent_bytes += sent
        if sent:
            connection.send_progress_ms = self.broker.tick.monotonic_ms
        if connection.unsent:
            self._blocked(connection)
        elif connection.events != _IN:
            self._hold(connection)
            self._watch(connection)
            if connection.pending:
                self._dirty.append(connection)  # frames that had to wait

    def _blocked(self, connection: Connection) -> None:
        if not connection.events & _OUT:
            connection.send_progress_ms = self.broker.tick.monotonic_ms
        self._hold(connection)
        self._watch(connection)

    # --- bookkeeping -----------------------------------------------------------------------------

    def _watch(self, connection: Connection) -> None:
        """Asks epoll for what this connection may do now: a client that doesn't read isn't read."""
        events = 0
        if connection.unsent:
            events = _OUT
        elif not (
            self._stopping or connection.starved or connection.session.in_flight >= self.limits.in_flight
        ):
            events = _IN
        if events != connection.events and not connection.closed:
            connection.events = events
            self._epoll.modify(connection.fd, events)

    def _hold(self, connection: Connection) -> None:
        """Counts the memory that a connection holds now."""
        held = (
            0
            if connection.closed
            else len(connection.pending) + connection.large_bytes + connection.unsent_bytes
        )
        self.metrics.held_bytes += held - connection.held_bytes
        connection.held_bytes = held

    def _starve(self, connection: Connection) -> None:
        connection.starved = True
        self.metrics.refused["memory_pressure"] += 1
        self.starved.append(connection)
        self._watch(connection)

    def feed_starved(self) -> None:
        """Reads again those that waited for memory, if there is some."""
        starved, self.starved = self.starved, []
        for connection in starved:
            if connection.closed:
                continue
            connection.starved = False
            if len(connection.pending) >= HEADER_BYTES:
                total = HEADER_BYTES + int.from_bytes(connection.pending[1:HEADER_BYTES], "little")
                if total > self.limits.receive_bytes:
                    self._begin_large(connection, total)
                    self._hold(connection)
            self._watch(connection)
