"""One connection, of a client or a broker: bytes received that are no whole frame yet, and bytes not sent
yet.

The server owns the loop and the receive buffer; a connection holds its state between ticks, and sends.
"""

import errno
import socket
from collections import deque
from mmap import mmap
from typing import Final

from tank_node.limits import Limits
from tank_node.output import Output
from tank_node.segment.segment import FileRange
from tank_node.server.transport import Transport
from tank_node.session import Session

_LARGE_BYTES: Final = 32 * 1024
_MOST_PIECES: Final = 8
"""A copy of fewer bytes, or of more pieces, costs less than what the system takes for each piece."""
_OF_THE_SOCKET: Final = (BlockingIOError, InterruptedError, ConnectionError, TimeoutError)
_OF_THE_NETWORK: Final = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENOBUFS, errno.ENOMEM)


class ChunkLost(Exception):
    """Stored bytes that an answer's header announced can't be read: its connection can only be closed."""


def keep_alive(sock: socket.socket, limits: Limits) -> None:
    """Turns on TCP keepalive: a silent connection breaks when the other end's host no longer answers probes.
    Raises OSError."""
    idle_s = max(1, limits.heartbeat_ms // 1000)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, idle_s // 3))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, limits.keepalive_probes)


class Connection:
    """A transport, its session, and their queues. Times are milliseconds of the monotonic clock."""

    __slots__ = (
        "closed", "ended", "events", "fd", "frame_since_ms", "frames_wait", "heartbeat_ms", "held_bytes",
        "large", "large_bytes", "large_filled", "last_start", "most_bytes", "number", "opened_ms", "pending",
        "progress_ms", "receive_bytes", "receive_into", "send_now", "send_progress_ms", "session",
        "starved", "transport", "unsent", "unsent_bytes", "used",
    )  # fmt: skip

    def __init__(self, transport: Transport, session: Session, now_ms: int, number: int) -> None:
        """number: greater than those of all connections before."""
        self.number = number
        self.transport = transport
        self.fd = transport.fd
        # Looked up once, because each request calls them.
        self.receive_into = transport.receive_into
        self.send_now = transport.send
        self.most_bytes = self.receive_bytes = self.last_start = 0  # set by `read_for`
        """The largest size of one receive; its present size, chosen so that a receive likely ends with a
        frame; and the last position in the receiver's arena where a receive may begin."""
        self.session = session
        session.reached_at = transport.local_host
        session.came_from = transport.remote_host
        self.events = 0
        """The events that epoll watches on this connection."""
        self.pending = b""
        """Received bytes behind the last frame that the session took."""
        self.frames_wait = False
        """Whether `pending` may hold whole frames, or `large` is one, which a full session left there."""
        self.large: mmap | None = None
        """Buffer of a partly received frame that is larger than one receive. Pages become real memory only as
        bytes arrive."""
        self.large_bytes = 0
        self.large_filled = 0
        self.unsent: deque[memoryview | FileRange] = deque()
        self.unsent_bytes = 0
        """Bytes of `unsent` in memory: not those of file ranges."""
        self.held_bytes = 0
        """This connection's part of `Metrics.held_bytes`."""
        self.starved = False
        """Whether the connection is not read because the memory for all connections is used up."""
        self.opened_ms = now_ms
        self.progress_ms = now_ms
        self.frame_since_ms = 0
        """When the partly received frame began; 0: there is none."""
        self.send_progress_ms = now_ms
        self.heartbeat_ms = now_ms
        self.used = False
        self.ended = False
        """The client closed its sending side, or is gone. It may still read answers."""
        self.closed = False

    def read_for(self, session: Session, limits: Limits) -> None:
        """Sets the size of this connection's receives, by its session: a broker's are larger."""
        if session.is_peer:
            most = min(limits.peer_receive_bytes, limits.arena_bytes // 4)
        else:
            most = limits.receive_bytes
        self.most_bytes = self.receive_bytes = most
        # Room behind `last_start`: the pending bytes, one receive, and as much in reserve.
        self.last_start = limits.arena_bytes - 3 * most

    @property
    def is_done(self) -> bool:
        """Whether the client has ended its input, and all its requests are answered and sent."""
        session = self.session
        return self.ended and not (session.in_flight or session.out or self.unsent)

    def read_again(self, now_ms: int) -> None:
        """Restarts the deadlines for input: the server did not read the connection for a time, so the
        client's silence was not the client's fault."""
        self.progress_ms = now_ms
        if self.frame_since_ms:
            self.frame_since_ms = now_ms

    def queue(self, outputs: list[Output]) -> None:
        """Appends the session's answers to `unsent`; joins neighbouring ones that are bytes into one
        buffer."""
        run: list[bytes] = []
        for output in outputs:
            if isinstance(output, FileRange):
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
        """Sends data, and queues the part that the socket doesn't take. Call it only when nothing is unsent.
        Returns the number of bytes sent; raises OSError when the socket is broken."""
        try:
            count = self.send_now(data)
        except BlockingIOError:
            count = 0
        if count < len(data):
            self.queue([data[count:]])
        return count

    def send_joined(self, out: list[bytes], size: int) -> int:
        """As `send`, for several answers, of `size` bytes together. Few and large ones are copied into one
        buffer only if the socket doesn't take all of them."""
        if size < _LARGE_BYTES or len(out) > _MOST_PIECES:
            return self.send(b"".join(out))
        try:
            count = self.transport.send_pieces(out)
        except BlockingIOError:
            count = 0
        if count < size:
            self.queue([b"".join(out)[count:]])
        return count

    def send_chunk(self, out: list[Output], budget: int) -> int:
        """As `send`, for an answer of a header and one file range, of which it sends at most `budget` bytes.
        Raises ChunkLost when the file can't be read."""
        header, stretch = out
        assert isinstance(header, bytes)
        assert isinstance(stretch, FileRange)
        length = stretch.length
        count = sent = 0
        try:
            count = self.transport.send_before_more(header)  # header and chunk share packets
            if count == len(header):
                sent = self._send_file(stretch, length if length < budget else budget)
                if sent == length:
                    stretch.file.release()
                    return count + sent
        except BlockingIOError:
            pass
        except (OSError, ChunkLost):
            self.queue(out)  # keeps the file pinned until `release`
            raise
        if count < len(header):
            self.queue([header[count:], stretch])
        else:
            stretch.skip(sent)
            self.unsent.append(stretch)
        return count + sent

    def drain(self, budget: int) -> int:
        """Sends unsent bytes until the socket is full or about `budget` bytes are sent. Returns the number of
        bytes sent. Raises OSError when the socket is broken, ChunkLost when a file can't be read."""
        unsent = self.unsent
        sent = 0
        try:
            while unsent and sent < budget:
                item = unsent[0]
                if isinstance(item, FileRange):
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
                    # With more behind these bytes: header and chunk share packets.
                    count = self.transport.send_before_more(item) if len(unsent) > 1 else self.send_now(item)
                    self.unsent_bytes -= count
                    if count == len(item):
                        unsent.popleft()
                    else:
                        unsent[0] = item[count:]
                sent += count
        except BlockingIOError:
            pass
        return sent

    def _send_file(self, stretch: FileRange, count: int) -> int:
        """Sends at most `count` bytes of a file range; returns the number sent."""
        file = stretch.file
        try:
            sent = self.transport.send_file(file.fd, stretch.position, count)
        except OSError as error:
            if isinstance(error, _OF_THE_SOCKET) or error.errno in _OF_THE_NETWORK:
                raise
            file.unreadable = True
            raise ChunkLost(f"cannot read {file.path}: {error.strerror}") from error
        if not sent:
            file.unreadable = True
            raise ChunkLost(f"{file.path} is shorter than its index says")
        return sent

    def release(self) -> None:
        """Unpins the files of unsent chunks, and drops all buffers."""
        for item in self.unsent:
            if isinstance(item, FileRange):
                item.file.release()
        for output in self.session.out:
            if isinstance(output, FileRange):
                output.file.release()
        self.unsent.clear()
        self.session.out.clear()
        self.pending = b""
        self.large = None
