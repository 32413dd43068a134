"""The places in a log where consumers and followers go on reading, so that their next read needs no
search."""

from typing import Final

from tank_node.segment.segment import Segment

_MOST: Final = 256
"""The most places remembered for one log."""


class ReadCursors:
    """A part of `log.PartitionLog`."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        self.places: dict[int, tuple[Segment, int]] = {}
        """By number: the segment and record at which a read from this number begins. Holds no number below
        the first available one."""

    def remember(self, number: int, segment: Segment, i: int) -> None:
        """Remembers that a read from this number begins at record `i` of the segment."""
        places = self.places
        if len(places) >= _MOST:
            del places[next(iter(places))]
        places[number] = (segment, i)

    def clear(self) -> None:
        """Forgets all places, after segments were removed, replaced or cut."""
        self.places.clear()
