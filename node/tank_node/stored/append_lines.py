"""The order of appends that wait for their leader."""

from collections import deque
from typing import Protocol, TypeAlias

from tank_node.stored.results import Place

LineKey: TypeAlias = tuple[int, Place]
"""A client's connection, by its serial number, and a partition."""


class WaitingAppend(Protocol):
    """An append in a line."""

    @property
    def key(self) -> LineKey:
        """Its line."""

    @property
    def held_bytes(self) -> int:
        """The bytes of its batch."""

    @property
    def is_under_way(self) -> bool:
        """Whether an attempt is to be waited for."""

    def attempt(self) -> None:
        """Tries it, at the partition's leader as it is now."""


class AppendLines:
    """For each connection and partition, the appends that wait behind one that has no leader, or is under way
    to another broker. Only the first one of a line is tried, so that none is stored before an earlier one."""

    __slots__ = ("_lines", "_running", "held_bytes")

    def __init__(self) -> None:
        self._lines: dict[LineKey, deque[WaitingAppend]] = {}
        self._running: set[LineKey] = set()
        """The lines of which `go_on` tries appends now."""
        self.held_bytes = 0
        """The bytes of the batches of all appends in lines."""

    def has(self, key: LineKey) -> bool:
        """Whether an append of this connection waits for the partition."""
        return key in self._lines

    def join(self, call: WaitingAppend) -> bool:
        """Puts an append at the end of its line. Returns whether it is the first one there."""
        line = self._lines.setdefault(call.key, deque())
        line.append(call)
        self.held_bytes += call.held_bytes
        return len(line) == 1

    def leave(self, call: WaitingAppend) -> None:
        """Takes the first append out of its line, and goes on with the next one."""
        line = self._lines[call.key]
        assert line[0] is call, "only the first append of a line is tried"
        line.popleft()
        self.held_bytes -= call.held_bytes
        if line:
            self.go_on(call.key)
        else:
            del self._lines[call.key]

    def go_on(self, key: LineKey) -> None:
        """Tries the first append of a line, and the next ones, until one is under way. In a loop: a client
        may have thousands in a line."""
        if key in self._running:
            return
        self._running.add(key)
        try:
            while (line := self._lines.get(key)) and not line[0].is_under_way:
                line[0].attempt()
        finally:
            self._running.discard(key)
