"""A broker's stream, as the leading controller keeps it. No I/O."""

from typing import Protocol

from tank_protos.generated import control_pb2 as pb

MAX_WAITING_PROPOSALS = 4096
"""How many proposals and queries of one stream may be unanswered."""


class BrokerLine(Protocol):
    """The connection of one broker's stream, which the shell implements."""

    def send(self, message: pb.BrokerDown) -> None:
        """Puts a message on its way, in order; must not wait. The stream of a broker that doesn't read is
        ended.
        """

    def end(self) -> None:
        """Closes the connection behind the messages sent so far."""


class Stream:
    """A broker's stream. The shell knows it by its `line`."""

    __slots__ = (
        "asked_to_stop", "broker_id", "epoch", "follows", "has_proved", "incarnation", "line", "mark",
        "max_level", "open", "waiting",
    )  # fmt: skip

    def __init__(self, line: BrokerLine) -> None:
        self.line = line
        self.mark = object()
        """Identifies the stream in tables that outlive it, without keeping the stream in memory."""
        self.open = True
        self.broker_id = 0
        """0 until a registration has come."""
        self.epoch = 0
        """The broker epoch; 0 until the registration is committed."""
        self.incarnation = b""
        self.has_proved = False
        """Whether the broker proved that it knows the cluster's secret."""
        self.max_level = 0
        """The newest feature level that the process knows."""
        self.follows = False
        """Whether the broker is sent every delta."""
        self.waiting = 0
        """How many proposals and queries have no answer yet."""
        self.asked_to_stop = False
        """Whether the broker was sent MayStop."""

    def send(self, message: pb.BrokerDown) -> None:
        """Sends a message; a stream that has ended sends nothing."""
        if self.open:
            self.line.send(message)

    def end(self, message: pb.BrokerDown | None = None) -> None:
        """Ends the stream behind this last message; what the broker sends from now on is ignored."""
        if not self.open:
            return
        if message is not None:
            self.line.send(message)
        self.open = self.follows = False
        self.line.end()
