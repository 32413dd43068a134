"""A server's timers: deadlines of connections, heartbeats, maintenance of the logs, beats of replication."""

import asyncio
import logging
from collections.abc import Callable

from tank_node.broker.broker import Broker
from tank_node.broker.maintenance import Maintenance
from tank_node.clock import next_beat_s
from tank_node.limits import Limits
from tank_node.server.connection import Connection
from tank_node.server.connections import Connections
from tank_node.server.receiver import Receiver

logger = logging.getLogger(__name__)


class Housekeeping:
    """The timers of one server."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: Connections,
        receiver: Receiver,
        maintenance: Maintenance,
        broker: Broker,
        limits: Limits,
    ) -> None:
        self._loop = loop
        self._connections = connections
        self._receiver = receiver
        self._maintenance = maintenance
        self._broker = broker
        self._limits = limits
        self._timers: list[asyncio.TimerHandle] = []

    def start(self) -> None:
        limits = self._limits
        self._timers = [
            self._later(limits.housekeeping_ms, self._look_at_connections, 0),
            self._later(limits.maintenance_ms, self._maintenance.run, 1),
            self._later(limits.scrub_ms, self._maintenance.scrub, 2),
        ]
        if self._broker.roles.pushers.are_needed:
            self._timers.append(self._later(limits.replication_beat_ms, self._replicate, 3))

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def _later(self, delay_ms: int, what: Callable[[], None], slot: int) -> asyncio.TimerHandle:
        at_s = next_beat_s(self._loop.time(), delay_ms / 1000)
        return self._loop.call_at(at_s, self._run, delay_ms, what, slot)

    def _run(self, delay_ms: int, what: Callable[[], None], slot: int) -> None:
        try:
            what()
        except Exception:
            logger.exception("a bug of ours: a timer's work failed; the timer goes on, please report it")
        if self._timers:
            self._timers[slot] = self._later(delay_ms, what, slot)

    # --- connections -----------------------------------------------------------------------------

    def _look_at_connections(self) -> None:
        connections, broker = self._connections, self._broker
        broker.begin_tick()
        now_ms = broker.tick.monotonic_ms
        broker.give_up_late()
        for connection in list(connections.by_fd.values()):
            reason = self._overdue(connection, now_ms)
            if reason:
                connections.refuse(connection, reason)
            elif now_ms - connection.heartbeat_ms >= self._limits.heartbeat_ms:
                connection.heartbeat_ms = now_ms
                if not connection.unsent:
                    connection.session.heartbeat()
        self._receiver.feed_starved()

    def _overdue(self, connection: Connection, now_ms: int) -> str:
        """The reason to close a connection now; empty when there is none."""
        limits = self._limits
        if not connection.used:
            unused_ms = connection.session.unused_ms(limits)
            return "unused" if now_ms - connection.opened_ms >= unused_ms else ""
        if connection.unsent:
            return "stalled_send" if now_ms - connection.send_progress_ms >= limits.stalled_send_ms else ""
        if not connection.frame_since_ms or connection.session.is_full:
            return ""
        if connection.starved or connection.ended:
            return ""  # the server does not read it, or its input has ended: the frame is not late
        if now_ms - connection.progress_ms >= limits.stalled_frame_ms:
            return "stalled_frame"
        allowed_ms = limits.stalled_frame_ms + connection.large_bytes * 1000 // limits.slowest_bytes_per_s
        return "slow_frame" if now_ms - connection.frame_since_ms >= allowed_ms else ""

    # --- followers -------------------------------------------------------------------------------

    def _replicate(self) -> None:
        broker = self._broker
        broker.begin_tick()
        broker.roles.pushers.tick()
        broker.forwarding.tick()
