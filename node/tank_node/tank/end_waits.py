"""Requests that would show the end of a partition whose leader is new: they wait until it knows the end.

An earlier leader may have shown a higher mark than the new one has at first; what clients see never goes
back.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession


def when_settled(
    session: "TankSession", partitions: Iterable[Partition | None], answer: Callable[[], None]
) -> None:
    """Answers at once when all of these show their end, else when they do, or after the time that a
    request without a deadline may take; `answer` then tells of those that still don't."""
    waited_for = tuple({p: None for p in partitions if p is not None and not (p.settled or p.unreadable)})
    if not waited_for or not session.may_wait(waited_for, len(waited_for)):
        answer()
        return
    wait = SettlingWait(session, answer)
    wait.entries = len(waited_for)
    session.begin_wait(wait, waited_for, session.limits.ack_timeout_ms)


class SettlingWait(Waiter[Partition]):
    """Such a request."""

    __slots__ = ("answer", "session")

    def __init__(self, session: "TankSession", answer: Callable[[], None]) -> None:
        super().__init__()
        self.session = session
        self.answer = answer

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        """`settled` is told besides."""

    def settled(self, partition: Partition) -> None:
        if all(one.settled or one.unreadable for one in self.partitions):
            self.expired()

    def lost(self, partition: Partition) -> None:
        self.settled(partition)

    def expired(self) -> None:
        self.session.end_wait(self)
        self.answer()
