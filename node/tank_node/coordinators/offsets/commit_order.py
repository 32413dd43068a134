"""The order of positions that clients commit through other brokers: a commit that comes late, after its
client went on by way of another broker, is refused. Pure.

A broker says with each request how far the coordinator's log had come when its client asked, as far as it had
heard. When a client gave up on one broker, and another one's commit was stored, that lies behind all that the
first broker had heard of before: what still comes from the first one is late (docs/decisions/0082).
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from tank_node.coordinators.machine.group_requests import TopicPartition

MOST_PLACES: Final = 4_000
"""For how many positions of one partition of the internal topic the coordinator remembers who set them last:
some 1 MB. Of those behind it the newest counts, for all."""

Place = tuple[str, str, int]
"""Group, topic, partition."""


class CommitOrder:
    """The order in which one coordinator took positions, from the time at which it began."""

    __slots__ = ("_floor", "_last")

    def __init__(self, began: int) -> None:
        """began: the high-water mark at the beginning; what other coordinators stored lies at or below."""
        self._floor = began
        """Positions that are missing in `_last` were set at this number at the latest."""
        self._last: OrderedDict[Place, tuple[object, int]] = OrderedDict()
        """By position: the connection on which it was set last, and a number that its record isn't below; the
        oldest first."""

    def is_late(
        self, group_id: str, places: Iterable[TopicPartition], connection: object, heard: int
    ) -> bool:
        """Whether another connection may have set one of the positions after a client asked its broker, which
        had heard of this high-water mark then."""
        forgotten = None, self._floor
        for topic, partition in places:
            setter, number = self._last.get((group_id, topic, partition), forgotten)
            if heard < number and setter is not connection:
                return True
        return False

    def taken(self, group_id: str, places: Iterable[TopicPartition], connection: object, number: int) -> None:
        """Notes positions that are about to be stored. number: the next one of the log."""
        for topic, partition in places:
            place = group_id, topic, partition
            self._last[place] = connection, number
            self._last.move_to_end(place)
        while len(self._last) > MOST_PLACES:
            _, (_, forgotten) = self._last.popitem(last=False)
            self._floor = max(self._floor, forgotten)
