"""A snapshot that is being made, beside everything else that the Raft driver does."""

from collections.abc import Iterator

from tank_controller.raft.messages import Configuration, Snapshot
from tank_controller.raft.snapshots import make

_PIECES_IN_ONE_GO = 2
"""The state of a small cluster is one: it is whole at once."""


class SnapshotMaking:
    """Of the state as it was at one entry. Its pieces come a few at each tick, its end is put together by the
    disk's thread.
    """

    def __init__(self, point: tuple[int, int, Configuration], pieces: Iterator[bytes]) -> None:
        """`point`: index, term and configuration that the state is of."""
        self._point = point
        self._pieces = pieces
        self._made: list[bytes] = []
        self.whole = False
        """All pieces are there."""

    def go_on(self) -> None:
        """Some more of it."""
        for _ in range(_PIECES_IN_ONE_GO):
            piece = next(self._pieces, None)
            if piece is None:
                self.whole = True
                return
            self._made.append(piece)

    def snapshot(self) -> Snapshot:
        """When it is whole."""
        assert self.whole
        return make(*self._point, b"".join(self._made))
