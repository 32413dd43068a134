"""A listening socket: takes connections, as many as there may be, and copes when descriptors run out."""

import asyncio
import contextlib
import errno
import os
import resource
import select
import socket

from tank_node.limits import Limits
from tank_node.server.connections import Connections
from tank_node.server.listener import Listener

_BACKLOG = 1024
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Takes the connections that come to one listener."""

    def __init__(self, listener: Listener, connections: Connections, limits: Limits) -> None:
        self._open_session = listener.open_session
        self._address = listener.address
        self._connections = connections
        self._limits = limits
        self._socket: socket.socket | None = None
        self._spare_fd = -1
        """Given up for a moment when there are no descriptors left, to take a connection and close it."""
        self._most = limits.connections

    async def listen(self, loop: asyncio.AbstractEventLoop) -> tuple[str, int]:
        """Begins to listen; returns the address with the port that the system chose for 0. Raises OSError."""
        host, port = self._address
        infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = infos[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind(address[:2])
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._socket = listener
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = max(1, min(self._limits.connections, files - self._limits.files_kept_free))
        self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        bound: tuple[str, int] = listener.getsockname()[:2]
        return bound

    @property
    def fd(self) -> int:
        """Of the listening socket; -1 when there is none."""
        return -1 if self._socket is None else self._socket.fileno()

    def accept(self) -> None:
        """Takes what waits to be connected, up to `Limits.accepts_per_tick`."""
        assert self._socket is not None
        for _ in range(self._limits.accepts_per_tick):
            try:
                sock, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._turn_away(self._socket)
                    return
                continue  # the client was gone before we came
            if self._connections.make_room(self._most):
                session = self._open_session()
                if self._connections.open(sock, session, select.EPOLLIN) is not None:
                    session.opened()
            else:
                self._connections.note_refusal("too_many_connections")
                sock.close()

    def _turn_away(self, listener: socket.socket) -> None:
        """No descriptor is left: takes one connection with the spare one and closes it, so that epoll falls
        silent about it."""
        self._connections.note_refusal("no_descriptors")
        if self._spare_fd >= 0:
            os.close(self._spare_fd)
            self._spare_fd = -1
        with contextlib.suppress(OSError):
            listener.accept()[0].close()
        with contextlib.suppress(OSError):
            self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._spare_fd >= 0:
            os.close(self._spare_fd)
            self._spare_fd = -1
