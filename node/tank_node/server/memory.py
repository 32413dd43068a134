"""What connections hold of bytes that came and were not handled, or were answered and not sent: bounded
together, with a line of those that wait for room."""

from mmap import mmap

from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.connection import Connection


class ConnectionMemory:
    """Counts the memory of all connections, and decides which of them wait.

    One client's large frame is let through at any time, so the line moves, and a client that holds memory is
    bound to `Limits.slowest_bytes_per_s`: no client waits for ever. Brokers, which are few, don't stand in
    the line.
    """

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._most_bytes = limits.memory_bytes
        self._metrics = metrics
        self.starved: dict[Connection, None] = {}
        """Connections that are not read until memory is free, the longest waiting first."""
        self.large_frames = 0
        """How many clients have one under way."""

    @property
    def is_full(self) -> bool:
        """Whether no client's connection is to be read now."""
        return self._metrics.held_bytes >= self._most_bytes

    def hold(self, connection: Connection) -> None:
        """Counts the memory that a connection holds now."""
        held = (
            0
            if connection.closed
            else len(connection.pending) + connection.large_bytes + connection.unsent_bytes
        )
        self._metrics.held_bytes += held - connection.held_bytes
        connection.held_bytes = held

    def begin_large(self, connection: Connection, total: int) -> bool:
        """Gives a connection a buffer of its own for a frame of so many bytes, with what is pending of it.
        False: there is no room for it yet."""
        is_peer = connection.session.is_peer
        full = self._metrics.held_bytes + total > self._most_bytes
        if not is_peer and (self.starved or (full and self.large_frames)):
            return False
        try:
            large = mmap(-1, total)
        except OSError:  # the system has none
            return False
        pending = connection.pending
        large[: len(pending)] = pending
        connection.large = large
        connection.large_bytes = total
        connection.large_filled = len(pending)
        connection.pending = b""
        self.large_frames += not is_peer
        return True

    def end_large(self, connection: Connection) -> None:
        """The connection's large frame is handled, or dropped."""
        connection.large = None
        connection.large_bytes = connection.large_filled = 0
        self.large_frames -= not connection.session.is_peer

    def starve(self, connection: Connection) -> None:
        """Puts a connection in the line."""
        if not connection.starved:
            connection.starved = True
            self._metrics.refused["memory_pressure"] += 1
        self.starved[connection] = None

    def forget(self, connection: Connection) -> None:
        """Drops the large frame that is under way, and the place in the line."""
        if connection.large is not None:
            self.end_large(connection)
        self.starved.pop(connection, None)
