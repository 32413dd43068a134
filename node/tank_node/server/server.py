"""The event loop's ticks: from ready sockets to frames, and from answers to sockets.

A tick handles all sockets that are ready on one epoll. It receives from each connection into one shared
buffer, lets the sessions take their frames, ends the broker's tick (one write per partition), and sends the
sessions' answers, one system call per connection. See docs/decisions/0002-event-loop.md.
"""

import asyncio
import logging
import select
from collections.abc import Sequence
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.broker.maintenance import Maintenance
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.acceptor import Acceptor
from tank_node.server.connection import ChunkLost, Connection
from tank_node.server.connections import Connections
from tank_node.server.listener import Listener
from tank_node.server.loop import Events, TickLoop
from tank_node.server.receiver import Receiver
from tank_node.server.timers import Housekeeping

logger = logging.getLogger(__name__)

_IN: Final = select.EPOLLIN
_OUT: Final = select.EPOLLOUT
_TROUBLE: Final = select.EPOLLHUP | select.EPOLLERR
_STOP_STEP_S: Final = 0.01


class Server:
    """Serves clients on any number of addresses, each with its protocol. Only the composition root calls
    `start` and `stop`."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        listeners: Sequence[Listener],
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self._broker = broker
        self._loop = loop
        self._limits = limits
        self._metrics = metrics
        self._maintenance = Maintenance(broker)
        self._epoll = loop.ticks.epoll if isinstance(loop, TickLoop) else select.epoll()
        self.connections = Connections(self._epoll, broker, limits, metrics, self._ready)
        broker.clients = self.connections.clients
        self._acceptors = [Acceptor(listener, self.connections, limits) for listener in listeners]
        self._accepting: dict[int, Acceptor] = {}
        """The listening acceptors by descriptor."""
        self._receiver = Receiver(self.connections, broker, limits, metrics)
        self._housekeeping = Housekeeping(
            loop, self.connections, self._receiver, self._maintenance, broker, limits
        )
        self._dirty: list[Connection] = []
        """Connections whose session has answers to send."""
        self._in_tick = False
        self._finish_posted = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    # --- life ------------------------------------------------------------------------------------

    async def start(self) -> list[tuple[str, int]]:
        """Listens on all addresses, and begins to serve. Returns the bound addresses, in the listeners' order
        (the system chooses the port where 0 is asked for). Raises OSError."""
        bound = []
        for acceptor in self._acceptors:
            bound.append(await acceptor.listen(self._loop))
            self._accepting[acceptor.fd] = acceptor
            self._epoll.register(acceptor.fd, _IN)
        if isinstance(self._loop, TickLoop):
            self._loop.ticks.most_events = self._limits.tick_events
            self._loop.ticks.tick = self.tick
        else:
            self._loop.add_reader(self._epoll.fileno(), self._on_ready)
        self._housekeeping.start()
        self._broker.wake = self._wake
        return bound

    async def stop(self, grace_s: float) -> None:
        """Accepts no more connections and requests, answers those that wait, and closes all connections,
        after `grace_s` at the latest. The broker's logs stay open: close the broker next."""
        self.connections.stopping = True
        self._housekeeping.stop()
        self._accepting.clear()
        for acceptor in self._acceptors:
            acceptor.close()
        self._broker.begin_tick()
        self._broker.deadlines.end_waits()
        self._finish_tick()
        for connection in list(self.connections.by_fd.values()):
            self.connections.watch(connection)
        deadline = self._loop.time() + grace_s
        # Polls, because answers depend on the disk, the controllers and the clients: no single event covers
        # them.
        while self.is_busy() and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(_STOP_STEP_S)
        for connection in list(self.connections.by_fd.values()):
            self._receiver.discard(connection)
            self.connections.close(connection, "")
        if self._timer is not None:
            self._timer.cancel()
        self.connections.stopped = True
        if isinstance(self._loop, TickLoop):
            self._loop.ticks.stop()
        else:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def is_busy(self) -> bool:
        """Whether any request is unanswered, or any answer has not left."""
        return any(c.session.in_flight or c.session.out or c.unsent for c in self.connections.by_fd.values())

    # --- the tick --------------------------------------------------------------------------------

    def _on_ready(self) -> None:
        """Runs one tick on a loop that is no `TickLoop`."""
        self.tick(self._epoll.poll(0, self._limits.tick_events))

    def tick(self, events: Events) -> bool:
        """Runs one tick with the events of ready descriptors. Returns whether a descriptor is not the
        server's."""
        broker = self._broker
        broker.begin_tick()
        began_us = broker.tick.monotonic_us
        self._in_tick = True
        connections = self.connections.by_fd
        receive = self._receiver.receive
        foreign = False
        for fd, what in events:
            connection = connections.get(fd)
            if connection is None:
                acceptor = self._accepting.get(fd)
                if acceptor is None:
                    foreign = True
                else:
                    acceptor.accept()
                continue
            try:
                if what == _IN and connection.events == _IN:
                    receive(connection)
                else:
                    self._handle(connection, what)
            except Exception:
                self._failed(connection)
        self._finish_tick()
        self._metrics.end_tick((broker.clock.monotonic_us() - began_us) / 1_000_000)
        return foreign

    def _failed(self, connection: Connection) -> None:
        logger.exception(
            "a bug of ours: a connection failed; it is closed, the others go on, please report it"
        )
        self.connections.close(connection, "internal_error")

    def _handle(self, connection: Connection, what: int) -> None:
        """Handles events of one connection other than plain input."""
        if what & _OUT:
            self._drain(connection)
        if what & (_IN | _TROUBLE) and not connection.closed:
            if connection.events & _IN:
                self._receiver.receive(connection)
            else:
                # epoll reports a hang-up or an error even unasked, and would report it in every tick: the
                # other end is gone.
                self.connections.close(connection, "")

    def _finish_tick(self) -> None:
        """Ends the broker's tick and sends the answers. Also called outside a tick, when an fsync, a deadline
        or a controller's answer led to some."""
        self._in_tick = True
        self._finish_posted = False
        broker, memory = self._broker, self.connections.memory
        # Sent answers make room for requests that waited, whose answers make room again. Each round handles
        # new bytes, so the loop ends; more than one round is needed only when a client has more requests
        # under way than `Limits.in_flight`.
        while True:
            tick = broker.tick
            if tick.touched or tick.late or tick.early:
                broker.end_tick()
            self._receiver.used = 0
            if memory.taken:
                memory.reuse()
            dirty = self._dirty
            if not dirty:
                if tick.early:  # an answer of this round led to more
                    continue
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
                if connection.pending or connection.large is not None:
                    self._receiver.resume(connection)
                if connection.ended or not connection.events:
                    self.connections.settle_down(connection)
        self._in_tick = False
        if broker.rolled:
            self._maintenance.look_at_rolled()
        if broker.deadlines.waits:
            self._set_timer()

    def _ready(self, connection: Connection) -> None:
        """Notes that a session's `out` is no longer empty."""
        self._dirty.append(connection)
        self._wake()

    def _wake(self) -> None:
        """Has a tick end soon: outside of one there is something to send, to append, or to wait for."""
        if not self._in_tick and not self._finish_posted:
            self._finish_posted = True
            self._loop.call_soon(self._finish_late)

    def _finish_late(self) -> None:
        if self._finish_posted and not self.connections.stopped:
            self._broker.begin_tick()
            self._finish_tick()

    def _set_timer(self) -> None:
        """Wakes the loop at the earliest deadline of a wait."""
        deadline_ms = self._broker.deadlines.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        now_ms = self._broker.clock.monotonic_ms()
        self._timer_ms = deadline_ms
        self._timer = self._loop.call_later(max(deadline_ms - now_ms, 0) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._broker.begin_tick()
        self._in_tick = True
        try:
            self._broker.deadlines.expire()
        except Exception:
            logger.exception(
                "a bug of ours: an expired wait could not be answered; the others go on, please report it"
            )
        self._finish_tick()

    # --- sending ---------------------------------------------------------------------------------

    def _flush(self, connection: Connection) -> None:
        """Sends the session's answers."""
        session = connection.session
        out = session.out
        if not out:
            return
        out_bytes = session.out_bytes
        session.out = []
        session.out_bytes = 0
        has_chunks, session.has_chunks = session.has_chunks, False
        if connection.unsent or (has_chunks and len(out) != 2):
            connection.queue(out)
            self._drain(connection)
            return
        try:
            if has_chunks:
                count = connection.send_chunk(out, self._limits.send_once_bytes)
            elif len(out) == 1:
                count = connection.send(out[0])  # type: ignore[arg-type]
            else:
                count = connection.send_joined(out, out_bytes)  # type: ignore[arg-type]
        except (OSError, ChunkLost) as error:
            self._not_sent(connection, error)
            return
        self._metrics.sent_bytes += count
        if connection.unsent:
            self._blocked(connection)

    def _drain(self, connection: Connection) -> None:
        """Sends bytes that the socket did not take before."""
        try:
            sent = connection.drain(self._limits.send_once_bytes)
        except (OSError, ChunkLost) as error:
            self._not_sent(connection, error)
            return
        self._metrics.sent_bytes += sent
        if sent:
            connection.send_progress_ms = self._broker.tick.monotonic_ms
        if connection.unsent:
            self._blocked(connection)
        elif connection.events != _IN:
            connection.read_again(self._broker.tick.monotonic_ms)
            self.connections.memory.hold(connection)
            self.connections.watch(connection)
            if connection.pending or connection.large is not None or connection.ended:
                self._dirty.append(connection)  # resumes waiting frames, or closes a connection that is done

    def _not_sent(self, connection: Connection, error: Exception) -> None:
        if isinstance(error, ChunkLost):
            logger.error("a chunk could not be sent, its connection is closed: %s", error)
        self.connections.close(connection, "chunk_lost" if isinstance(error, ChunkLost) else "")

    def _blocked(self, connection: Connection) -> None:
        if not connection.events & _OUT:
            connection.send_progress_ms = self._broker.tick.monotonic_ms
        self.connections.memory.hold(connection)
        self.connections.watch(connection)
