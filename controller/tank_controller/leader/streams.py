"""What the controller keeps of a broker's stream, and the deltas that brokers' copies want. No I/O."""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from tank_controller.state.view_parts import view_updates
from tank_protos.generated import control_pb2 as pb

HISTORY_BYTES = 16 * 1024 * 1024
HISTORY_DELTAS = 100_000
"""Deltas that are kept for brokers that come back: who is further behind gets the whole state."""
MAX_WAITING_PROPOSALS = 4096
"""Of one stream, unanswered."""


class Line(Protocol):
    """One broker's stream, as its shell has it."""

    def send(self, message: pb.BrokerDown) -> None:
        """Puts a message on its way, in order; must not wait. A broker that doesn't read is cut off."""

    def end(self) -> None:
        """Closes it behind what was sent."""


class Stream:
    """A broker's stream. `line` is its identity for the shell."""

    __slots__ = (
        "asked_to_stop", "broker_id", "epoch", "follows", "has_proved", "incarnation", "line", "mark",
        "max_level", "open", "waiting",
    )  # fmt: skip

    def __init__(self, line: Line) -> None:
        self.line = line
        self.mark = object()
        """Its identity for what outlives it, and must not keep all that it has not sent."""
        self.open = True
        self.broker_id = 0
        """0: nothing was heard yet."""
        self.epoch = 0
        """0: the registration is not committed yet."""
        self.incarnation = b""
        self.has_proved = False
        """The cluster's secret."""
        self.max_level = 0
        """The newest feature level that the process knows."""
        self.follows = False
        """It is sent every delta from now on."""
        self.waiting = 0
        """Proposals and queries without an answer."""
        self.asked_to_stop = False
        """It was told that it may."""

    def send(self, message: pb.BrokerDown) -> None:
        """To a stream that has ended, nothing."""
        if self.open:
            self.line.send(message)

    def end(self, message: pb.BrokerDown | None = None) -> None:
        """Nothing comes behind the message; nothing that the broker sends is heard any more."""
        if not self.open:
            return
        if message is not None:
            self.line.send(message)
        self.open = self.follows = False
        self.line.end()


@dataclass(slots=True, frozen=True)
class _Kept:
    index: int
    messages: list[pb.BrokerDown]
    size: int


class DeltaHistory:
    """The last deltas, ready to be sent."""

    def __init__(self, index: int) -> None:
        self.complete_from = index
        """All deltas behind this index are here."""
        self._kept: deque[_Kept] = deque()
        self._bytes = 0

    def add(self, delta: pb.Delta) -> list[pb.BrokerDown]:
        """Keeps the next one, and forgets the oldest; its messages."""
        messages = [pb.BrokerDown(view=update) for update in view_updates(delta)]
        kept = _Kept(delta.index, messages, delta.ByteSize())
        self._kept.append(kept)
        self._bytes += kept.size
        while self._bytes > HISTORY_BYTES or len(self._kept) > HISTORY_DELTAS:
            oldest = self._kept.popleft()
            self._bytes -= oldest.size
            self.complete_from = oldest.index
        return messages

    def since(self, index: int) -> list[pb.BrokerDown] | None:
        """The messages of all behind an index; None: some of them are not here any more."""
        if index < self.complete_from:
            return None
        return [message for kept in self._kept if kept.index > index for message in kept.messages]
