"""Connections that a node dials to other brokers, on the same epoll as its clients' connections."""

import asyncio
import errno
import logging
import select
import socket
import time

from tank_node.dialer import Dialer
from tank_node.server.connections import Connections
from tank_node.session import Session
from tank_protos.resolver import Resolver, look_up, numeric

logger = logging.getLogger(__name__)

_UNDER_WAY = (0, errno.EINPROGRESS)


class ServerDialer(Dialer):
    """A dialer whose connections belong to a server: the server's ticks send and receive, its limits hold."""

    def __init__(
        self, connections: Connections, loop: asyncio.AbstractEventLoop, resolver: Resolver | None = None
    ) -> None:
        """resolver: shared with other dialers of the process; None makes a private one."""
        self._connections = connections
        self._loop = loop
        self._resolver = resolver or Resolver(look_up, time.monotonic, logger)
        self._tasks: set[asyncio.Task[None]] = set()
        """Look-ups under way. Kept here because asyncio keeps only weak references to tasks."""

    def dial(self, host: str, port: int, session: Session) -> None:
        address = numeric(host)
        if address is not None:
            self._connect(address[0], (host, port), session)
            return
        task = self._loop.create_task(self._look_up(host, port, session))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_up(self, host: str, port: int, session: Session) -> None:
        try:
            found = await self._resolver.resolve(host)
        except OSError as error:
            logger.info("the address of the broker at %s cannot be found: %s", host, error)
            if not session.closed:
                session.close()
            return
        if session.closed:
            return
        family, address = found[0]
        self._connect(family, (address, port), session)

    def _connect(self, family: int, address: tuple[str, int], session: Session) -> None:
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError:  # out of descriptors
            session.close()
            return
        try:
            refused = sock.connect_ex(address) not in _UNDER_WAY
        except OSError:
            refused = True
        # epoll reports EPOLLOUT when the attempt succeeds or fails: the server then sends the queued bytes,
        # or closes the connection as any broken one.
        connection = None if refused else self._connections.open(sock, session, select.EPOLLOUT)
        if connection is None:
            sock.close()
            session.close()
            return
        connection.used = True  # no "unused" deadline here: the caller has its own
        connection.queue(session.out)
        session.out = []
        session.out_bytes = 0

    def hang_up(self, session: Session) -> None:
        for connection in self._connections.by_fd.values():
            if connection.session is session:
                self._connections.close(connection, "")
                return
        if not session.closed:
            session.close()
