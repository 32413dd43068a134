"""Whether the data folder's volume has room for messages: for the controllers, and for operators. Pure.

A full volume is noticed before the first write fails, so that other brokers can lead in time. Room that comes
back may not last, since retention frees single segments; so it counts as enough again only when the volume
was enlarged, or after a restart of the process.
"""

import logging
from enum import Enum

from tank_node.disk import Space
from tank_node.limits import FULL_BYTES, FULL_PART, ROOM_BYTES, ROOM_PART

_log = logging.getLogger(__name__)


class Room(Enum):
    """The room on a volume, as a broker reports it."""

    UNSAID = "not looked at yet"
    ENOUGH = "enough"
    NONE = "none"
    AGAIN = "some again"
    """The volume was full, and has some room again."""


class Volume:
    """The room on the volume of one data folder, while one process runs."""

    def __init__(self) -> None:
        self.room = Room.UNSAID
        self.space: Space | None = None
        """The space at the last look; None: the system doesn't say."""
        self._size_when_full = 0

    def look(self, space: Space | None) -> bool:
        """Takes the volume's present space; None: the system doesn't say. Returns whether `room` has
        changed."""
        before = self.room
        if space is not None:
            self.space = space
            self._judge(space)
        elif before is Room.UNSAID:
            self.room = Room.ENOUGH
        return self._note(before)

    def refused_a_write(self) -> bool:
        """Notes a write that failed because the volume is full. Returns whether `room` has changed."""
        before = self.room
        self._fill()
        return self._note(before)

    @property
    def problem(self) -> str:
        """A sentence that the volume is full, and what to do; empty when it isn't."""
        if self.room is not Room.NONE:
            return ""
        free = "" if self.space is None else f" ({_mib(self.space.free)} free of {_mib(self.space.size)})"
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
            self._size_when_full = 0 if self.space is None else self.space.size

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
