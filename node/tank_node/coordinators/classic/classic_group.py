"""The machine of a group of the classic protocol: its members share work by a leader of their own."""

from collections.abc import Callable, Sequence

from tank_node.coordinators.classic.generation import Generation
from tank_node.coordinators.classic.group_image import members_of
from tank_node.coordinators.classic.joins import Joins
from tank_node.coordinators.classic.member import Member
from tank_node.coordinators.classic.rebalance import Rebalance
from tank_node.coordinators.classic.replacements import Replacements
from tank_node.coordinators.classic.subscription import CONSUMER, subscribed_topics
from tank_node.coordinators.machine.group_actions import Action, Actions
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_machine import GroupMachine
from tank_node.coordinators.machine.group_memory import MEMBER_BYTES, GroupFigures
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    DescribedGroup,
    DescribedMember,
    JoinAnswer,
    JoinRequest,
    ListedGroup,
    MemberName,
    SyncAnswer,
    SyncRequest,
)
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.machine.stored_record import StoredRecord
from tank_node.coordinators.records.group_records import group_record
from tank_protos.generated.kafka.group_metadata_value import GroupMetadataValue


class ClassicGroup(GroupMachine):
    """One group: events in, actions out; no clock, no I/O.

    `now_ms` is a monotonic clock's time, and never goes back. After each call the actions are taken
    (`take_actions`) and done, in their order, and `expire` is called at `next_deadline_ms` or later.
    A machine that has heard of no member is DEAD, and answers as for a group that isn't there; a first
    member, or a first commit, makes it a group.
    """

    def __init__(self, group_id: str, settings: GroupSettings, new_member_id: Callable[[str], str]) -> None:
        """Args: new_member_id: makes an id that no other member has, which begins with its argument."""
        self.group_id = group_id
        self.empty_since_ms = -1
        """Since when it has no members, by the wall clock; -1: it has some, or never had any."""
        self._actions = Actions()
        self.rebalance = Rebalance(settings, self._actions)
        self._members = self.rebalance.members
        self._replacements = Replacements(self.rebalance, self._actions)
        self._joins = Joins(settings, new_member_id, self.rebalance, self._replacements, self._actions)

    @classmethod
    def from_image(
        cls,
        group_id: str,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        image: GroupMetadataValue,
        now_ms: int,
    ) -> "ClassicGroup":
        """The group as its last stored image says, whose members have one full session from now on."""
        group = cls(group_id, settings, new_member_id)
        group.rebalance.restore(image, members_of(group_id, image), now_ms)
        if not image.members:
            group.empty_since_ms = image.current_state_timestamp
        return group

    # What it is

    @property
    def state(self) -> GroupState:
        """The state, as tools show it."""
        return self.rebalance.state

    @property
    def generation(self) -> Generation:
        """The present generation."""
        return self.rebalance.generation

    @property
    def protocol_type(self) -> str:
        """The kind of group; empty: it never had a member."""
        return self.rebalance.protocol_type

    @property
    def has_nobody(self) -> bool:
        """Whether it has no members, and no client has an id to join with: without offsets it may go."""
        return self.state in (GroupState.EMPTY, GroupState.DEAD) and not self._members.pending

    def figures(self) -> GroupFigures:
        """What is counted of the group."""
        members = self._members
        count = len(members) + len(members.pending)
        held_bytes = count * MEMBER_BYTES + members.held_bytes + members.assigned_bytes
        return GroupFigures(self.state, self.generation.number, len(members), held_bytes)

    def added_by(self, request: JoinRequest | SyncRequest) -> int:
        """How many bytes a request would add to those that the group holds."""
        if isinstance(request, SyncRequest):
            return sum(map(len, request.assignments.values())) - self._members.assigned_bytes
        return self._members.added_by(request)

    def described(self) -> DescribedGroup:
        """The group, as tools show it: what members said, and are to do, in a stable one alone."""
        state = self.state
        if state is GroupState.DEAD:
            return DescribedGroup(GroupError.NONE, self.group_id)
        is_stable = state is GroupState.STABLE
        protocol = self.generation.protocol if is_stable else None
        members = tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(protocol),
                member.assignment if is_stable else b"",
            )
            for member in self._members
        )
        number = self.generation.number
        return DescribedGroup(
            GroupError.NONE, self.group_id, state, self.protocol_type, protocol or "", number, members
        )

    def listed(self) -> ListedGroup:
        """The group's line in a list."""
        return ListedGroup(self.group_id, self.protocol_type, self.state)

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that its consumers read; None: unknown, for they are no consumers, or can't be
        understood."""
        if self.protocol_type != CONSUMER:
            return None
        if not len(self._members):
            return frozenset()
        return subscribed_topics(self._members, self.generation.protocol)

    def tombstones(self) -> list[StoredRecord]:
        return [group_record(self.group_id, None)]

    # What its members ask

    def join(self, now_ms: int, request: JoinRequest, token: object) -> None:
        """A member wants to be in the next generation. The token comes back with its answer."""
        error = GroupError.INVALID_GROUP_ID
        if self.group_id:
            error = self._joins.join(now_ms, request, token)
        if error:
            known_id = "" if error is GroupError.GROUP_FULL else request.member.member_id
            self._actions.answer(token, JoinAnswer(error, known_id))

    def sync(self, now_ms: int, request: SyncRequest, token: object) -> None:
        """A member asks for its assignment; the leader brings those of all."""
        member, error = self._find(request.member)
        if not error:
            if request.generation != self.generation.number:
                error = GroupError.ILLEGAL_GENERATION
            elif request.protocol_type not in (None, self.protocol_type) or request.protocol not in (
                None,
                self.generation.protocol,
            ):
                error = GroupError.INCONSISTENT_PROTOCOL
            elif self.rebalance.is_gathering:
                error = GroupError.REBALANCING
        if error or member is None:
            self._actions.answer(token, SyncAnswer(error))
            return
        self.rebalance.set_session(member, now_ms)
        self.rebalance.sync(member, request.assignments, token)

    def heartbeat(self, now_ms: int, name: MemberName, generation: int) -> GroupError:
        """A member says that it lives; it hears whether it is to join again."""
        member, error = self._find(name)
        if member is None:
            return error
        if generation != self.generation.number:
            return GroupError.ILLEGAL_GENERATION
        if not member.is_new:
            self.rebalance.set_session(member, now_ms)
        return GroupError.REBALANCING if self.rebalance.is_gathering else GroupError.NONE

    def leave(self, now_ms: int, leaving: Sequence[tuple[str, str | None]]) -> list[GroupError]:
        """Members go, each named by (member id, instance id); an administrator names a static one by its
        instance id alone. Returns what became of each."""
        if not self.group_id:
            return [GroupError.INVALID_GROUP_ID] * len(leaving)
        found = []
        has_left = False
        for member_id, instance_id in leaving:
            if not member_id and instance_id is not None:
                member = self._members.of_instance(instance_id)
                error = GroupError.NONE if member is not None else GroupError.UNKNOWN_MEMBER
            elif self._members.pending.pop(member_id, None) is not None:
                member, error = None, GroupError.NONE
                self.rebalance.end_if_all_joined(now_ms)
            else:
                member, error = self._members.find(MemberName(self.group_id, member_id, instance_id))
            if member is not None:
                self.rebalance.dismiss(member, GroupError.UNKNOWN_MEMBER)
                has_left = True
            found.append(error)
        if has_left:
            self.rebalance.members_changed(now_ms)
        return found

    def check_commit(self, now_ms: int, request: CommitRequest) -> GroupError:
        """Whether offsets may be committed; the caller stores them."""
        name = request.member
        if self.state is GroupState.DEAD and request.generation >= 0:
            return request.unknown_group
        if request.generation < 0 and self.state in (GroupState.DEAD, GroupState.EMPTY):
            self.rebalance.come_alive()  # a simple commit: by a client that shares no work
            return GroupError.NONE
        member, error = self._members.find(name)
        if member is None:
            return error
        if request.generation != self.generation.number:
            return GroupError.ILLEGAL_GENERATION
        if self.state is GroupState.COMPLETING_REBALANCE:
            return GroupError.REBALANCING
        if not member.is_new:
            self.rebalance.set_session(member, now_ms)
        return GroupError.NONE

    def may_delete_offset(self, topic: str) -> GroupError:
        """Whether the committed offsets of a topic may be deleted on demand."""
        if self.state is GroupState.DEAD:
            return GroupError.UNKNOWN_GROUP
        if self.state is GroupState.EMPTY:
            return GroupError.NONE
        if self.protocol_type != CONSUMER:
            return GroupError.NOT_EMPTY
        topics = self.subscribed_topics()
        return GroupError.SUBSCRIBED if topics is None or topic in topics else GroupError.NONE

    def _find(self, name: MemberName) -> tuple[Member | None, GroupError]:
        if not self.group_id:
            return None, GroupError.INVALID_GROUP_ID
        return self._members.find(name)

    # What happens to it

    def stored(self, now_ms: int, change: int, error: GroupError) -> None:
        """A `Store` action's change is below the high-water mark (NONE), or was not stored."""
        if not self._replacements.stored(now_ms, change, error):
            self.rebalance.stored(now_ms, change, error)

    def next_deadline_ms(self) -> int | None:
        """When `expire` is to be called next, though it may find nothing to do then. None: never."""
        return self.rebalance.next_deadline_ms

    def expire(self, now_ms: int) -> None:
        """Ends what has lasted too long: sessions, joins, syncs, ids that no member joined with."""
        self.rebalance.expire(now_ms)

    def begin_times(self, now_ms: int) -> None:
        """Gives all members of a group that was loaded one full session from now on."""
        self.rebalance.begin_times(now_ms)

    def bury(self) -> GroupError:
        """The group and its record are being deleted: it isn't there any more. NOT_EMPTY, UNKNOWN_GROUP."""
        if self.state is GroupState.DEAD:
            return GroupError.UNKNOWN_GROUP
        if self.state is not GroupState.EMPTY:
            return GroupError.NOT_EMPTY
        self._members.pending.clear()
        self.rebalance.protocol_type = ""
        self.rebalance.state = GroupState.DEAD
        return GroupError.NONE

    def revive(self) -> None:
        """Its deletion failed: it is there again, unless a member has joined since."""
        self.rebalance.come_alive()

    def take_actions(self, wall_ms: int) -> list[Action]:
        """What is to be done since the last call, in order. Args: wall_ms: the time, for what is stored."""
        if self.state is not GroupState.EMPTY or not self.protocol_type:
            self.empty_since_ms = -1
        elif self.empty_since_ms < 0:
            self.empty_since_ms = wall_ms
        return self._actions.take(wall_ms)
