"""Which of the requests that a connection has learned are forgotten for new ones."""

from typing import Final, TypeVar

_NEWEST_FORGOTTEN: Final = 1024
"""So often the newest is forgotten, and then all."""

Path = TypeVar("Path")


def make_room(known: dict[bytes, Path], forgotten: int) -> int:
    """Forgets the newest, for one more: in a round over too many partitions the oldest is wanted next. But
    who went over to other partitions shall not have one place for all of them for ever: once in a while all
    are forgotten. `forgotten`: what the last call returned; 0 at first."""
    forgotten += 1
    if forgotten < _NEWEST_FORGOTTEN:
        known.popitem()
        return forgotten
    known.clear()
    return 0
