"""Requests for a partition's end that wait until its new leader knows the end; and long ones that pause.

The high-water mark that clients see never goes back, but the former leader may have shown a higher one than
the new leader has at first.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def when_settled(call: "KafkaCall", partitions: Iterable[Partition], answer: Callable[[], None]) -> None:
    """Calls `answer` when the ends of all these partitions are known: at once, or later, but at most after
    `Limits.ack_timeout_ms`. `answer` has to expect partitions whose end is unknown even then. If the
    connection ends first, it is not called."""
    waited_for = tuple({p: None for p in partitions if not (p.end_known or p.unreadable)})
    session = call.session
    if not waited_for or not session.may_wait(waited_for, len(waited_for)):
        answer()
        return
    wait = KafkaSettlingWait(call, answer)
    wait.entries = len(waited_for)
    call.on_close = wait.gone
    session.begin_wait(wait, waited_for, session.limits.ack_timeout_ms)


class KafkaSettlingWait(Waiter[Partition]):
    """A request that waits for the ends of partitions."""

    __slots__ = ("answer", "call")

    def __init__(self, call: "KafkaCall", answer: Callable[[], None]) -> None:
        super().__init__()
        self.call = call
        self.answer = answer

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        """Does nothing: this request waits for `end_known` alone."""

    def end_known(self, partition: Partition) -> None:
        if all(one.end_known or one.unreadable for one in self.partitions):
            self.expired()

    def lost(self, partition: Partition) -> None:
        self.end_known(partition)

    def expired(self) -> None:
        self.gone()
        self.answer()

    def gone(self) -> None:
        """Ends the wait without an answer: the connection has ended."""
        self.call.session.end_wait(self)


class KafkaPause(Waiter[Partition]):
    """A request that lets others have their turn before it goes on."""

    __slots__ = ("_call", "_go_on", "_ms")

    def __init__(self, call: "KafkaCall", go_on: Callable[[], None], ms: int = 0) -> None:
        """ms: how long it pauses at least."""
        super().__init__()
        self._call = call
        self._go_on = go_on
        self._ms = ms

    def begin(self) -> None:
        """Calls `go_on` soon, unless the connection ends first."""
        self._call.on_close = self.gone
        self._call.session.begin_wait(self, (), self._ms)

    def expired(self) -> None:
        self.gone()
        self._go_on()

    def gone(self) -> None:
        """Ends the pause without going on."""
        self._call.session.end_wait(self)
