"""Where connections come in: the broker's address, and a second one for clients of the outside."""

import asyncio
import select
import socket
from collections.abc import Callable
from functools import partial

from tank_node.limits import Limits
from tank_node.server.listener import Acceptor


class Doors:
    """Both listening sockets. `adopt` is given each new connection, and whether it came from outside."""

    def __init__(
        self,
        limits: Limits,
        *,
        adopt: Callable[[socket.socket, bool], None],
        make_room: Callable[[int], bool],
        refused: Callable[[str], None],
    ) -> None:
        """As an Acceptor's."""
        self._inside, self._outside = (
            Acceptor(limits, adopt=partial(_adopt, adopt, outside), make_room=make_room, refused=refused)
            for outside in (False, True)
        )

    async def open(
        self,
        loop: asyncio.AbstractEventLoop,
        epoll: select.epoll,
        inside: tuple[str, int],
        outside: tuple[str, int] | None,
    ) -> tuple[str, int]:
        """Listens, at host and port each; `epoll` watches. Returns the inside's address with the port that
        the system chose for 0. Raises OSError."""
        bound = await _listen(loop, epoll, self._inside, inside)
        if outside is not None:
            await _listen(loop, epoll, self._outside, outside)
        return bound

    def accept(self, fd: int) -> bool:
        """Takes what waits there; False: that descriptor is none of them."""
        for door in (self._inside, self._outside):
            if fd == door.fd:
                door.accept()
                return True
        return False

    def close(self) -> None:
        """No connection is taken any more."""
        self._inside.close()
        self._outside.close()


def _adopt(adopt: Callable[[socket.socket, bool], None], outside: bool, sock: socket.socket) -> None:
    adopt(sock, outside)


async def _listen(
    loop: asyncio.AbstractEventLoop, epoll: select.epoll, acceptor: Acceptor, where: tuple[str, int]
) -> tuple[str, int]:
    host, port = where
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = infos[0]
    bound = acceptor.listen(family, (str(address[0]), int(address[1])))
    epoll.register(acceptor.fd, select.EPOLLIN)
    return bound
