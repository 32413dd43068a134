"""The transport of a connection's bytes: a plain TCP socket. TLS would have its place here.

A transport never blocks. Its usual calls are the socket's own methods, looked up once, because each request
makes them.
"""

import os
import socket
from struct import Struct
from typing import Final

from tank_node.client_facts import UNKNOWN_BYTES

_MORE: Final = socket.MSG_MORE
_TCP_COUNTS: Final = Struct("=QQ")
_TCP_COUNTS_AT: Final = 120
"""Where Linux' `struct tcp_info` has the bytes that the other end has confirmed, and behind it those that the
other end has sent."""
_TCP_INFO_BYTES: Final = _TCP_COUNTS_AT + _TCP_COUNTS.size


class Transport:
    """A socket that is connected or connecting. All calls raise BlockingIOError when they would block, and
    OSError when the connection is broken."""

    __slots__ = ("_socket", "fd", "receive_into", "send", "send_pieces")

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.fd = sock.fileno()
        """The socket's descriptor, for epoll."""
        self.receive_into = sock.recv_into
        """Receives into a buffer. Returns the number of bytes; 0: the other end has closed its sending
        side."""
        self.send = sock.send
        """Sends as many of the bytes as fit; returns their number."""
        self.send_pieces = sock.sendmsg
        """As `send`, for bytes in pieces."""

    def send_before_more(self, data: bytes | memoryview) -> int:
        """As `send`, when more bytes follow at once: they share packets (MSG_MORE)."""
        return self._socket.send(data, _MORE)

    def send_file(self, file_fd: int, position: int, count: int) -> int:
        """Sends at most `count` bytes of a file; returns the number sent. Raises OSError for the file,
        too."""
        return os.sendfile(self.fd, file_fd, position, count)

    def local_host(self) -> str:
        """The host of the local address that the other end connected to; empty when unknown."""
        try:
            host = self._socket.getsockname()[0]
        except OSError:
            return ""
        return str(host)

    def remote_host(self) -> str:
        """The host of the other end's address; empty when unknown."""
        try:
            host = self._socket.getpeername()[0]
        except OSError:
            return ""
        return str(host)

    def remote_port(self) -> int:
        """The port of the other end's address; 0 when unknown."""
        try:
            port = self._socket.getpeername()[1]
        except OSError:
            return 0
        return int(port)

    def transferred(self) -> tuple[int, int]:
        """The bytes that came, and those that the other end has confirmed, as the system counts them;
        UNKNOWN_BYTES where it doesn't."""
        try:
            info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        except OSError:
            return UNKNOWN_BYTES, UNKNOWN_BYTES
        if len(info) < _TCP_INFO_BYTES:
            return UNKNOWN_BYTES, UNKNOWN_BYTES
        confirmed, received = _TCP_COUNTS.unpack_from(info, _TCP_COUNTS_AT)
        return int(received), int(confirmed)

    def close(self) -> None:
        """Closes the socket at once."""
        self._socket.close()
