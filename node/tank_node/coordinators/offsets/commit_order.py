"""The order of positions that clients commit through other brokers: a commit that comes late, after its
client went on by way of another broker, is refused. Pure.

A broker says with each request how far the coordinator's log had come when its client asked, as far as it had
heard. When a client gave up on one broker, and another one's commit was stored, that lies behind all that the
first broker had heard of before: what still comes from the first one is late (docs/decisions/0082).
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tank_node.coordinators.machine.group_requests import TopicPartition

MOST_PLACES: Final = 4_000
"""For how many positions of one partition of the internal topic the coordinator remembers who set them last:
some 1 MB. Of those behind it the newest counts, for all."""

Place = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass(slots=True, eq=False)
class PendingSetting:
    """Positions that a request is about to set."""

    connection: int
    number: int
    """A number that the records aren't below: the next one of the log when the request was taken."""
    places: tuple[Place, ...]


class CommitOrder:
    """The order in which one coordinator took positions, from the time at which it began.

    Invariant: no number in `_last`, and not `_floor`, is above the end of the log. So each request is in time
    as soon as its broker has heard of the mark: one that was refused, and wrote nothing, is in no client's
    way.
    """

    __slots__ = ("_floor", "_last", "_under_way")

    def __init__(self, began: int) -> None:
        """began: the high-water mark at the beginning; what other coordinators stored lies at or below."""
        self._floor = began
        """Positions that are missing in `_last` were set at this number at the latest."""
        self._last: OrderedDict[Place, tuple[int, int]] = OrderedDict()
        """By position: the connection on which it was set last, and the number of its setting; the oldest
        first."""
        self._under_way: dict[Place, list[PendingSetting]] = {}
        """By position: the settings without an outcome, the oldest first."""

    def is_late(self, group_id: str, places: Iterable[TopicPartition], connection: int, heard: int) -> bool:
        """Whether another connection may have set one of the positions after a client asked its broker, which
        had heard of this high-water mark then."""
        forgotten = 0, self._floor
        for topic, partition in places:
            place = group_id, topic, partition
            settings = self._under_way.get(place)
            if settings:
                setter, number = settings[-1].connection, settings[-1].number
            else:
                setter, number = self._last.get(place, forgotten)
            if heard < number and setter != connection:
                return True
        return False

    def taken(
        self, group_id: str, places: Iterable[TopicPartition], connection: int, number: int
    ) -> PendingSetting:
        """Notes positions that may be stored now. connection: its serial number, from 1 on. number: the next
        one of the log. The caller says `ended` with the result."""
        setting = PendingSetting(connection, number, tuple((group_id, *place) for place in places))
        for place in setting.places:
            self._under_way.setdefault(place, []).append(setting)
        return setting

    def ended(self, setting: PendingSetting, log_end: int) -> None:
        """Notes that a request has its answer. log_end: the last number of the log now. If it lies below the
        setting's, nothing was stored, and the positions are as they were. If not, something was, and the mark
        will pass it."""
        for place in setting.places:
            settings = self._under_way[place]
            settings.remove(setting)
            if not settings:
                del self._under_way[place]
            if log_end >= setting.number and setting.number >= self._last.get(place, (0, 0))[1]:
                self._last[place] = setting.connection, setting.number
                self._last.move_to_end(place)
        while len(self._last) > MOST_PLACES:
            _, (_, forgotten) = self._last.popitem(last=False)
            self._floor = max(self._floor, forgotten)
