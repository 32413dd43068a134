"""Which leaders of partitions a coordinator hears of no more. Pure."""

from typing import Final

MOST_PLACES: Final = 100_000
"""For how many partitions the coordinator remembers a leader that its view doesn't show yet: far more than
change their leaders at once. The oldest one is forgotten first."""

TopicPlace = tuple[int, int]
"""A topic's id and a partition's number."""


class EpochFence:
    """The epochs of leaders that have asked, as far as they are newer than the view.

    A leader reads a position once and remembers it. From then on nothing of an earlier leader may be stored,
    though its epoch is the stored one. The next coordinator needs no such memory: its own view, which shows
    that it coordinates, is newer than all that the one before had answered by.
    """

    __slots__ = ("_epochs",)

    def __init__(self) -> None:
        self._epochs: dict[TopicPlace, int] = {}

    def admits(self, place: TopicPlace, epoch: int, in_view: int) -> bool:
        """Whether a leader with this epoch may ask; notes it. in_view: the epoch that the view shows."""
        known = self._epochs.get(place, 0)
        if in_view >= known:
            self._epochs.pop(place, None)
            known = in_view
        if epoch < known:
            return False
        if epoch > known:
            self._epochs[place] = epoch
            if len(self._epochs) > MOST_PLACES:
                del self._epochs[next(iter(self._epochs))]
        return True
