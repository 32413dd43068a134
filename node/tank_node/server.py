"""Sockets to frames, in ticks: the node's event loop for the TANK port.

All sockets hang on an epoll of our own, whose descriptor the asyncio loop watches: one callback handles everything that is ready.
It reads each ready connection into one shared buffer, lets the sessions take their frames, ends the broker's tick (one write per
partition), and sends what the sessions answered, one system call per connection. See docs/decisions/0002-event-loop.md.
"""

import asyncio
import errno
import logging
import os
import select
import socket
from mmap import mmap

from tank_node.broker import Broker
from tank_node.connection import ChunkLost, Connection
from tank_node.limits import Limits
from tank_node.log.errors import StorageError
from tank_node.metrics import Metrics
from tank_node.sessions.tank import HEADER_BYTES, PING, TankSession
from tank_protos.errors import WireError

logger = logging.getLogger(__name__)

_IN = select.EPOLLIN
_OUT = select.EPOLLOUT
_LARGE_HEADER = HEADER_BYTES


class TankServer:
    """Serves the TANK protocol on one address. `start` and `stop` are the composition root's."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        listen: tuple[str, int],
        limits: Limits,
        metrics: Metrics,
    ) -> None:
        self.broker = broker
        self.loop = loop
        self.listen = listen
        self.limits = limits
        self.metrics = metrics
        self.connections: dict[int, Connection] = {}
        self._epoll = select.epoll()
        self._listener: socket.socket | None = None
        self._spare_fd = -1
        self._arena = bytearray(limits.arena_bytes)
        self._arena_view = memoryview(self._arena)
        self._arena_used = 0
        self._dirty: list[Connection] = []
        self._in_tick = False

    async def start(self) -> tuple[str, int]:
        """Listens, and returns the address with the port that the system chose for port 0. Raises OSError."""
        raise NotImplementedError

    async def stop(self, grace_s: float) -> None:
        """Takes no more connections and requests, answers what waits, and closes; returns after `grace_s` at the latest.

        The broker's logs are still open afterwards: close the broker next.
        """
        raise NotImplementedError
