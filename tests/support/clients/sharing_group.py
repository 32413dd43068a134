"""A group whose coordinator assigns partitions, in the few rules that a member has to rely on; pure.

A partition of another member is assigned only when that member's heartbeat no longer names it, or the member
is gone.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from tank_protos.error_codes import ErrorCode

Route = tuple[str, int]
NONE: frozenset[Route] = frozenset()


@dataclass
class SharingMember:
    """A member as the coordinator knows it."""

    topics: tuple[str, ...]
    instance_id: str = ""
    epoch: int = 0
    previous: int = 0
    """Its epoch before: an answer may have been lost."""
    has: frozenset[Route] = NONE
    """What it was given, and has not given up."""
    is_away: bool = False
    """A static member that said it comes back."""


@dataclass
class SharingGroup:
    """One group. `topics`: the number of partitions of each topic."""

    topics: dict[str, int]
    epoch: int = 0
    members: dict[str, SharingMember] = field(default_factory=dict)
    positions: dict[Route, int] = field(default_factory=dict)
    refusal: int = 0
    """The error for every heartbeat; 0: none."""
    stale_commits: int = 0
    """How many commits are refused as if their members had other epochs by then."""

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        topics: Collection[str] = ("t",),
        owned: Collection[Route] = (),
        instance_id: str = "",
    ) -> tuple[int, int, frozenset[Route]]:
        """(error, epoch, assignment)."""
        if self.refusal:
            return self.refusal, -1, NONE
        if epoch < 0:
            return self._leave(member_id, epoch), -1, NONE
        if epoch == 0:
            error = self._join(member_id, tuple(topics), instance_id)
            if error:
                return error, -1, NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER, -1, NONE
        if epoch not in (0, member.epoch, member.previous):
            return ErrorCode.FENCED_MEMBER_EPOCH, -1, NONE
        target = self.target()[member_id]
        member.has = member.has & (target | frozenset(owned))
        if not member.has - target:
            if member.epoch != self.epoch:
                member.previous, member.epoch = member.epoch, self.epoch
            taken = frozenset[Route]().union(*(m.has for i, m in self.members.items() if i != member_id))
            member.has |= target - taken
        return 0, member.epoch, member.has & target

    def commit(self, member_id: str, epoch: int, positions: dict[Route, int]) -> int:
        """The error; 0: committed."""
        member = self.members.get(member_id)
        if not member_id and not self.members:
            self.positions |= positions
            return 0
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER
        if epoch != member.epoch or self.stale_commits:
            self.stale_commits = max(self.stale_commits - 1, 0)
            return ErrorCode.STALE_MEMBER_EPOCH
        self.positions |= positions
        return 0

    def expire(self, member_id: str) -> None:
        """The member's session is over."""
        if self.members.pop(member_id, None) is not None:
            self.epoch += 1

    def target(self) -> dict[str, frozenset[Route]]:
        """Who is to have what: each as many as the others, and what it has already, as far as possible."""
        routes = sorted((topic, number) for topic, count in self.topics.items() for number in range(count))
        names = sorted(self.members)
        targets: dict[str, set[Route]] = {name: set() for name in names}
        left = []
        quota = -(-len(routes) // max(len(names), 1))
        for route in routes:
            holder = next((name for name in names if route in self.members[name].has), None)
            if holder is not None and len(targets[holder]) < quota:
                targets[holder].add(route)
            else:
                left.append(route)
        for route in left:
            least = min(names, key=lambda name: (len(targets[name]), name))
            targets[least].add(route)
        most = max(names, key=lambda name: len(targets[name]))
        least_of_all = min(names, key=lambda name: len(targets[name]))
        if len(targets[most]) - len(targets[least_of_all]) > 1:
            moved = max(targets[most])
            targets[most].discard(moved)
            targets[least_of_all].add(moved)
        return {name: frozenset(target) for name, target in targets.items()}

    def _join(self, member_id: str, topics: tuple[str, ...], instance_id: str) -> int:
        before = next(
            (name for name, each in self.members.items() if instance_id and each.instance_id == instance_id),
            None,
        )
        if before is not None and before != member_id:
            if not self.members[before].is_away:
                return ErrorCode.UNRELEASED_INSTANCE
            self.members[member_id] = SharingMember(topics, instance_id, has=self.members.pop(before).has)
            return 0
        if member_id not in self.members:
            self.epoch += 1
        has = self.members[member_id].has if before is not None else NONE
        self.members[member_id] = SharingMember(topics, instance_id, has=has)
        return 0

    def _leave(self, member_id: str, epoch: int) -> int:
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER
        if epoch == -2:
            member.is_away = True
        else:
            self.expire(member_id)
        return 0
