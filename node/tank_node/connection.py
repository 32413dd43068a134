"""One client connection: what came in and isn't a whole frame yet, and what has to go out and didn't fit.

The server owns the loop and the receive buffer; this holds the state between ticks, and sends.
"""

import os
import socket
from collections import deque
from mmap import mmap

from tank_node.sessions.output import Chunk, Output
from tank_node.sessions.tank import TankSession


class ChunkLost(OSError):
    """A segment file was shorter than the answer's header said: the connection can only be closed."""


class Connection:
    """A socket, its session, and their queues. Times are milliseconds of the monotonic clock."""

    __slots__ = (
        "closed", "ended", "events", "fd", "frame_since_ms", "heartbeat_ms", "held_bytes", "large",
        "large_bytes", "large_filled", "opened_ms", "pending", "progress_ms", "send_progress_ms", "session",
        "socket", "starved", "unsent", "unsent_bytes", "used",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, session: TankSession, now_ms: int) -> None:
        self.socket = sock
        self.fd = sock.fileno()
        self.session = session
        self.events = 0
        """What epoll watches for us now."""
        self.pending = b""
        """Bytes behind the last whole frame."""
        self.large: mmap | None = None
        """A frame that is larger than one receive, under way. Its memory is touched only as bytes arrive."""
        self.large_bytes = 0
        self.large_filled = 0
        self.unsent: deque[memoryview | Chunk] = deque()
        self.unsent_bytes = 0
        """Of `unsent`, without chunks: those lie in files."""
        self.held_bytes = 0
        """What this connection was counted for in Metrics.held_bytes."""
        self.starved = False
        """Not read, because the memory for all connections is used up."""
        self.opened_ms = now_ms
        self.progress_ms = now_ms
        self.frame_since_ms = 0
        """When the frame under way began; 0: none is."""
        self.send_progress_ms = now_ms
        self.heartbeat_ms = now_ms
        self.used = False
        self.ended = False
        """The client sends nothing more, but may still read: it closed its sending side, or went away."""
        self.closed = False

    @property
    def is_done(self) -> bool:
        """Whether the client that sends nothing more has got everything."""
        session = self.session
        return self.ended and not (session.in_flight or session.out or self.unsent)

    def read_again(self, now_ms: int) -> None:
        """The client is read again after a time in which it was not: its silence was no fault of its own."""
        self.progress_ms = now_ms
        if self.frame_since_ms:
            self.frame_since_ms = now_ms

    def queue(self, outputs: list[Output]) -> None:
        """Moves the session's answers behind what is unsent; neighbouring small ones become one buffer."""
        run: list[bytes] = []
        for output in outputs:
            if isinstance(output, Chunk):
                self._queue_run(run)
                run = []
                self.unsent.append(output)
            else:
                run.append(output)
        self._queue_run(run)

    def _queue_run(self, run: list[bytes]) -> None:
        if run:
            data = run[0] if len(run) == 1 else b"".join(run)
            self.unsent.append(memoryview(data))
            self.unsent_bytes += len(data)

    def drain(self, budget: int) -> int:
        """Sends what the socket takes, up to about `budget` bytes; returns how many went. Raises
        OSError when it is broken."""
        unsent = self.unsent
        sent = 0
        try:
            while unsent and sent < budget:
                item = unsent[0]
                if isinstance(item, Chunk):
                    count = os.sendfile(self.fd, item.file.fd, item.position, min(item.length, budget))
                    if not count:
                        raise ChunkLost(f"{item.length} bytes of a chunk are not in its file")
                    item.position += count
                    item.length -= count
                    if not item.length:
                        item.file.release()
                        unsent.popleft()
                else:
                    # More follows: the header and its chunk shall share packets.
                    count = self.socket.send(item, socket.MSG_MORE if len(unsent) > 1 else 0)
                    self.unsent_bytes -= count
                    if count == len(item):
                        unsent.popleft()
                    else:
                        unsent[0] = item[count:]
                sent += count
        except BlockingIOError:
            pass
        return sent

    def release(self) -> None:
        """Gives back files and buffers."""
        for item in self.unsent:
            if isinstance(item, Chunk):
                item.file.release()
        for output in self.session.out:
            if isinstance(output, Chunk):
                output.file.release()
        self.unsent.clear()
        self.session.out.clear()
        self.pending = b""
        self.large = None
