"""The machine of a group of the consumer protocol (KIP-848): the coordinator shares the partitions."""

from collections.abc import Callable, Sequence

from tank_node.coordinators.classic.subscription import CONSUMER
from tank_node.coordinators.consumer.classic_members import ClassicMembers
from tank_node.coordinators.consumer.consumer_heartbeats import ConsumerHeartbeats
from tank_node.coordinators.consumer.consumer_sharing import Sharing
from tank_node.coordinators.machine.consumer_requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    DescribedConsumerGroup,
    DescribedConsumerMember,
)
from tank_node.coordinators.machine.group_actions import Action
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_machine import GroupMachine
from tank_node.coordinators.machine.group_memory import MEMBER_BYTES, GroupFigures
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    DescribedGroup,
    JoinAnswer,
    JoinRequest,
    ListedGroup,
    MemberName,
    SyncAnswer,
    SyncRequest,
)
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.machine.member_refused import MemberRefused
from tank_node.coordinators.machine.stored_record import StoredRecord
from tank_node.coordinators.machine.topics import Topics
from tank_node.coordinators.records.consumer_records import ConsumerImage, KeyKind


class ConsumerGroup(GroupMachine):
    """One group whose members say what they read and what they have, and hear what they are to have.

    `sharing` decides, `ConsumerHeartbeats` and `ClassicMembers` are its members' two languages.
    """

    def __init__(
        self,
        group_id: str,
        settings: GroupSettings,
        topics: Topics,
        new_member_id: Callable[[str], str],
        epoch: int = 0,
    ) -> None:
        """new_member_id: makes an id that no other member has, which begins with its argument. epoch: what
        the group's epochs begin above."""
        self.group_id = group_id
        self.empty_since_ms = -1
        self.sharing = Sharing(group_id, settings, topics, epoch)
        self._heartbeats = ConsumerHeartbeats(settings, topics, new_member_id, self.sharing)
        self._classic = ClassicMembers(settings, new_member_id, self.sharing)

    @classmethod
    def from_image(
        cls,
        group_id: str,
        settings: GroupSettings,
        topics: Topics,
        new_member_id: Callable[[str], str],
        image: ConsumerImage,
        now_ms: int,
    ) -> "ConsumerGroup":
        """The group as its records say, whose members have one full session from now on."""
        group = cls(group_id, settings, topics, new_member_id)
        group.sharing.restore(image, now_ms)
        return group

    # What it is

    @property
    def state(self) -> GroupState:
        return self.sharing.state

    @property
    def has_nobody(self) -> bool:
        return not len(self.sharing.members) and not self.sharing.members.pending

    @property
    def is_left_to_classic_members(self) -> bool:
        """Whether it has members, and all of them speak the classic protocol."""
        return 0 < len(self.sharing.members) == self.sharing.members.classic

    def figures(self) -> GroupFigures:
        members = self.sharing.members
        count = len(members) + len(members.pending)
        held_bytes = count * MEMBER_BYTES + members.held_bytes
        return GroupFigures(self.state, self.sharing.epoch, len(members), held_bytes)

    def added_by(self, request: JoinRequest | SyncRequest) -> int:
        if isinstance(request, SyncRequest):
            return 0  # the coordinator assigns
        return MEMBER_BYTES + sum(len(name) + len(said) for name, said in request.protocols)

    def described(self) -> DescribedGroup:
        error = GroupError.NONE if self.state is GroupState.DEAD else GroupError.UNKNOWN_GROUP
        return DescribedGroup(error, self.group_id)

    def described_consumer(self) -> DescribedConsumerGroup:
        sharing = self.sharing
        state = self.state
        if state is GroupState.DEAD:
            return DescribedConsumerGroup(GroupError.UNKNOWN_GROUP, self.group_id)
        members = tuple(
            DescribedConsumerMember(
                member.member_id,
                member.said.instance_id,
                member.said.rack_id,
                member.standing.epoch,
                member.said.client_id,
                member.said.client_host,
                tuple(sorted(member.said.topics)),
                member.said.regex,
                sharing.named(member.standing.assigned),
                sharing.named(sharing.targets.of(member.member_id)),
                member.is_classic,
            )
            for member in sharing.members
        )
        assignor = sharing.targets.assignor(sharing.members)
        return DescribedConsumerGroup(
            GroupError.NONE, self.group_id, state, sharing.epoch, sharing.targets.epoch, assignor, members
        )

    def listed(self) -> ListedGroup:
        return ListedGroup(self.group_id, CONSUMER, self.state, is_classic=False)

    def subscribed_topics(self) -> frozenset[str]:
        return self.sharing.targets.names(self.sharing.members)

    def tombstones(self) -> list[StoredRecord]:
        return self.sharing.tombstones()

    # What its members ask

    def consumer_heartbeat(self, now_ms: int, heartbeat: ConsumerHeartbeat, token: object) -> None:
        outbox = self.sharing.outbox
        try:
            outbox.answer(token, self._heartbeats.take(now_ms, heartbeat))
        except MemberRefused as refused:
            outbox.refuse(token, ConsumerHeartbeatAnswer(refused.error, refused.message))

    def join(self, now_ms: int, request: JoinRequest, token: object) -> None:
        outbox = self.sharing.outbox
        try:
            outbox.answer(token, self._classic.join(now_ms, request))
        except MemberRefused as refused:
            member_id = request.member.member_id
            if refused.error is GroupError.MEMBER_ID_REQUIRED:
                member_id = refused.message or ""
            elif refused.error is GroupError.GROUP_FULL:
                member_id = ""
            outbox.refuse(token, JoinAnswer(refused.error, member_id))

    def sync(self, now_ms: int, request: SyncRequest, token: object) -> None:
        outbox = self.sharing.outbox
        try:
            outbox.answer(token, self._classic.sync(now_ms, request))
        except MemberRefused as refused:
            outbox.refuse(token, SyncAnswer(refused.error))

    def heartbeat(self, now_ms: int, name: MemberName, generation: int) -> GroupError:
        try:
            self._classic.heartbeat(now_ms, name, generation)
        except MemberRefused as refused:
            return refused.error
        return GroupError.NONE

    def leave(self, now_ms: int, leaving: Sequence[tuple[str, str | None]]) -> list[GroupError]:
        return self._classic.leave(leaving)

    def check_commit(self, now_ms: int, request: CommitRequest) -> GroupError:
        if self.state is GroupState.DEAD and request.generation >= 0:
            return request.unknown_group
        if request.generation < 0 and not len(self.sharing.members):
            self.sharing.is_there = True  # a simple commit: by a client that shares no work
            return GroupError.NONE
        member, error = self.sharing.members.find(request.member)
        if member is None:
            return error
        if request.generation == member.standing.epoch:
            if member.is_classic:
                self.sharing.hear(now_ms, member)
            return GroupError.NONE
        return GroupError.ILLEGAL_GENERATION if member.is_classic else GroupError.STALE_MEMBER_EPOCH

    def check_fetch(self, member_id: str, member_epoch: int) -> GroupError:
        if not member_id and member_epoch < 0:
            return GroupError.NONE
        member = self.sharing.members.get(member_id)
        if member is None:
            return GroupError.UNKNOWN_MEMBER
        return GroupError.NONE if member.standing.epoch == member_epoch else GroupError.STALE_MEMBER_EPOCH

    def may_delete_offset(self, topic: str) -> GroupError:
        if self.state is GroupState.DEAD:
            return GroupError.UNKNOWN_GROUP
        return GroupError.SUBSCRIBED if topic in self.subscribed_topics() else GroupError.NONE

    # What happens to it

    def stored(self, now_ms: int, change: int, error: GroupError) -> None:
        if self.sharing.outbox.stored(change, error):
            for member in self.sharing.members:
                member.owes_assignment = True

    def next_deadline_ms(self) -> int | None:
        return self.sharing.next_deadline_ms

    def begin_times(self, now_ms: int) -> None:
        self.sharing.begin_times(now_ms)

    def expire(self, now_ms: int) -> None:
        self.sharing.outbox.release()
        self.sharing.expire(now_ms)

    def bury(self) -> GroupError:
        if self.state is GroupState.DEAD:
            return GroupError.UNKNOWN_GROUP
        if len(self.sharing.members):
            return GroupError.NOT_EMPTY
        self.sharing.bury()
        return GroupError.NONE

    def revive(self) -> None:
        self.sharing.is_there = True

    def take_actions(self, wall_ms: int) -> list[Action]:
        if len(self.sharing.members) or not self.sharing.is_there:
            self.empty_since_ms = -1
        elif self.empty_since_ms < 0:
            self.empty_since_ms = wall_ms
        return self.sharing.outbox.take(self.sharing.record)

    # What becomes of it

    def replaces_classic(self) -> None:
        """It was a group of the classic protocol, whose record its own takes the place of."""
        self.sharing.outbox.mark((KeyKind.CLASSIC, ""), (KeyKind.GROUP, ""))
