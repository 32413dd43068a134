"""The open connections of a server: each with its session, and with the events that epoll watches."""

import logging
import select
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.client_facts import ServedClient
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.connection import Connection, keep_alive
from tank_node.server.memory import ConnectionMemory
from tank_node.server.transport import Transport
from tank_node.session import Session

logger = logging.getLogger(__name__)

_IN: Final = select.EPOLLIN
_OUT: Final = select.EPOLLOUT


class Connections:
    """Opens and closes connections, both accepted from clients and dialled by this node."""

    def __init__(
        self,
        epoll: select.epoll,
        broker: Broker,
        limits: Limits,
        metrics: Metrics,
        ready: Callable[[Connection], None],
    ) -> None:
        """ready: called with a connection when its session's `out` is no longer empty."""
        self._epoll = epoll
        self._broker = broker
        self._limits = limits
        self._metrics = metrics
        self._ready = ready
        self.memory = ConnectionMemory(limits, metrics)
        self.by_fd: dict[int, Connection] = {}
        self.stopping = False
        """Whether clients are no longer read. Brokers still are: answers to clients wait for brokers'
        answers."""
        self.stopped = False
        """Whether new connections are refused."""

    def open(self, sock: socket.socket, session: Session, events: int) -> Connection | None:
        """Makes a connection of a socket and its session. `events`: what epoll watches at first; EPOLLOUT for
        a socket that is still connecting. Closes the socket and returns None when it is broken or the server
        has stopped."""
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
            number = self._metrics.connections_opened + 1
            connection = Connection(Transport(sock), session, self._broker.tick.monotonic_ms, number)
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
        """Gives the connection to a session, with the answers that the former session has not sent."""
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
        """Closes a connection. `reason` is counted in the metrics; empty when the client hung up or the
        server stops."""
        if connection.closed:
            return
        connection.closed = True
        if reason:
            self._metrics.closed[reason] += 1
        del self.by_fd[connection.fd]
        self._metrics.connections -= 1
        try:
            connection.session.close()
        except Exception:
            logger.exception(
                "a bug of ours: not all requests of a closed connection could be ended, please report it"
            )
        self.memory.forget(connection)
        connection.release()
        self.memory.hold(connection)
        connection.transport.close()  # the kernel removes a closed descriptor from epoll

    def refuse(self, connection: Connection, reason: str, detail: str = "") -> None:
        """Closes a connection whose input can't be taken, without an answer; counts and logs the reason."""
        self.note_refusal(reason, detail)
        self.close(connection, reason)

    def note_refusal(self, reason: str, detail: str = "") -> None:
        """Counts and logs the refusal of a connection or of its input."""
        self._broker.refusals.note(
            reason, detail or "a connection is closed", self._broker.clock.monotonic_ms()
        )

    def make_room(self, most: int) -> bool:
        """Whether one more connection may open when `most` is the limit. At the limit it closes the oldest
        connection that never sent anything; False when there is none."""
        if len(self.by_fd) < most:
            return True
        for connection in self.by_fd.values():
            if not connection.used:
                self.close(connection, "evicted")
                return True
        return False

    def watch(self, connection: Connection) -> None:
        """Sets the events that epoll watches. A connection with unsent answers is not read, so a client that
        doesn't read its answers sends no more requests."""
        session = connection.session
        deaf = connection.ended or (self.stopping and session.is_client)
        events = 0 if deaf or connection.starved or session.is_full else _IN
        if connection.unsent:
            events = _OUT | (events if session.hears_while_sending else 0)
        if events != connection.events and not connection.closed:
            connection.events = events
            self._epoll.modify(connection.fd, events)

    def clients(self, after: int, most: int) -> list[ServedClient]:
        """The clients' connections whose numbers are above `after`, at most this many, the oldest first."""
        numbers: dict[int, Connection] = {}
        for connection in self.by_fd.values():
            session = connection.session
            if connection.number > after and session.is_client and not session.is_forwarder:
                numbers[connection.number] = connection
        now_ms = self._broker.clock.monotonic_ms()
        found = []
        for number in sorted(numbers)[:most]:
            connection = numbers[number]
            facts = connection.session.client_facts()
            if facts is None:
                continue
            transport = connection.transport
            received, confirmed = transport.transferred()
            found.append(
                ServedClient(
                    number,
                    transport.remote_host(),
                    transport.remote_port(),
                    now_ms - connection.opened_ms,
                    received,
                    confirmed,
                    connection.session.in_flight,
                    facts,
                )
            )
        return found

    def starve(self, connection: Connection) -> None:
        """Stops reading a connection until there is memory for it."""
        self.memory.starve(connection)
        self.watch(connection)

    def settle_down(self, connection: Connection) -> None:
        """After all answers are sent: reads the client again, or closes the connection when `is_done`."""
        if connection.is_done:
            self.close(connection, "")
        elif not connection.events:
            self.watch(connection)
