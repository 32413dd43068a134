"""Sockets to frames, in ticks: the node's event loop for the TANK port.

All sockets hang on an epoll of our own, which a `TickLoop` waits on (any other asyncio loop watches its
descriptor): one call handles everything that is ready. It reads each ready connection into one shared buffer,
lets the sessions take their frames, ends the broker's tick (one write per partition), and sends what the
sessions answered, one system call per connection. See docs/decisions/0002-event-loop.md.
"""

import asyncio
import logging
import select
import socket
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.broker.maintenance import Maintenance
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.connection import ChunkLost, Connection, keep_alive
from tank_node.server.doors import Doors
from tank_node.server.loop import Events, TickLoop
from tank_node.server.receiver import Receiver
from tank_node.server.timers import Housekeeping
from tank_node.session import Session
from tank_node.tank.session import TankSession
from tank_protos.errors import WireError

logger = logging.getLogger(__name__)

_IN: Final = select.EPOLLIN
_OUT: Final = select.EPOLLOUT
_TROUBLE: Final = select.EPOLLHUP | select.EPOLLERR
_STOP_STEP_S: Final = 0.01


class TankServer:
    """Serves the TANK protocol on one address, or on a second one for clients of the outside as well. `start`
    and `stop` are the composition root's."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        listen: tuple[str, int],
        limits: Limits,
        metrics: Metrics,
        outside_listen: tuple[str, int] | None = None,
    ) -> None:
        self.broker = broker
        self.maintenance = Maintenance(broker)
        self.loop = loop
        self.listen = listen
        self.outside_listen = outside_listen
        self.limits = limits
        self.metrics = metrics
        self.connections: dict[int, Connection] = {}
        """By descriptor."""
        self._epoll = loop.ticks.epoll if isinstance(loop, TickLoop) else select.epoll()
        self._dirty: list[Connection] = []
        """Connections whose session has answers."""
        self._in_tick = False
        self._finish_posted = False
        self._stopping = False
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self.receiver = Receiver(self, limits)
        self._housekeeping = Housekeeping(self)
        self._doors = Doors(
            limits, adopt=self._adopt, make_room=self._make_room, refused=self._housekeeping.refused
        )

    # --- life ------------------------------------------------------------------------------------

    async def start(self) -> tuple[str, int]:
        """Listens, and returns the address with the port that the system chose for port 0. Raises OSError."""
        bound = await self._doors.open(self.loop, self._epoll, self.listen, self.outside_listen)
        if isinstance(self.loop, TickLoop):
            self.loop.ticks.most_events = self.limits.tick_events
            self.loop.ticks.tick = self.tick
        else:
            self.loop.add_reader(self._epoll.fileno(), self._on_ready)
        self._housekeeping.start()
        return bound

    async def stop(self, grace_s: float) -> None:
        """Takes no more connections and requests, answers what waits, and closes; returns after `grace_s`
        at the latest.

        The broker's logs are still open afterwards: close the broker next.
        """
        self._stopping = True
        self._housekeeping.stop()
        self._doors.close()
        self.broker.begin_tick()
        self.broker.end_waits()
        self._finish_tick()
        for connection in list(self.connections.values()):
            self.watch(connection)
        deadline = self.loop.time() + grace_s
        # Answers come from the disk, the controller and the clients: there is no one event to wait for.
        while self._is_busy() and self.loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_STOP_STEP_S)
        for connection in list(self.connections.values()):
            self.receiver.discard(connection)
            self.close(connection, "")
        if self._timer is not None:
            self._timer.cancel()
        self._stopped = True
        if isinstance(self.loop, TickLoop):
            self.loop.ticks.stop()
        else:
            self.loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _is_busy(self) -> bool:
        return any(c.session.in_flight or c.session.out or c.unsent for c in self.connections.values())

    # --- the tick --------------------------------------------------------------------------------

    def _on_ready(self) -> None:
        """One tick, called by a loop that doesn't know of ticks."""
        self.tick(self._epoll.poll(0, self.limits.tick_events))

    def tick(self, events: Events) -> bool:
        """One tick: everything that is ready now. Returns whether some of it is not the server's."""
        broker = self.broker
        broker.begin_tick()
        began_us = broker.tick.monotonic_us
        self._in_tick = True
        connections = self.connections
        receive = self.receiver.receive
        foreign = False
        for fd, what in events:
            connection = connections.get(fd)
            if connection is None:
                if not self._doors.accept(fd):
                    foreign = True
                continue
            try:
                if what == _IN and connection.events == _IN:
                    receive(connection)
                else:
                    self._handle(connection, what)
            except Exception:
                self._failed(connection)
        self._finish_tick()
        self.metrics.end_tick((broker.clock.monotonic_us() - began_us) / 1_000_000)
        return foreign

    def _failed(self, connection: Connection) -> None:
        logger.exception("a connection failed by a bug of ours; it is closed, the others go on")
        self.close(connection, "internal_error")

    def _handle(self, connection: Connection, what: int) -> None:
        """Events of one connection that are not just new bytes."""
        if what & _OUT:
            self._drain(connection)
        if what & (_IN | _TROUBLE) and not connection.closed:
            if connection.events & _IN:
                self.receiver.receive(connection)
            else:
                # Not asked for, so it is trouble: nobody is there any more. It would come again and again.
                self.close(connection, "")

    def _finish_tick(self) -> None:
        """Ends the broker's tick and sends the answers; also after an fsync, a deadline or the
        controller made some."""
        self._in_tick = True
        self._finish_posted = False
        broker = self.broker
        # Answers make room for requests that had to wait, whose answers make room again; each round
        # handles new bytes, so this ends. Rounds are few: one, unless a client has more under way than
        # `Limits.in_flight`.
        while True:
            if broker.tick.touched or broker.tick.late:
                broker.end_tick()
            self.receiver.used = 0
            dirty = self._dirty
            if not dirty:
                break
            self._dirty = []
            for connection in dirty:
                if not connection.closed:
                    try:
                        self._flush(connection)
                    except Exception:
                        self._failed(connection)
            for connection in dirty:
                if connection.unsent or connection.closed:
                    continue
                if connection.pending:
                    self.receiver.resume(connection)
                if connection.ended or not connection.events:
                    self.settle_down(connection)
        self._in_tick = False
        if broker.rolled:
            self.maintenance.look_at_rolled()
        if self.metrics.waiting:
            self._set_timer()

    def ready(self, connection: Connection) -> None:
        """A session has its first answer since it was flushed."""
        self._dirty.append(connection)
        if not self._in_tick and not self._finish_posted:
            self._finish_posted = True
            self.loop.call_soon(self._finish_late)

    def _finish_late(self) -> None:
        if self._finish_posted and not self._stopped:
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
        try:
            self.broker.expire()
        except Exception:
            logger.exception("a wait could not be ended, by a bug of ours; the others go on")
        self._finish_tick()

    # --- connections -----------------------------------------------------------------------------

    def _make_room(self, most: int) -> bool:
        """Whether one more connection fits; if need be, the oldest one that never sent anything goes."""
        if len(self.connections) < most:
            return True
        for connection in self.connections.values():
            if not connection.used:
                self.close(connection, "evicted")
                return True
        return False

    def _adopt(self, sock: socket.socket, is_outside: bool) -> None:
        session = TankSession(self.broker, is_outside=is_outside)
        if self.open_connection(sock, session, _IN) is not None:
            session.ping()

    def open_connection(self, sock: socket.socket, session: Session, events: int) -> Connection | None:
        """Takes a socket in, with the session that talks over it; None, and the socket is closed, when it
        is broken or the server has stopped. `events`: what epoll watches at first; _OUT while it connects."""
        if self._stopped:
            sock.close()
            return None
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(sock, self.limits)
            if self.limits.socket_send_bytes:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.socket_send_bytes)
            now_ms = self.broker.tick.monotonic_ms
            connection = Connection(sock, session, now_ms)
            self._epoll.register(connection.fd, events)
        except OSError:
            sock.close()
            return None
        connection.events = events
        self._attach(connection, session)
        self.connections[connection.fd] = connection
        self.metrics.connections += 1
        self.metrics.connections_opened += 1
        return connection

    def _attach(self, connection: Connection, session: Session) -> None:
        """From now on this session has the connection, with what the one before it has not sent."""
        session.ready = partial(self.ready, connection)
        session.become = partial(self._attach, connection)
        session.hang_up = partial(self.close, connection)
        self.receiver.serve(connection, session)
        before, connection.session = connection.session, session
        if session is not before:
            had_some = bool(before.out)
            session.out = before.out + session.out
            session.out_bytes += before.out_bytes
            session.has_chunks = session.has_chunks or before.has_chunks
            before.out = []
            before.close()
            if session.out and not had_some:
                self.ready(connection)

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
        self.receiver.forget(connection)
        connection.release()
        self.hold(connection)
        connection.socket.close()  # the kernel takes it out of epoll

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
        session.out = []
        session.out_bytes = 0
        has_chunks, session.has_chunks = session.has_chunks, False
        if connection.unsent or (has_chunks and len(out) != 2):
            connection.queue(out)
            self._drain(connection)
            return
        try:
            if has_chunks:
                count = connection.send_chunk(out, self.limits.send_once_bytes)
            else:
                count = connection.send(out[0] if len(out) == 1 else b"".join(out))  # type: ignore[arg-type]
        except (OSError, ChunkLost) as error:
            self._not_sent(connection, error)
            return
        self.metrics.sent_bytes += count
        if connection.unsent:
            self._blocked(connection)

    def _drain(self, connection: Connection) -> None:
        """Sends what didn't fit before."""
        try:
            sent = connection.drain(self.limits.send_once_bytes)
        except (OSError, ChunkLost) as error:
            self._not_sent(connection, error)
            return
        self.metrics.sent_bytes += sent
        if sent:
            connection.send_progress_ms = self.broker.tick.monotonic_ms
        if connection.unsent:
            self._blocked(connection)
        elif connection.events != _IN:
            connection.read_again(self.broker.tick.monotonic_ms)
            self.hold(connection)
            self.watch(connection)
            if connection.pending or connection.ended:
                self._dirty.append(connection)  # frames that had to wait, or nothing more to do

    def _not_sent(self, connection: Connection, error: Exception) -> None:
        if isinstance(error, ChunkLost):
            logger.error("a chunk could not be sent: %s", error)
        self.close(connection, "chunk_lost" if isinstance(error, ChunkLost) else "")

    def _blocked(self, connection: Connection) -> None:
        if not connection.events & _OUT:
            connection.send_progress_ms = self.broker.tick.monotonic_ms
        self.hold(connection)
        self.watch(connection)

    # --- bookkeeping -----------------------------------------------------------------------------

    def settle_down(self, connection: Connection) -> None:
        """What was answered is sent: reads the client again, or lets it go when it has got everything."""
        if connection.is_done:
            self.close(connection, "")
        elif not connection.events:
            self.watch(connection)

    def watch(self, connection: Connection) -> None:
        """Asks epoll for what this may do now. Who doesn't read isn't read; at the stop brokers alone are."""
        session = connection.session
        deaf = connection.ended or (self._stopping and isinstance(session, TankSession))
        events = 0 if deaf or connection.starved or session.is_full else _IN
        if connection.unsent:
            events = _OUT | (events if session.hears_while_sending else 0)
        if events != connection.events and not connection.closed:
            connection.events = events
            self._epoll.modify(connection.fd, events)

    def hold(self, connection: Connection) -> None:
        """Counts the memory that a connection holds now."""
        held = (
            0
            if connection.closed
            else len(connection.pending) + connection.large_bytes + connection.unsent_bytes
        )
        self.metrics.held_bytes += held - connection.held_bytes
        connection.held_bytes = held
