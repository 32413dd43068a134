"""The connections of a server: which there are, which session talks over each, what epoll watches of it."""

import select
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.connection import Connection, keep_alive
from tank_node.server.memory import ConnectionMemory
from tank_node.session import Session

_IN: Final = select.EPOLLIN
_OUT: Final = select.EPOLLOUT


class Connections:
    """Opens and closes connections, those of clients and those that this node made itself."""

    def __init__(
        self,
        epoll: select.epoll,
        broker: Broker,
        limits: Limits,
        metrics: Metrics,
        ready: Callable[[Connection], None],
    ) -> None:
        """ready: is called with a connection whose session has its first answer since it was flushed."""
        self._epoll = epoll
        self._broker = broker
        self._limits = limits
        self._metrics = metrics
        self._ready = ready
        self.memory = ConnectionMemory(limits, metrics)
        self.by_fd: dict[int, Connection] = {}
        self.stopping = False
        """No client is read any more. Brokers are: answers to clients wait for theirs."""
        self.stopped = False
        """No connection is opened any more."""

    def open(self, sock: socket.socket, session: Session, events: int) -> Connection | None:
        """Takes a socket in, with the session that talks over it; None, and the socket is closed, when it
        is broken or the server has stopped. `events`: what epoll watches at first; EPOLLOUT while it
        connects."""
        if self.stopped:
            sock.close()
            return None
        limits = self._limits
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(sock, limits)
            if limits.socket_send_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.socket_send_bytes)
            connection = Connection(sock, session, self._broker.tick.monotonic_ms)
            self._epoll.register(connection.fd, events)
        except OSError:
            sock.close()
            return None
        connection.events = events
        self._attach(connection, session)
        self.by_fd[connection.fd] = connection
        self._metrics.connections += 1
        self._metrics.connections_opened += 1
        return connection

    def _attach(self, connection: Connection, session: Session) -> None:
        """From now on this session has the connection, with what the one before it has not sent."""
        session.ready = partial(self._ready, connection)
        session.become = partial(self._attach, connection)
        session.hang_up = partial(self.close, connection)
        connection.read_for(session, self._limits)
        before, connection.session = connection.session, session
        if session is not before:
            had_some = bool(before.out)
            session.out = before.out + session.out
            session.out_bytes += before.out_bytes
            session.has_chunks = session.has_chunks or before.has_chunks
            before.out = []
            before.close()
            if session.out and not had_some:
                self._ready(connection)

    def close(self, connection: Connection, reason: str) -> None:
        """Ends a connection. `reason` counts why we did; empty when the client did, or the server stops."""
        if connection.closed:
            return
        connection.closed = True
        if reason:
            self._metrics.closed[reason] += 1
        del self.by_fd[connection.fd]
        self._metrics.connections -= 1
        connection.session.close()
        self.memory.forget(connection)
        connection.release()
        self.memory.hold(connection)
        connection.socket.close()  # the kernel takes it out of epoll

    def refuse(self, connection: Connection, reason: str, detail: str = "") -> None:
        """Ends a connection whose input can't be taken, without an answer: counts why, and logs it."""
        self.note_refusal(reason, detail)
        self.close(connection, reason)

    def note_refusal(self, reason: str, detail: str = "") -> None:
        """Counts and logs that a connection's input was not taken."""
        self._broker.refusals.note(
            reason, detail or "a connection is closed", self._broker.clock.monotonic_ms()
        )

    def make_room(self, most: int) -> bool:
        """Whether one more connection fits beside `most`; if need be, the oldest one that never sent
        anything goes."""
        if len(self.by_fd) < most:
            return True
        for connection in self.by_fd.values():
            if not connection.used:
                self.close(connection, "evicted")
                return True
        return False

    def watch(self, connection: Connection) -> None:
        """Asks epoll for what this connection may do now. One that doesn't read isn't read."""
        session = connection.session
        deaf = connection.ended or (self.stopping and session.is_client)
        events = 0 if deaf or connection.starved or session.is_full else _IN
        if connection.unsent:
            events = _OUT | (events if session.hears_while_sending else 0)
        if events != connection.events and not connection.closed:
            connection.events = events
            self._epoll.modify(connection.fd, events)

    def starve(self, connection: Connection) -> None:
        """Reads a connection no more until there is memory for it."""
        self.memory.starve(connection)
        self.watch(connection)

    def settle_down(self, connection: Connection) -> None:
        """All answers are sent: reads the client again, or closes when it has got everything."""
        if connection.is_done:
            self.close(connection, "")
        elif not connection.events:
            self.watch(connection)
