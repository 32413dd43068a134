"""Who has which partition of an Iggy group's topic, and who gets it next. Pure.

A partition that moves is pending: nobody polls it, and its former owner stores how far it came. It goes to
its heir when the owner gives it up, leaves, or `PENDING_MS` have passed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tank_node.coordinators.iggy.shares import NOBODY, by_number, sticky
from tank_node.coordinators.machine.iggy_requests import IggyTold
from tank_node.coordinators.records.iggy_records import IggyMemberKey

PENDING_MS: Final = 30_000
"""How long an owner may take to store how far it came."""


class PendingPartition(NamedTuple):
    """A partition on its way from its owner to another member."""

    heir: IggyMemberKey
    since_ms: int
    """Since when it has been taken from its owner (monotonic); another heir doesn't change it."""
    generation: int
    """The first one in which it was pending: what its owner gave up before doesn't count."""


class Holdings:
    """The partitions of one group, by number.

    Invariant: who is pending to get a partition is another one than its owner; a partition without an owner
    is not pending.
    """

    __slots__ = ("owners", "pending")

    def __init__(self) -> None:
        self.owners: list[IggyMemberKey | None] = []
        self.pending: dict[int, PendingPartition] = {}

    def load(
        self,
        owners: Sequence[IggyMemberKey | None],
        heirs: Sequence[IggyMemberKey | None],
        now_ms: int,
        generation: int,
    ) -> None:
        """Takes over what is stored. What is pending counts as taken from its owner now."""
        self.owners = list(owners)
        self.pending = {
            number: PendingPartition(heir, now_ms, generation)
            for number, heir in enumerate(heirs)
            if heir is not None
        }

    def heir_of(self, number: int) -> IggyMemberKey | None:
        """Who gets a partition next that somebody else has; None: nobody."""
        pending = self.pending.get(number)
        return None if pending is None else pending.heir

    def meant_for(self, number: int) -> IggyMemberKey | None:
        """Who is to have a partition in the end."""
        pending = self.pending.get(number)
        return self.owners[number] if pending is None else pending.heir

    def resize(self, count: int) -> bool:
        """The topic has so many partitions now; returns whether that is new."""
        before = len(self.owners)
        if count < before:
            del self.owners[count:]
            self.pending = {number: each for number, each in self.pending.items() if number < count}
        self.owners += [None] * (count - before)
        return count != before

    def share(self, members: Sequence[IggyMemberKey], is_sticky: bool, now_ms: int, generation: int) -> None:
        """Shares the partitions out among these members, in the order of joining. What members have that are
        not among them is free at once. generation: the one that begins with this."""
        places = {member: place for place, member in enumerate(members)}
        held = [NOBODY if owner is None else places.get(owner, NOBODY) for owner in self.owners]
        if is_sticky:
            meant = [self._place(places, number) for number in range(len(self.owners))]
            shares = sticky(len(members), meant, held)
        else:
            shares = by_number(len(self.owners), len(members))
        for number, place in enumerate(shares):
            before = self.pending.pop(number, None)
            if held[number] == NOBODY or place == NOBODY:
                self.owners[number] = None if place == NOBODY else members[place]
            elif held[number] != place:
                since_ms, first = (
                    (now_ms, generation) if before is None else (before.since_ms, before.generation)
                )
                self.pending[number] = PendingPartition(members[place], since_ms, first)

    def _place(self, places: Mapping[IggyMemberKey, int], number: int) -> int:
        member = self.meant_for(number)
        return NOBODY if member is None else places.get(member, NOBODY)

    def release(self, owner: IggyMemberKey, number: int, generation: int) -> bool:
        """The owner gave a partition up, as of this generation; returns whether its heir has it now."""
        pending = self.pending.get(number)
        if pending is None or self.owners[number] != owner or generation < pending.generation:
            return False
        del self.pending[number]
        self.owners[number] = pending.heir
        return True

    def expire(self, now_ms: int) -> bool:
        """Gives the heirs what was pending for too long; returns whether there was any."""
        late = [number for number, each in self.pending.items() if now_ms - each.since_ms >= PENDING_MS]
        for number in late:
            self.owners[number] = self.pending.pop(number).heir
        return bool(late)

    def told(self, members: Iterable[IggyMemberKey]) -> dict[IggyMemberKey, IggyTold]:
        """What each of these members is told."""
        own: dict[IggyMemberKey, list[int]] = {member: [] for member in members}
        draining: dict[IggyMemberKey, list[int]] = {}
        for number, owner in enumerate(self.owners):
            if owner is None:
                continue
            if number in self.pending:
                draining.setdefault(owner, []).append(number)
            else:
                own[owner].append(number)
        return {
            member: IggyTold(member.connection, tuple(numbers), tuple(draining.get(member, ())))
            for member, numbers in own.items()
        }
