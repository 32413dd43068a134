"""The partitions that a member of a group holds: what was assigned, and what the program has of it; pure.

The coordinator gives a partition to no other member before a heartbeat of its holder no longer names it. So a
member holds

* what was assigned last, from the moment of the answer on, also before the program has heard of it;
* what the program has and the group took back, until the program was told and the positions are committed.

What was taken back stays taken back until then, even if the group gives it again meanwhile. A partition
that was lost and is given again is held, but the program gets it only after it was told of the loss: it still
knows its position from before, and other members may have passed that.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from tank_client.model import Route

NONE: frozenset[Route] = frozenset()


class PartitionEvent(Enum):
    """What happens to partitions of a member."""

    LOST = auto()
    """The group gave them to others: their positions can no longer be committed."""
    REVOKED = auto()
    """The group takes them back, once their positions are committed."""
    ASSIGNED = auto()
    """The group gave them to this member."""


@dataclass(slots=True, frozen=True)
class PartitionChange:
    """What the program hears between two reads; the partitions are sorted."""

    kind: PartitionEvent
    partitions: tuple[Route, ...]


class HeldPartitions:
    """Invariant: `revoking` is a part of `begun`, and nothing of `lost` is begun."""

    __slots__ = ("_begun", "_lost", "_revoking", "_since", "_target", "assignments")

    def __init__(self) -> None:
        self._target = self._begun = self._revoking = self._lost = NONE
        self.assignments = 0
        """A number that rises with each assignment that brings partitions."""
        self._since: dict[Route, int] = {}
        """`assignments` when the group gave the partition last; at least for all that it assigns."""

    @property
    def held(self) -> frozenset[Route]:
        """What heartbeats name."""
        return self._target | self._begun

    @property
    def begun(self) -> frozenset[Route]:
        """What the program has, and whose positions may be committed."""
        return self._begun

    @property
    def readable(self) -> frozenset[Route]:
        """What may be handed out."""
        return self._begun - self._revoking

    @property
    def revoking(self) -> frozenset[Route]:
        """What the group took back, and the program has."""
        return self._revoking

    @property
    def lost(self) -> frozenset[Route]:
        """What the group gave to others, and the program has not heard of."""
        return self._lost

    def assign(self, target: Collection[Route]) -> None:
        """The group assigns these partitions, and no others."""
        given = frozenset(target) - self._target
        if given:
            self.assignments += 1
            self._since |= dict.fromkeys(given, self.assignments)
        self._target = frozenset(target)
        self._revoking |= self._begun - self._target

    def lose(self) -> None:
        """The group no longer counts the member: all is lost."""
        self._lost |= self._begun
        self._target = self._begun = self._revoking = NONE

    def change(self) -> PartitionChange | None:
        """The next change that the program has to hear of; None: none."""
        for kind, partitions in (
            (PartitionEvent.LOST, self._lost),
            (PartitionEvent.REVOKED, self._revoking),
            (PartitionEvent.ASSIGNED, self._target - self._begun),
        ):
            if partitions:
                return PartitionChange(kind, tuple(sorted(partitions)))
        return None

    def begin(self, partitions: Collection[Route], as_of: int) -> tuple[Route, ...]:
        """The program gets these partitions, at positions that were asked for when `assignments` was `as_of`.
        Returns those that the group has not taken back since, even if it gave them again: others may have
        committed meanwhile."""
        there = (self._target - self._begun - self._lost).intersection(partitions)
        begun = frozenset(route for route in there if self._since[route] <= as_of)
        self._begun |= begun
        return tuple(sorted(begun))

    def release(self, partitions: Collection[Route]) -> bool:
        """The program has given these up, and their positions are committed. Returns whether the group waits
        for some of them."""
        gone = self._revoking.intersection(partitions)
        self._begun -= gone
        self._revoking -= gone
        return bool(gone)

    def heard_of_loss(self, partitions: Collection[Route]) -> None:
        """The program knows that these are lost."""
        self._lost = self._lost.difference(partitions)
