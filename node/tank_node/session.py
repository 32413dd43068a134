"""The conversation on one connection, with a client or a broker: bytes in, bytes and file ranges out.

No I/O, no clock. The server feeds received bytes to `receive`, sends the contents of `out`, and calls `close`
at the end.
"""

import itertools
from collections.abc import Callable
from typing import Final

from tank_node.client_facts import ClientFacts
from tank_node.limits import Limits
from tank_node.output import Output

_SERIALS: Final = itertools.count(1)


class Session:
    """The conversation on one connection; each protocol has a subclass. A plain base class, because the
    server calls it for every receive. Unless noted otherwise, the server sets its callables."""

    __slots__ = (
        "become", "came_from", "closed", "hang_up", "has_chunks", "in_flight", "is_forwarder", "kept", "out",
        "out_bytes", "reached_at", "ready", "serial",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ready: Callable[[], None] = _ignore
        """Called when `out` is no longer empty."""
        self.become: Callable[[Session], None] = _stay
        """Gives the connection to another session, from the next receive on. No bytes may follow the frame
        that leads to the call."""
        self.hang_up: Callable[[str], None] = _stay_open
        """Closes the connection at once; takes the reason, for the metrics."""
        self.reached_at: Callable[[], str] = _nowhere
        """Returns the host of the address that the other end connected to; empty when unknown."""
        self.came_from: Callable[[], str] = _nowhere
        """Returns the host of the other end's address; empty when unknown."""
        self.out: list[Output] = []
        """The outputs to send, in order. The server takes them."""
        self.has_chunks = False
        """Whether `out` holds file ranges."""
        self.out_bytes = 0
        """Bytes of `out` without file ranges. The server resets it when it takes `out`."""
        self.in_flight = 0
        """Number of requests taken and not answered."""
        self.kept = 0
        """The position in the buffer of the last `receive` below which bytes must stay unchanged until the
        tick has ended."""
        self.is_forwarder = False
        """Whether another broker forwards its clients' requests on this connection."""
        self.closed = False
        self.serial = next(_SERIALS)
        """A number that no other session of this process has."""

    @property
    def is_full(self) -> bool:
        """Whether no more requests are taken until some of those under way are answered and sent."""
        return False

    @property
    def is_peer(self) -> bool:
        """Whether another broker is at the other end. Its connection is read even when clients hold all
        memory: otherwise it would seem dead and leave in-sync sets, and clients would wait longer."""
        return True

    @property
    def is_client(self) -> bool:
        """Whether the other end sends requests, which are no longer read when the node stops."""
        return False

    @property
    def hears_while_sending(self) -> bool:
        """Whether the connection is read even while output is unsent. Only for sessions whose output is
        bounded otherwise."""
        return False

    def client_facts(self) -> ClientFacts | None:
        """What is known of the client at the other end; None: there is a broker."""
        return None

    def unused_ms(self, limits: Limits) -> int:
        """Returns how long the connection may stay open before the other end has sent a byte."""
        return limits.unused_connection_ms

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        """Takes the whole frames of buffer[at:end]; `view` is a memoryview of `buffer`. Returns where the
        rest begins: part of a frame, or frames that wait because the session `is_full`.

        Sets `kept`: the bytes before it must stay unchanged until the broker's tick has ended. Raises
        WireError when the connection must be closed.
        """
        raise NotImplementedError

    def frame_bytes(self, head: bytes) -> int:
        """The length of the whole frame that begins with these bytes; 0 when they are too few to tell."""
        raise NotImplementedError

    def may_take(self, head: memoryview) -> bool:
        """Whether the large frame that begins with these 16 bytes, and has come as a whole, is taken now. If
        not, the session is full, and calls `ready` when it is to be asked again."""
        return True

    def take_frame(self, frame: memoryview) -> None:
        """Takes one whole frame that was too large for a single receive. Raises WireError when the connection
        must be closed."""
        raise NotImplementedError

    def hold_back(self) -> None:
        """Takes no more requests until `go_on`: a resource that they need is used up."""

    def go_on(self) -> None:
        """Takes requests again, the waiting ones first."""

    def forwards(self) -> None:
        """Notes that another broker forwards its clients' requests on this connection from now on."""
        self.is_forwarder = True

    def send(self, frame: bytes) -> None:
        """Queues a whole frame."""
        if not self.out:
            self.ready()
        self.out.append(frame)
        self.out_bytes += len(frame)

    def opened(self) -> None:
        """Called when a client has connected: queues the server's first bytes of the protocol, if any."""

    def input_ended(self) -> None:
        """Called when the other end has closed its sending side, and may still read. Queues a ping, if the
        protocol has one: the host of a client that is gone answers it with a reset."""

    def heartbeat(self) -> None:
        """Called at intervals: queues a sign of life for a client that understands it. For other clients
        TCP's keepalive is enough."""

    def close(self) -> None:
        """Called when the connection has ended: unsent output is lost."""
        self.closed = True
        self.ready = _ignore
        self.become = _stay
        self.hang_up = _stay_open


def _ignore() -> None:
    """`ready` without a connection."""


def _nowhere() -> str:
    """`reached_at` and `came_from` without a connection."""
    return ""


def _stay(heir: Session) -> None:
    """`become` without a connection."""


def _stay_open(reason: str) -> None:
    """`hang_up` without a connection."""
