"""Opens every socket to a broker: the client's, a Spark task's, and the command line's."""

import asyncio
import contextlib
import socket
from collections.abc import Sequence

from tank_client.model import Address
from tank_protos.resolver import HostAddress


def open_socket(address: Address, timeout_s: float) -> socket.socket:
    """Returns a connected socket that sends small frames at once. `timeout_s` bounds the connecting, and each
    read and write until the caller sets another timeout. Raises OSError when it can't connect.
    """
    opened = socket.create_connection((address.host, address.port), timeout_s)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


async def open_transport(protocol: asyncio.Protocol, found: Sequence[HostAddress], port: int) -> None:
    """Connects the protocol to the first of a host's addresses that accepts a connection; there is at least
    one. Raises the last address's OSError when none accepts. asyncio sends small frames at once by itself."""
    loop = asyncio.get_running_loop()
    for family, numeric in found[:-1]:
        with contextlib.suppress(OSError):
            await loop.create_connection(lambda: protocol, numeric, port, family=family)
            return
    family, numeric = found[-1]
    await loop.create_connection(lambda: protocol, numeric, port, family=family)
