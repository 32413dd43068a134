"""The machine of a group, whatever the protocol of its members: what the shell needs of it."""

from collections.abc import Sequence
from typing import ClassVar

from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeat, DescribedConsumerGroup
from tank_node.coordinators.machine.group_actions import Action
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_memory import GroupFigures
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    DescribedGroup,
    JoinRequest,
    ListedGroup,
    MemberName,
    SyncRequest,
)
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.machine.stored_record import StoredRecord


class GroupMachine:
    """One group: events in, actions out; no clock, no I/O.

    `now_ms` is a monotonic clock's time, and never goes back. After each call the actions are taken
    (`take_actions`) and done, in their order, and `expire` is called at `next_deadline_ms` or later.
    A machine that has heard of no member is DEAD, and answers as for a group that isn't there; a first
    member, or a first commit, makes it a group.
    """

    group_id: str
    empty_since_ms: int
    """Since when it has no members, by the wall clock; -1: it has some, or never had any."""
    keeps_offsets: ClassVar[bool] = False
    """Whether its offsets stay until they are deleted, or their topic is."""

    # What it is

    @property
    def state(self) -> GroupState:
        """The state, as tools show it."""
        raise NotImplementedError

    @property
    def has_nobody(self) -> bool:
        """Whether it has no members, and no client has an id to join with: without offsets it may go."""
        raise NotImplementedError

    def figures(self) -> GroupFigures:
        """What is counted of the group."""
        raise NotImplementedError

    def added_by(self, request: JoinRequest | SyncRequest) -> int:
        """How many bytes a request would add to those that the group holds."""
        raise NotImplementedError

    def described(self) -> DescribedGroup:
        """The group, as tools show one of the classic protocol. UNKNOWN_GROUP: it is of another protocol."""
        raise NotImplementedError

    def described_consumer(self) -> DescribedConsumerGroup:
        """The group, as tools show one of the consumer protocol. UNKNOWN_GROUP: it is of another protocol."""
        return DescribedConsumerGroup(GroupError.UNKNOWN_GROUP, self.group_id)

    def listed(self) -> ListedGroup:
        """The group's line in a list."""
        raise NotImplementedError

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that its consumers read; None: unknown, for they are no consumers, or can't be
        understood."""
        raise NotImplementedError

    def tombstones(self) -> list[StoredRecord]:
        """The records that delete the group from the log, without its offsets."""
        raise NotImplementedError

    # What its members ask

    def consumer_heartbeat(self, now_ms: int, heartbeat: ConsumerHeartbeat, token: object) -> None:
        """A member of the consumer protocol joins, lives, or leaves. The token comes back with its answer."""
        raise NotImplementedError

    def join(self, now_ms: int, request: JoinRequest, token: object) -> None:
        """A member of the classic protocol wants to be in the next generation. The token comes back with its
        answer."""
        raise NotImplementedError

    def sync(self, now_ms: int, request: SyncRequest, token: object) -> None:
        """A member of the classic protocol asks for its assignment."""
        raise NotImplementedError

    def heartbeat(self, now_ms: int, name: MemberName, generation: int) -> GroupError:
        """A member of the classic protocol says that it lives; it hears whether it is to join again."""
        raise NotImplementedError

    def leave(self, now_ms: int, leaving: Sequence[tuple[str, str | None]]) -> list[GroupError]:
        """Members go, each named by (member id, instance id); an administrator names a static one by its
        instance id alone. Returns what became of each."""
        raise NotImplementedError

    def check_commit(self, now_ms: int, request: CommitRequest) -> GroupError:
        """Whether offsets may be committed; the caller stores them."""
        raise NotImplementedError

    def check_fetch(self, member_id: str, member_epoch: int) -> GroupError:
        """Whether a member of the consumer protocol may see the committed offsets."""
        return GroupError.NONE

    def may_delete_offset(self, topic: str) -> GroupError:
        """Whether the committed offsets of a topic may be deleted on demand."""
        raise NotImplementedError

    # What happens to it

    def stored(self, now_ms: int, change: int, error: GroupError) -> None:
        """A change that was to be stored is below the high-water mark (NONE), or was not stored."""
        raise NotImplementedError

    def next_deadline_ms(self) -> int | None:
        """When `expire` is to be called next, though it may find nothing to do then. None: never."""
        raise NotImplementedError

    def begin_times(self, now_ms: int) -> None:
        """Gives all members of a group that was loaded one full session from now on."""
        raise NotImplementedError

    def expire(self, now_ms: int) -> None:
        """Ends what has lasted too long."""
        raise NotImplementedError

    def bury(self) -> GroupError:
        """The group and its records are being deleted: it isn't there any more. NOT_EMPTY, UNKNOWN_GROUP."""
        raise NotImplementedError

    def revive(self) -> None:
        """Its deletion failed: it is there again, unless a member has joined since."""
        raise NotImplementedError

    def take_actions(self, wall_ms: int) -> list[Action]:
        """What is to be done since the last call, in order. Args: wall_ms: the time, for what is stored."""
        raise NotImplementedError
