"""An address to listen on, with its protocol."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tank_node.session import Session

BACKLOG: Final = 1024
"""The most connections that wait to be accepted."""


@dataclass(frozen=True, slots=True)
class Listener:
    """An address that a server listens on, and the sessions of its protocol."""

    address: tuple[str, int]
    """Host and port; port 0: the system chooses one."""
    open_session: Callable[[], Session]
    """Returns the session of a new connection."""
    bound: socket.socket | None = None
    """The socket of `bind`, bound to the address; the server closes it. None: the server binds one."""


async def bind(loop: asyncio.AbstractEventLoop, host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to an address and does not listen yet: clients are refused, as if there
    were none. Raises OSError, also when another socket listens there.

    Until it listens, other processes may bind the same address, and the first that listens has it.
    """
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = infos[0]
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setblocking(False)
        bound.bind(address[:2])
    except OSError:
        bound.close()
        raise
    return bound
