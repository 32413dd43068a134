"""Which learned requests of a connection are forgotten for new ones."""

from typing import Final, TypeVar

_NEWEST_FORGOTTEN: Final = 1024
"""After the newest was forgotten this often, all are."""

Path = TypeVar("Path")


def make_room(known: dict[bytes, Path], forgotten: int) -> int:
    """Makes room for one request: forgets the newest, because a client that goes round too many partitions
    needs the oldest next. Once in a while forgets all, because the client may have changed its partitions.
    `forgotten`: the last call's result, or 0."""
    forgotten += 1
    if forgotten < _NEWEST_FORGOTTEN:
        known.popitem()
        return forgotten
    known.clear()
    return 0
