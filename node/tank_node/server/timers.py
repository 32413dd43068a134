"""What a server does from time to time: deadlines of connections, heartbeats, maintenance of the logs."""

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tank_node.server.connection import Connection
    from tank_node.server.server import TankServer

logger = logging.getLogger(__name__)


class Housekeeping:
    """The timers of one server."""

    def __init__(self, server: "TankServer") -> None:
        self._server = server
        self._timers: list[asyncio.TimerHandle] = []

    def start(self) -> None:
        self._timers = [
            self._later(self._server.limits.housekeeping_ms, self._look_at_connections, 0),
            self._later(self._server.limits.maintenance_ms, self._maintain, 1),
            self._later(self._server.limits.scrub_ms, self._scrub, 2),
        ]
        if self._server.broker.roles.pushers.are_needed:
            self._timers.append(self._later(self._server.limits.replication_beat_ms, self._replicate, 3))

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def _later(self, delay_ms: int, what: object, slot: int) -> asyncio.TimerHandle:
        return self._server.loop.call_later(delay_ms / 1000, self._run, delay_ms, what, slot)

    def _run(self, delay_ms: int, what: object, slot: int) -> None:
        assert callable(what)
        try:
            what()
        except Exception:
            logger.exception("housekeeping failed by a bug of ours; it goes on")
        if self._timers:
            self._timers[slot] = self._later(delay_ms, what, slot)

    # --- connections -----------------------------------------------------------------------------

    def _look_at_connections(self) -> None:
        server = self._server
        broker = server.broker
        broker.begin_tick()
        now_ms = broker.tick.monotonic_ms
        broker.give_up_late()
        for connection in list(server.connections.values()):
            reason = self._overdue(connection, now_ms)
            if reason:
                self.refused(reason)
                server.close(connection, reason)
            elif now_ms - connection.heartbeat_ms >= server.limits.heartbeat_ms:
                connection.heartbeat_ms = now_ms
                if not connection.unsent:
                    connection.session.heartbeat()
        server.receiver.feed_starved()

    def _overdue(self, connection: "Connection", now_ms: int) -> str:
        """Why a connection is to be closed now; empty when it isn't."""
        limits = self._server.limits
        if not connection.used:
            return "unused" if now_ms - connection.opened_ms >= limits.unused_connection_ms else ""
        if connection.unsent:
            return "stalled_send" if now_ms - connection.send_progress_ms >= limits.stalled_send_ms else ""
        if not connection.frame_since_ms or connection.session.is_full:
            return ""
        if connection.starved or connection.ended:
            return ""  # we don't read it, or nothing more will come: no fault of the frame's
        if now_ms - connection.progress_ms >= limits.stalled_frame_ms:
            return "stalled_frame"
        allowed_ms = limits.stalled_frame_ms + connection.large_bytes * 1000 // limits.slowest_bytes_per_s
        return "slow_frame" if now_ms - connection.frame_since_ms >= allowed_ms else ""

    def refused(self, reason: str, detail: str = "") -> None:
        """Counts and logs that a connection's input was not taken."""
        server = self._server
        now_ms = int(server.loop.time() * 1000)
        server.broker.refusals.note(reason, detail or "a connection is closed", now_ms)

    # --- logs ------------------------------------------------------------------------------------

    def _maintain(self) -> None:
        self._server.maintenance.run()

    def _scrub(self) -> None:
        self._server.maintenance.scrub()

    # --- followers -------------------------------------------------------------------------------

    def _replicate(self) -> None:
        broker = self._server.broker
        broker.begin_tick()
        broker.roles.pushers.tick()
        broker.forwarding.tick()
