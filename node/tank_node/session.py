"""What a connection talks through, whoever is at its other end: bytes in, bytes and ranges of files out.

No I/O, no clock. The server feeds received bytes to `receive`, sends what collects in `out`, and calls
`close` at the end.
"""

from collections.abc import Callable

from tank_node.output import Output


class Session:
    """One conversation. A plain base class, because the server calls it for every receive."""

    __slots__ = (
        "become", "closed", "hang_up", "has_chunks", "in_flight", "is_forwarder", "kept", "out", "out_bytes",
        "reached_at", "ready",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ready: Callable[[], None] = _ignore
        """Told when `out` is no longer empty; the server's."""
        self.become: Callable[[Session], None] = _stay
        """Gives the connection to another session, from the next receive on; the server's. Nothing may be
        behind the frame that asks for it."""
        self.hang_up: Callable[[str], None] = _stay_open
        """Ends the connection at once, for this reason; the server's."""
        self.reached_at: Callable[[], str] = _nowhere
        """The host of the address that the other end connected to; empty: not known. The server's."""
        self.out: list[Output] = []
        """What is to be sent, in its order. The server takes it out."""
        self.has_chunks = False
        """Whether `out` holds more than bytes."""
        self.out_bytes = 0
        """Of `out`, without chunks. The server sets it to 0 when it takes them."""
        self.in_flight = 0
        """Requests that were taken and not answered."""
        self.kept = 0
        """Up to where the bytes that `receive` was given last must stay as they are."""
        self.is_forwarder = False
        """Whether another broker of the cluster forwards its clients' requests here."""
        self.closed = False

    @property
    def is_full(self) -> bool:
        """Whether nothing more is taken until some of what is under way is done or sent."""
        return False

    @property
    def is_peer(self) -> bool:
        """Whether another broker is at the other end. It is read even when clients hold all memory: a broker
        that is not heard is taken out of in-sync sets, and clients wait the longer."""
        return True

    @property
    def is_client(self) -> bool:
        """Whether what comes is requests: at a node's stop no more are read."""
        return False

    @property
    def hears_while_sending(self) -> bool:
        """Whether it is read even while something is unsent: what comes makes it send no more than is bounded
        elsewhere."""
        return False

    def receive(self, buffer: bytearray, view: memoryview, at: int, end: int) -> int:
        """Takes the whole frames of buffer[at:end] (`view` is over all of `buffer`); returns where the
        rest begins.

        The rest is part of a frame, or frames that have to wait because the session `is_full`. The bytes
        before `kept` must stay as they are until the broker's tick has ended. Raises WireError: the
        connection is to be closed.
        """
        raise NotImplementedError

    def frame_bytes(self, head: bytes) -> int:
        """How long the frame is that begins with these bytes, all of it; 0: they are too few to tell."""
        raise NotImplementedError

    def take_frame(self, frame: memoryview) -> None:
        """Takes one frame, whole and alone: one that is longer than a connection is read at once. Raises
        WireError: the connection is to be closed."""
        raise NotImplementedError

    def hold_back(self) -> None:
        """Takes no more requests until `go_on`: what they need is full."""

    def go_on(self) -> None:
        """Takes requests again, those first that had to wait."""

    def forwards(self) -> None:
        """From now on another broker forwards its clients' requests here."""
        self.is_forwarder = True

    def send(self, frame: bytes) -> None:
        """Queues a whole frame."""
        if not self.out:
            self.ready()
        self.out.append(frame)
        self.out_bytes += len(frame)

    def opened(self) -> None:
        """A client has connected: queues what this protocol's server says first."""

    def input_ended(self) -> None:
        """The other end sends nothing more, and may still read: queues what makes its system say that it is
        gone altogether, if the protocol has such a thing."""

    def heartbeat(self) -> None:
        """From time to time: queues what shows a client that waits that this broker is there, if it takes
        that. For the others TCP's keepalive finds out."""

    def close(self) -> None:
        """The connection has ended: nothing that is queued will be sent."""
        self.closed = True
        self.ready = _ignore
        self.become = _stay
        self.hang_up = _stay_open


def _ignore() -> None:
    """Nobody is there to be told."""


def _nowhere() -> str:
    """There is no socket."""
    return ""


def _stay(heir: Session) -> None:
    """The connection has ended."""


def _stay_open(reason: str) -> None:
    """The connection has ended."""
