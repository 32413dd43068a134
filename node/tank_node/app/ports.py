"""The sockets of a broker's addresses. They are bound before the broker registers with the controllers, which
tell its addresses to clients and other brokers."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from logging import getLogger
from typing import Self

from tank_node.app.config import ListenAddress, NodeConfig
from tank_node.server.listener import BACKLOG, Listener, bind
from tank_node.session import Session

_log = getLogger("tank")


class ListenError(OSError):
    """An address that can't be listened on; the message says what to do."""


def listen_error(flag: str, wanted: ListenAddress, error: OSError) -> ListenError:
    """The error for an address, and the option that chooses another one."""
    reason = error.strerror or str(error)
    return ListenError(f"can't listen on {wanted} ({reason}): choose another address with {flag}")


@dataclass(slots=True, frozen=True)
class Port:
    """A bound address."""

    flag: str
    """The option that chooses the address."""
    address: ListenAddress
    """With the port that the system has chosen, where 0 was asked for."""
    socket: socket.socket

    def listener(self, open_session: Callable[[], Session]) -> Listener:
        """The server's listener on this address."""
        return Listener((self.address.host, self.address.port), open_session, self.socket)


@dataclass(slots=True)
class Ports:
    """All addresses of a broker but that of HTTP."""

    tank: Port
    outside: Port | None = None
    """For TANK's clients from outside the network."""
    kafka: Port | None = None
    """None: the broker serves no Kafka clients."""
    kafka_outside: Port | None = None
    iggy: Port | None = None
    """None: the broker serves no Iggy clients."""

    @classmethod
    async def bind(cls, config: NodeConfig, loop: asyncio.AbstractEventLoop) -> Self:
        """Binds the configured addresses. Raises ListenError."""
        ports = cls(await _bound("--listen", config.listen, loop))
        try:
            if config.outside_listen is not None:
                ports.outside = await _bound("--outside-listen", config.outside_listen, loop)
            ports.kafka = await _kafka(config, loop)
            if config.kafka_outside_listen is not None:
                ports.kafka_outside = await _bound(
                    "--kafka-outside-listen", config.kafka_outside_listen, loop
                )
            if config.iggy is not None:
                ports.iggy = await _bound("--iggy", config.iggy, loop)
        except OSError:
            ports.close()
            raise
        return ports

    @property
    def all(self) -> list[Port]:
        """The ports that there are."""
        ports = (self.tank, self.outside, self.kafka, self.kafka_outside, self.iggy)
        return [port for port in ports if port is not None]

    def listen(self) -> None:
        """Lets clients connect: their connections wait until the server accepts them. Raises ListenError when
        another process listens at an address since `bind`."""
        for port in self.all:
            try:
                port.socket.listen(BACKLOG)
            except OSError as error:
                raise listen_error(port.flag, port.address, error) from error

    def close(self) -> None:
        """Closes all sockets, also those that the server has closed."""
        for port in self.all:
            port.socket.close()


async def _bound(flag: str, wanted: ListenAddress, loop: asyncio.AbstractEventLoop) -> Port:
    try:
        bound = await bind(loop, wanted.host, wanted.port)
    except OSError as error:
        raise listen_error(flag, wanted, error) from error
    host, port = bound.getsockname()[:2]
    return Port(flag, ListenAddress(host, port), bound)


async def _kafka(config: NodeConfig, loop: asyncio.AbstractEventLoop) -> Port | None:
    """The port for Kafka clients. None: there shall be none, or its address is the default one and can't be
    had, which the log says."""
    wanted = config.kafka
    if wanted is None or not config.kafka_is_default:
        return None if wanted is None else await _bound("--kafka", wanted, loop)
    try:
        port = await _bound("--kafka", wanted, loop)
        # Listens now: a bound address can still be taken by another process, and then the broker would have
        # registered an address that it doesn't have.
        port.socket.listen(BACKLOG)
    except OSError as error:
        _log.warning("this broker serves no Kafka clients: %s", error)
        return None
    return port
