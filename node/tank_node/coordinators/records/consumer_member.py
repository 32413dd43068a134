"""A member of a group of the consumer protocol."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from tank_node.coordinators.machine.topics import NOWHERE, Place, Places


class ShareProgress(IntEnum):
    """How far a member is on its way to its target; the numbers are those of its stored record."""

    THERE = 0
    """It has its target, as of its epoch."""
    REVOKING = 1
    """It was told to give partitions up, and has not said that it has."""
    WAITING = 2
    """Partitions of its target have other owners yet."""


@dataclass(slots=True, frozen=True)
class ClassicSide:
    """What a member of the classic protocol says besides."""

    session_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(slots=True, frozen=True)
class Said:
    """What a member says of itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    """A pattern of more topics; empty: none."""
    rebalance_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None
    """None: the member speaks the consumer protocol."""

    @property
    def size(self) -> int:
        """How many bytes it takes, as far as its client chooses."""
        protocols = () if self.classic is None else self.classic.protocols
        return sum(map(len, self.topics)) + sum(len(name) + len(said) for name, said in protocols)


@dataclass(slots=True, frozen=True)
class MemberStanding:
    """What a member has, and as of which epoch."""

    epoch: int = 0
    previous_epoch: int = 0
    progress: ShareProgress = ShareProgress.THERE
    assigned: Places = NOWHERE
    """What it may read."""
    revoking: Places = NOWHERE
    """What it is to give up: no other member gets it before this one says that it has."""

    @property
    def held(self) -> Places:
        """What no other member may get."""
        return self.assigned | self.revoking if self.revoking else self.assigned

    def is_at(self, epoch: int) -> bool:
        """Whether the member has its target of this epoch."""
        return self.progress is ShareProgress.THERE and self.epoch == epoch

    def toward(
        self, target: Places, target_epoch: int, owned: Places | None, is_free: Callable[[Place], bool]
    ) -> "MemberStanding":
        """The standing after a heartbeat: one step toward the target.

        First the member gives up what is not its any more, in its old epoch, and only when it no longer names
        that among what it owns it comes into the target's epoch and gets what is free. owned: what it says
        that it has; None: it didn't say. is_free: whether no other member has a partition.
        """
        epoch = self.epoch
        if self.progress is ShareProgress.THERE and epoch == target_epoch:
            return self
        if self.progress is ShareProgress.REVOKING:
            if owned is None or owned & self.revoking:
                return self
            epoch += 1
        kept = self.assigned & target
        lost = self.assigned - target
        if lost and (owned is None or owned & lost):
            return self._now(epoch, ShareProgress.REVOKING, kept, lost)
        wanted = target - kept
        got = frozenset(place for place in wanted if is_free(place))
        progress = ShareProgress.THERE if len(got) == len(wanted) else ShareProgress.WAITING
        return self._now(target_epoch, progress, kept | got, NOWHERE)

    def _now(
        self, epoch: int, progress: ShareProgress, assigned: Places, revoking: Places
    ) -> "MemberStanding":
        previous = self.previous_epoch if epoch == self.epoch else self.epoch
        return MemberStanding(epoch, previous, progress, assigned, revoking)


class ConsumerMember:
    """What the coordinator knows of one member. Times are those of a monotonic clock, in milliseconds."""

    __slots__ = (
        "deadline_ms",
        "join_by_ms",
        "member_id",
        "owes_assignment",
        "revoke_by_ms",
        "said",
        "standing",
        "sync_by_ms",
    )

    def __init__(self, member_id: str, said: Said, standing: MemberStanding) -> None:
        self.member_id = member_id
        self.said = said
        self.standing = standing
        self.deadline_ms = 0
        """When its session ends, unless it is heard before."""
        self.revoke_by_ms: int | None = None
        """When it is to have given up what it was told to."""
        self.join_by_ms: int | None = None
        """When a classic member is to have joined again, which it was told to."""
        self.sync_by_ms: int | None = None
        """When a classic member is to have asked for its assignment."""
        self.owes_assignment = False
        """Whether the next answer has its assignment, though that didn't change: an answer was lost."""

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.said.classic is not None

    @property
    def deadlines(self) -> list[int]:
        """When it is to be dismissed, if it does nothing."""
        found = (self.deadline_ms, self.revoke_by_ms, self.join_by_ms, self.sync_by_ms)
        return [deadline for deadline in found if deadline is not None]
