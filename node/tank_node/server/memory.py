"""The memory of all connections, bounded together: input not handled yet, and answers not sent yet."""

import ctypes
from mmap import mmap

from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.connection import Connection


def unwritten(count: int) -> bytearray:
    """A bytearray of this many bytes, whose content means nothing until it is written. The system gives the
    memory for a part of it when that part is written; `bytearray(count)` writes all of it with zeros."""
    make = ctypes.pythonapi.PyByteArray_FromStringAndSize  # without bytes to copy, it allocates only
    make.argtypes, make.restype = (ctypes.c_char_p, ctypes.c_ssize_t), ctypes.py_object
    made = make(None, count)
    assert isinstance(made, bytearray)
    return made


class ConnectionMemory:
    """Counts the memory of all connections, and keeps the queue of those that wait for some.

    One large frame of a client is admitted even when memory is full, and must arrive at
    `Limits.slowest_bytes_per_s` at least: so the queue moves, and no client waits for ever. Connections of
    brokers, which are few, never wait.
    """

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._most_bytes = limits.memory_bytes
        self._metrics = metrics
        self.starved: dict[Connection, None] = {}
        """The queue: connections that are not read until memory is free, the longest waiting first."""
        self.large_frames = 0
        """Number of clients that are sending one."""
        self._reused_bytes = limits.reused_frame_bytes
        self._most_spare = limits.reused_buffers
        self._spare: list[mmap] = []
        """Buffers of `_reused_bytes` for the next large frames."""
        self.taken: list[mmap] = []
        """Buffers of whole large frames of this tick. Staged batches may lie in them until the tick's end."""

    @property
    def is_full(self) -> bool:
        """Whether memory is used up, so that clients are not read."""
        return self._metrics.held_bytes >= self._most_bytes

    def hold(self, connection: Connection) -> None:
        """Counts anew the memory that a connection holds."""
        held = (
            0
            if connection.closed
            else len(connection.pending) + connection.large_bytes + connection.unsent_bytes
        )
        self._metrics.held_bytes += held - connection.held_bytes
        connection.held_bytes = held

    def begin_large(self, connection: Connection, total: int) -> bool:
        """Allocates a connection's buffer for a frame of `total` bytes, and moves the pending bytes there.
        Returns False when there is no room yet."""
        is_peer = connection.session.is_peer
        full = self._metrics.held_bytes + total > self._most_bytes
        if not is_peer and (self.starved or (full and self.large_frames)):
            return False
        try:
            large = self._buffer(total)
        except OSError:  # the system is out of memory
            return False
        pending = connection.pending
        large[: len(pending)] = pending
        connection.large = large
        connection.large_bytes = total
        connection.large_filled = len(pending)
        connection.pending = b""
        self.large_frames += not is_peer
        return True

    def _buffer(self, total: int) -> mmap:
        """A buffer for a frame of this many bytes. Raises OSError."""
        if total > self._reused_bytes:
            return mmap(-1, total)
        return self._spare.pop() if self._spare else mmap(-1, self._reused_bytes)

    def reuse(self) -> None:
        """Keeps some of the buffers in `taken` for other frames. Call it when no staged batch lies in them
        any more."""
        taken, self.taken = self.taken, []
        for large in taken:
            if len(self._spare) >= self._most_spare:
                return
            try:
                large.resize(self._reused_bytes)  # it has this size: raises if anything still refers to it
            except BufferError:
                continue
            self._spare.append(large)

    def end_large(self, connection: Connection) -> None:
        """Frees the buffer of a large frame that is handled or dropped."""
        connection.large = None
        connection.large_bytes = connection.large_filled = 0
        self.large_frames -= not connection.session.is_peer

    def starve(self, connection: Connection) -> None:
        """Puts a connection into the queue."""
        if not connection.starved:
            connection.starved = True
            self._metrics.refused["memory_pressure"] += 1
        self.starved[connection] = None

    def forget(self, connection: Connection) -> None:
        """Drops a connection's partly received large frame, and its place in the queue."""
        if connection.large is not None:
            self.end_large(connection)
        self.starved.pop(connection, None)
