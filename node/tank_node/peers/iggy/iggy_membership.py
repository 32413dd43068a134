"""One member of an Iggy group, at the broker that has its connection. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from tank_node.coordinators.machine.iggy_requests import IggyMemberName


class IggyAssignment(NamedTuple):
    """What a member may poll."""

    generation: int
    partitions: tuple[int, ...]


class IggyMembership:
    """What a member was told, and how far it came.

    It gives a partition up that it is to give up when no poll of it is under way, and what it polled last is
    stored. Members of eras before B3 don't wait for the latter.
    """

    __slots__ = (
        "_busy", "_polled", "_stored", "draining", "first_sequence", "generation", "is_member", "last_polled",
        "name", "partitions",
    )  # fmt: skip

    def __init__(self, name: IggyMemberName, first_sequence: int) -> None:
        self.name = name
        self.first_sequence = first_sequence
        """That of the first message that names it. Answers to earlier ones are about one of before that the
        same connection was."""
        self.is_member = False
        """Whether the coordinator has ever said so."""
        self.generation = 0
        self.partitions: tuple[int, ...] = ()
        """What it may poll, ascending."""
        self.draining: tuple[int, ...] = ()
        """What it is to give up."""
        self.last_polled: int | None = None
        """The partition that it polled last."""
        self._busy: dict[int, int] = {}
        """How many polls of a partition are under way."""
        self._polled: dict[int, int] = {}
        """By partition: the offset of the last message that it got."""
        self._stored: dict[int, int] = {}
        """By partition: the offset that it stored last."""

    def hear(self, generation: int, partitions: Sequence[int], draining: Sequence[int]) -> None:
        """The coordinator says what it has."""
        self.is_member = True
        self.generation = generation
        self.partitions, self.draining = tuple(partitions), tuple(draining)
        held = {*partitions, *draining}
        for known in (self._polled, self._stored):
            for number in known.keys() - held:
                del known[number]

    def next_partition(self) -> int | None:
        """The partition that it polls next: it goes round its own. None: it has none."""
        last = self.last_polled
        for number in self.partitions:
            if last is None or number > last:
                return number
        return self.partitions[0] if self.partitions else None

    def begin_poll(self, partition: int) -> None:
        """A poll of one of its partitions is under way."""
        self.last_polled = partition
        self._busy[partition] = self._busy.get(partition, 0) + 1

    def end_poll(self, partition: int, offset: int | None) -> None:
        """It ended. offset: that of its last message; None: it had none."""
        left = self._busy.pop(partition, 1) - 1
        if left > 0:
            self._busy[partition] = left
        if offset is not None and (partition in self.partitions or partition in self.draining):
            self._polled[partition] = offset

    def store(self, partition: int, offset: int) -> None:
        """It stored an offset."""
        if partition in self.partitions or partition in self.draining:
            self._stored[partition] = offset

    def released(self) -> list[int]:
        """The partitions that it is to give up, and has done with."""
        return [number for number in self.draining if self._is_done_with(number)]

    def _is_done_with(self, partition: int) -> bool:
        if self._busy.get(partition):
            return False
        polled = self._polled.get(partition)
        if polled is None or not self.name.is_sticky:
            return True
        stored = self._stored.get(partition)
        return stored is not None and stored >= polled
