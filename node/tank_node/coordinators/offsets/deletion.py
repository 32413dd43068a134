"""The deletion of committed offsets, of a whole group or of some partitions, in steps that are short enough
for an event loop."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import TopicPartition

STEP: Final = 256
"""How many offsets a step deletes, in one change: some milliseconds without the compiled kernel."""


class Deletion:
    """Offsets that are deleted, and the record of their group behind them if it goes, too."""

    __slots__ = ("_append", "_done", "_error", "_last", "_left", "_missing")

    def __init__(
        self,
        places: Iterable[TopicPartition],
        append: Callable[[Sequence[TopicPartition], Callable[[GroupError], None]], None],
        done: Callable[[GroupError], None],
        last: Callable[[Callable[[GroupError], None]], None] | None = None,
    ) -> None:
        """append: deletes these offsets in one change. last: a change that follows all of these. done: called
        once, with the first error, when all changes have ended."""
        self._left = dict.fromkeys(places)
        self._append = append
        self._last = last
        self._done: Callable[[GroupError], None] | None = done
        self._error = GroupError.NONE
        self._missing = 1
        """Changes that have not ended, and 1 while there may be more of them."""

    @property
    def is_short(self) -> bool:
        """Whether one step deletes all."""
        return len(self._left) <= STEP

    def spare(self, place: TopicPartition) -> None:
        """Leaves out an offset that was committed meanwhile."""
        self._left.pop(place, None)

    def steps(self) -> Iterator[None]:
        """Deletes some offsets at each step."""
        while self._left:
            part: list[TopicPartition] = []
            while self._left and len(part) < STEP:
                part.append(self._left.popitem()[0])
            self._missing += 1
            self._append(part, self._ended)
            yield
        if self._last is not None:
            self._missing += 1
            self._last(self._ended)
        self._ended(GroupError.NONE)

    def refuse(self, error: GroupError) -> None:
        """Answers with this error: the coordination has ended."""
        done, self._done = self._done, None
        if done is not None:
            done(error)

    def _ended(self, error: GroupError) -> None:
        self._error = self._error or error
        self._missing -= 1
        if not self._missing:
            self.refuse(self._error)
