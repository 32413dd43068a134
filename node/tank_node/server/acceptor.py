"""A listening socket: accepts connections up to a limit, and stays usable when the process is out of
descriptors."""

import asyncio
import contextlib
import errno
import os
import resource
import select
import socket

from tank_node.limits import Limits
from tank_node.server.connections import Connections
from tank_node.server.listener import BACKLOG, Listener, bind

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Accepts the connections of one listener."""

    def __init__(self, listener: Listener, connections: Connections, limits: Limits) -> None:
        self._open_session = listener.open_session
        self._address = listener.address
        self._bound = listener.bound
        self._connections = connections
        self._limits = limits
        self._socket: socket.socket | None = None
        self._spare_fd = -1
        """A descriptor in reserve: `_turn_away` frees it to accept one connection and close it."""
        self._most = limits.connections

    async def listen(self, loop: asyncio.AbstractEventLoop) -> tuple[str, int]:
        """Begins to listen. Returns the bound address (the system chooses the port when 0 is asked for).
        Raises OSError."""
        listener = self._bound or await bind(loop, *self._address)
        try:
            listener.listen(BACKLOG)
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
        """The descriptor of the listening socket; -1 when it is not open."""
        return -1 if self._socket is None else self._socket.fileno()

    def accept(self) -> None:
        """Accepts the connections that wait, at most `Limits.accepts_per_tick`."""
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
                continue  # the client hung up before its connection was accepted
            if self._connections.make_room(self._most):
                session = self._open_session()
                if self._connections.open(sock, session, select.EPOLLIN) is not None:
                    session.opened()
            else:
                self._connections.note_refusal("too_many_connections")
                sock.close()

    def _turn_away(self, listener: socket.socket) -> None:
        """Without a free descriptor: accepts one connection with the spare descriptor, and closes it.
        Otherwise epoll would report that waiting connection in every tick."""
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
