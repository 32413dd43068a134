"""Requests for a partition's end that wait until its new leader knows the end.

The high-water mark that clients see never goes back, but the former leader may have shown a higher one than
the new leader has at first.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession


def when_end_known(
    session: "TankSession", partitions: Iterable[Partition | None], answer: Callable[[], None]
) -> None:
    """Calls `answer` when the ends of all these partitions are known: at once, or later, but at most after
    `ack_timeout_ms`. `answer` has to expect partitions whose end is unknown even then."""
    waited_for = tuple({p: None for p in partitions if p is not None and not (p.end_known or p.unreadable)})
    if not waited_for or not session.may_wait(waited_for, len(waited_for)):
        answer()
        return
    wait = SettlingWait(session, answer)
    wait.entries = len(waited_for)
    session.begin_wait(wait, waited_for, session.limits.ack_timeout_ms)


class SettlingWait(Waiter[Partition]):
    """A request that waits for the ends of partitions."""

    __slots__ = ("answer", "session")

    def __init__(self, session: "TankSession", answer: Callable[[], None]) -> None:
        super().__init__()
        self.session = session
        self.answer = answer

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        """Does nothing: this request waits for `end_known` alone."""

    def end_known(self, partition: Partition) -> None:
        if all(one.end_known or one.unreadable for one in self.partitions):
            self.expired()

    def lost(self, partition: Partition) -> None:
        self.end_known(partition)

    def expired(self) -> None:
        self.session.end_wait(self)
        self.answer()
