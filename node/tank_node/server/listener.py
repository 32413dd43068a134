"""The listening socket: takes connections, as many as there may be, and copes when descriptors run out."""

import contextlib
import errno
import os
import resource
import socket
from collections.abc import Callable

from tank_node.limits import Limits

_BACKLOG = 1024
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Listens on one address and hands new connections to `adopt`; `refused` hears of those not taken."""

    def __init__(
        self,
        limits: Limits,
        *,
        adopt: Callable[[socket.socket], None],
        make_room: Callable[[int], bool],
        refused: Callable[[str], None],
    ) -> None:
        """make_room: whether one more fits when there may be that many; it may close another one."""
        self._limits = limits
        self._adopt = adopt
        self._make_room = make_room
        self._refused = refused
        self._listener: socket.socket | None = None
        self._spare_fd = -1
        """Given up for a moment when there are no descriptors left, to take a connection and close it."""
        self._most = limits.connections

    def listen(self, family: int, address: tuple[str, int]) -> tuple[str, int]:
        """Begins to listen; returns the address with the port that the system chose for 0. Raises OSError."""
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = max(1, min(self._limits.connections, files - self._limits.files_kept_free))
        self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        bound: tuple[str, int] = listener.getsockname()[:2]
        return bound

    @property
    def fd(self) -> int:
        """Of the listening socket; -1 when there is none."""
        return -1 if self._listener is None else self._listener.fileno()

    def accept(self) -> None:
        """Takes what waits to be connected, up to `Limits.accepts_per_tick`."""
        assert self._listener is not None
        for _ in range(self._limits.accepts_per_tick):
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._turn_away(self._listener)
                    return
                continue  # the client was gone before we came
            if self._make_room(self._most):
                self._adopt(sock)
            else:
                self._refused("too_many_connections")
                sock.close()

    def _turn_away(self, listener: socket.socket) -> None:
        """No descriptor is left: takes one connection with the spare one and closes it, so that epoll falls
        silent about it."""
        self._refused("no_descriptors")
        if self._spare_fd >= 0:
            os.close(self._spare_fd)
            self._spare_fd = -1
        with contextlib.suppress(OSError):
            listener.accept()[0].close()
        with contextlib.suppress(OSError):
            self._spare_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._spare_fd >= 0:
            os.close(self._spare_fd)
            self._spare_fd = -1
