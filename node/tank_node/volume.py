"""Whether the data folder's volume has room for messages: for the controllers, and for people. Pure.

A volume that fills is noticed before the first write fails, so that others can lead in time. That room is
there again does not mean that it stays: retention frees a segment, and leadership that came back for it would
leave again a moment later. So it comes back by itself only where somebody has done something: the volume is
larger, or the process is a new one.
"""

import logging
from enum import Enum

from tank_node.disk import Space
from tank_node.limits import FULL_BYTES, FULL_PART, ROOM_BYTES, ROOM_PART

_log = logging.getLogger(__name__)


class Room(Enum):
    """What a broker says of its volume."""

    UNSAID = "not looked at yet"
    ENOUGH = "enough"
    NONE = "none"
    AGAIN = "some again"
    """There was none, and there is some again."""


class Volume:
    """The volume of one data folder, as one process has seen it."""

    def __init__(self) -> None:
        self.room = Room.UNSAID
        self._space: Space | None = None
        self._size_when_full = 0

    def look(self, space: Space | None) -> bool:
        """What the volume has now; None: the system doesn't say. Whether `room` is now another."""
        before = self.room
        if space is not None:
            self._space = space
            self._judge(space)
        elif before is Room.UNSAID:
            self.room = Room.ENOUGH
        return self._note(before)

    def refused_a_write(self) -> bool:
        """A write failed because there is no room. Whether `room` is now another."""
        before = self.room
        self._fill()
        return self._note(before)

    @property
    def problem(self) -> str:
        """That there is no room, and what to do; empty: there is some."""
        if self.room is not Room.NONE:
            return ""
        free = "" if self._space is None else f" ({_mib(self._space.free)} free of {_mib(self._space.size)})"
        return (
            f"the data folder's volume is full{free}: it takes no messages; enlarge the volume, or make room "
            "by deleting topics or by a shorter retention"
        )

    def _judge(self, space: Space) -> None:
        if space.free < min(FULL_BYTES, space.size // FULL_PART):
            self._fill()
        elif self.room is Room.UNSAID:
            self.room = Room.ENOUGH
        elif self.room is not Room.ENOUGH and space.free >= min(ROOM_BYTES, space.size // ROOM_PART):
            self.room = Room.ENOUGH if space.size > self._size_when_full else Room.AGAIN

    def _fill(self) -> None:
        if self.room is not Room.NONE:
            self.room = Room.NONE
            self._size_when_full = 0 if self._space is None else self._space.size

    def _note(self, before: Room) -> bool:
        if self.room is before:
            return False
        if self.room is Room.NONE:
            _log.error("%s", self.problem)
        elif before is Room.NONE:
            _log.info("the data folder's volume has room again")
        return True


def _mib(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
