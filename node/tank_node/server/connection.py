"""One client connection: what came in and isn't a whole frame yet, and what has to go out and didn't fit.

The server owns the loop and the receive buffer; this holds the state between ticks, and sends.
"""

import errno
import os
import socket
from collections import deque
from mmap import mmap
from typing import Final

from tank_node.limits import Limits
from tank_node.log.segment import Stretch
from tank_node.output import Output
from tank_node.session import Session

_MORE: Final = socket.MSG_MORE
_OF_THE_SOCKET: Final = (BlockingIOError, InterruptedError, ConnectionError, TimeoutError)
_OF_THE_NETWORK: Final = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENOBUFS, errno.ENOMEM)


class ChunkLost(Exception):
    """Bytes that an answer's header promised can't be read: its connection can only be closed."""


def keep_alive(sock: socket.socket, limits: Limits) -> None:
    """Lets TCP find out whether the other end of a silent connection is there: its host answers, or the
    connection breaks. Raises OSError."""
    idle_s = max(1, limits.heartbeat_ms // 1000)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, idle_s // 3))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, limits.keepalive_probes)


class Connection:
    """A socket, its session, and their queues. Times are milliseconds of the monotonic clock."""

    __slots__ = (
        "closed", "ended", "events", "fd", "frame_since_ms", "frames_wait", "heartbeat_ms", "held_bytes",
        "large", "large_bytes", "large_filled", "last_start", "most_bytes", "opened_ms", "pending",
        "progress_ms", "receive_bytes", "receive_into", "send_now", "send_progress_ms", "session", "socket",
        "starved", "unsent", "unsent_bytes", "used",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, session: Session, now_ms: int) -> None:
        self.socket = sock
        self.fd = sock.fileno()
        # Looked up once: they are called for each request.
        self.receive_into = sock.recv_into
        self.send_now = sock.send
        self.most_bytes = self.receive_bytes = self.last_start = 0  # `read_for` says
        """The most that it is read at once; what it is, so that one receive ends where a frame is likely to;
        and the last place of the arena where a receive may begin."""
        self.session = session
        session.reached_at = self.local_host
        self.events = 0
        """What epoll watches for us now."""
        self.pending = b""
        """Bytes behind the last whole frame that was taken."""
        self.frames_wait = False
        """There may be whole frames among them, which the session had no room for."""
        self.large: mmap | None = None
        """A frame that is larger than one receive, under way. Its memory is touched only as bytes arrive."""
        self.large_bytes = 0
        self.large_filled = 0
        self.unsent: deque[memoryview | Stretch] = deque()
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

    def read_for(self, session: Session, limits: Limits) -> None:
        """How much this connection is read at once, from now on, for the session that takes it."""
        if session.is_peer:
            most = min(limits.peer_receive_bytes, limits.arena_bytes // 4)
        else:
            most = limits.receive_bytes
        self.most_bytes = self.receive_bytes = most
        # Behind it there is room for a receive and all that can be pending before it, and some to spare.
        self.last_start = limits.arena_bytes - 3 * most

    @property
    def is_done(self) -> bool:
        """Whether the client that sends nothing more has got everything."""
        session = self.session
        return self.ended and not (session.in_flight or session.out or self.unsent)

    def local_host(self) -> str:
        """The host of the address that the other end connected to; empty: it is not known."""
        try:
            host = self.socket.getsockname()[0]
        except OSError:
            return ""
        return str(host)

    def read_again(self, now_ms: int) -> None:
        """The client is read again after a time in which it was not: its silence was no fault of its own."""
        self.progress_ms = now_ms
        if self.frame_since_ms:
            self.frame_since_ms = now_ms

    def queue(self, outputs: list[Output]) -> None:
        """Moves the session's answers behind what is unsent; neighbouring small ones become one buffer."""
        run: list[bytes] = []
        for output in outputs:
            if isinstance(output, Stretch):
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

    def send(self, data: bytes) -> int:
        """Sends when nothing is unsent; what doesn't fit is. Returns how many bytes went. Raises OSError
        when the socket is broken."""
        try:
            count = self.send_now(data)
        except BlockingIOError:
            count = 0
        if count < len(data):
            self.queue([data[count:]])
        return count

    def send_chunk(self, out: list[Output], budget: int) -> int:
        """The same for an answer of a header and one chunk, of which about `budget` bytes go at once. Raises
        ChunkLost, too."""
        header, stretch = out
        assert isinstance(header, bytes)
        assert isinstance(stretch, Stretch)
        length = stretch.length
        count = sent = 0
        try:
            count = self.socket.send(header, _MORE)  # the header and its chunk shall share packets
            if count == len(header):
                sent = self._send_file(stretch, length if length < budget else budget)
                if sent == length:
                    stretch.file.release()
                    return count + sent
        except BlockingIOError:
            pass
        except (OSError, ChunkLost):
            self.queue(out)  # pinned until the connection is closed
            raise
        if count < len(header):
            self.queue([header[count:], stretch])
        else:
            stretch.skip(sent)
            self.unsent.append(stretch)
        return count + sent

    def drain(self, budget: int) -> int:
        """Sends what the socket takes, up to about `budget` bytes; returns how many went. Raises
        OSError when it is broken, and ChunkLost."""
        unsent = self.unsent
        sent = 0
        try:
            while unsent and sent < budget:
                item = unsent[0]
                if isinstance(item, Stretch):
                    wanted = min(item.length, budget)
                    count = self._send_file(item, wanted)
                    item.skip(count)
                    if not item.length:
                        item.file.release()
                        unsent.popleft()
                    elif count < wanted:
                        sent += count
                        break  # the socket is full
                else:
                    # More follows: the header and its chunk shall share packets.
                    count = self.socket.send(item, _MORE if len(unsent) > 1 else 0)
                    self.unsent_bytes -= count
                    if count == len(item):
                        unsent.popleft()
                    else:
                        unsent[0] = item[count:]
                sent += count
        except BlockingIOError:
            pass
        return sent

    def _send_file(self, stretch: Stretch, count: int) -> int:
        """Sends at most so many bytes; returns how many went."""
        file = stretch.file
        try:
            sent = os.sendfile(self.fd, file.fd, stretch.position, count)
        except OSError as error:
            if isinstance(error, _OF_THE_SOCKET) or error.errno in _OF_THE_NETWORK:
                raise
            file.unreadable = True
            raise ChunkLost(f"cannot read {file.path}: {error.strerror}") from error
        if not sent:
            file.unreadable = True
            raise ChunkLost(f"{file.path} is shorter than it was")
        return sent

    def release(self) -> None:
        """Gives back files and buffers."""
        for item in self.unsent:
            if isinstance(item, Stretch):
                item.file.release()
        for output in self.session.out:
            if isinstance(output, Stretch):
                output.file.release()
        self.unsent.clear()
        self.session.out.clear()
        self.pending = b""
        self.large = None
