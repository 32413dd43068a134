"""The machine of a group of Iggy's clients: brokers say which members they have, the coordinator shares the
partitions of the group's topic out among them."""

from collections.abc import Sequence
from typing import ClassVar, Final

from tank_node.coordinators.iggy.holdings import Holdings
from tank_node.coordinators.iggy.iggy_members import IggyMembers
from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from tank_node.coordinators.machine.group_actions import Action, Answer, StoreRecords
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_limits import GroupLimits
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
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.machine.iggy_requests import BrokerSaid, IggyAnswer, IggyKnown, IggyTold
from tank_node.coordinators.machine.stored_record import StoredRecord, joined
from tank_node.coordinators.records.iggy_records import (
    IggyImage,
    IggyMemberKey,
    iggy_record,
)
from tank_protos.generated.kafka.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
    TopicPartitionCollection,
)

IGGY: Final = "iggy"
"""The type of these groups, as tools show it."""
LOOK_MS: Final = 1_000
"""How often a group with members looks at its brokers and its topic."""
_ASSIGNMENT_VERSION: Final = 0


class IggyGroupMachine(GroupMachine):
    """One group, or one consumer that is none and has positions alone.

    A broker is told what is stored, so that the next coordinator knows it, too. One change is on its way at a
    time; what comes meanwhile is in the next one.
    """

    keeps_offsets: ClassVar[bool] = True

    def __init__(self, group_id: str, known: IggyKnown, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.empty_since_ms = -1
        self.generation = 0
        """Rises with every change of who has what."""
        self._known = known
        self._members = IggyMembers(limits.members)
        self._holdings = Holdings()
        self._is_known = False
        """Whether it ever had a member, or has positions."""
        self._look_ms = 0
        """When it looks next (monotonic); 0: it was not decided."""
        self._told: tuple[int, dict[IggyMemberKey, IggyTold]] = 0, {}
        """The generation that is stored, and what its members have."""
        self._storing = self._told
        """The one on its way."""
        self._is_changed = False
        """Whether there is something newer than the one on its way, or than the stored one if none is."""
        self._is_failing = False
        """Whether the last change was not stored: the next one waits until somebody asks, or for a look."""
        self._change = 0
        """The number of the last change; odd while it is on its way."""
        self._waiting: list[tuple[BrokerSaid, object]] = []
        """Who waits for the change on its way: what was said, and the token."""
        self._waiting_next: list[tuple[BrokerSaid, object]] = []
        """Who waits for the one behind it."""
        self._answers: list[Action] = []

    @classmethod
    def from_image(
        cls, group_id: str, known: IggyKnown, limits: GroupLimits, image: IggyImage, now_ms: int
    ) -> "IggyGroupMachine":
        """The group as it is stored. Its brokers have one full time from now on, and so have the partitions
        that are pending."""
        group = cls(group_id, known, limits)
        group._restore(image, now_ms)
        return group

    def _restore(self, image: IggyImage, now_ms: int) -> None:
        self._is_known = True
        self.generation = image.generation
        for member in image.members:
            self._members.load(member)
        self._holdings.load(image.owners, image.heirs, now_ms, image.generation)
        self._told = self._storing = self._present()
        self.begin_times(now_ms)

    # What it is

    @property
    def state(self) -> GroupState:
        if len(self._members):
            return GroupState.RECONCILING if self._holdings.pending else GroupState.STABLE
        return GroupState.EMPTY if self._is_known else GroupState.DEAD

    @property
    def has_nobody(self) -> bool:
        return not len(self._members) and not self._waiting and not self._waiting_next

    @property
    def is_gone(self) -> bool:
        """Whether the group was deleted, and is to go with its positions."""
        return self._known.was_deleted(self.group_id)

    def figures(self) -> GroupFigures:
        count = len(self._members)
        return GroupFigures(self.state, self.generation, count, count * MEMBER_BYTES)

    def added_by(self, request: JoinRequest | SyncRequest) -> int:
        return 0

    def described(self) -> DescribedGroup:
        """The group as it is stored; of members that came since nothing is told yet."""
        state = self.state
        if state is GroupState.DEAD:
            return DescribedGroup(GroupError.NONE, self.group_id)
        generation, told = self._told
        place = self._known.place_of(self.group_id)
        topic = "" if place is None else place[0]
        members = tuple(
            DescribedMember(
                f"{member.key.broker}-{member.key.epoch}-{member.key.connection}",
                None,
                str(member.client_id),
                "",
                b"",
                _assignment(topic, told.get(member.key)),
            )
            for member in self._members
        )
        return DescribedGroup(GroupError.NONE, self.group_id, state, IGGY, "", generation, members)

    def shown(self) -> list[tuple[int, tuple[int, ...]]]:
        """The members as Iggy's clients see them: their client ids, and the partitions that each has, also
        those that it is to give up."""
        told = self._told[1]
        found = []
        for member in self._members:
            has = told.get(member.key)
            partitions = () if has is None else tuple(sorted(has.partitions + has.draining))
            found.append((member.client_id, partitions))
        return found

    def listed(self) -> ListedGroup:
        return ListedGroup(self.group_id, IGGY, self.state)

    def subscribed_topics(self) -> frozenset[str] | None:
        place = self._known.place_of(self.group_id)
        return None if place is None else frozenset((place[0],))

    def tombstones(self) -> list[StoredRecord]:
        return [iggy_record(self.group_id, None)]

    # What brokers say

    def take(self, now_ms: int, said: BrokerSaid, token: object) -> None:
        """A broker names all its members of this group. The token comes back with what they have, when it is
        stored. Errors: UNKNOWN_GROUP, FENCED_MEMBER_EPOCH (this process of the broker is not, or not any
        more, the one that is registered)."""
        error = self._refusal(said)
        if error:
            self._answers.append(Answer(token, IggyAnswer(error)))
            return
        self._is_failing = False
        if self._members.hear(now_ms, said):
            for each in said.released:
                key = IggyMemberKey(said.broker, said.epoch, each.connection)
                if self._holdings.release(key, each.partition, said.generation):
                    self._changes()
            self._look_at(now_ms, is_new=self._members.take(said))
        if self._is_changed:
            self._waiting_next.append((said, token))
        elif self._is_storing:
            self._waiting.append((said, token))
        else:
            self._answer(said, token)

    def _refusal(self, said: BrokerSaid) -> GroupError:
        if self._known.place_of(self.group_id) is None:
            return GroupError.UNKNOWN_GROUP
        is_replaced = self._members.is_replaced(said.broker, said.epoch)
        if is_replaced or not self._known.is_alive(said.broker, said.epoch):
            return GroupError.FENCED_MEMBER_EPOCH
        return GroupError.NONE

    def _answer(self, said: BrokerSaid, token: object, error: GroupError = GroupError.NONE) -> None:
        generation, told = self._told
        members: tuple[IggyTold, ...] = ()
        if not error:
            keys = (IggyMemberKey(said.broker, said.epoch, each.connection) for each in said.members)
            members = tuple(told[key] for key in keys if key in told)
        self._answers.append(Answer(token, IggyAnswer(error, generation, members)))

    # What others ask: other protocols have no members here

    def consumer_heartbeat(self, now_ms: int, heartbeat: ConsumerHeartbeat, token: object) -> None:
        self._answers.append(Answer(token, ConsumerHeartbeatAnswer(GroupError.INCONSISTENT_PROTOCOL)))

    def join(self, now_ms: int, request: JoinRequest, token: object) -> None:
        self._answers.append(Answer(token, JoinAnswer(GroupError.INCONSISTENT_PROTOCOL)))

    def sync(self, now_ms: int, request: SyncRequest, token: object) -> None:
        self._answers.append(Answer(token, SyncAnswer(GroupError.UNKNOWN_MEMBER)))

    def heartbeat(self, now_ms: int, name: MemberName, generation: int) -> GroupError:
        return GroupError.UNKNOWN_MEMBER

    def leave(self, now_ms: int, leaving: Sequence[tuple[str, str | None]]) -> list[GroupError]:
        return [GroupError.UNKNOWN_MEMBER] * len(leaving)

    def check_commit(self, now_ms: int, request: CommitRequest) -> GroupError:
        """Leaders of partitions alone set these positions: they remember them, and wouldn't hear of it."""
        return GroupError.INCONSISTENT_PROTOCOL

    def may_delete_offset(self, topic: str) -> GroupError:
        return GroupError.INCONSISTENT_PROTOCOL

    # What happens to it

    def _look_at(self, now_ms: int, *, is_new: bool) -> None:
        """Looks at the members and the topic, and shares out anew if one of them is another. is_new: the
        members are."""
        is_new |= self._members.drop_lost(now_ms, self._known.is_alive)
        place = self._known.place_of(self.group_id)
        if place is not None:
            is_new |= self._holdings.resize(place[1])
        elif self._known.was_deleted(self.group_id):
            is_new |= self._members.clear()
        if is_new:
            self._is_known = True
            self._changes()
            members = self._members
            self._holdings.share(members.keys(), members.is_sticky, now_ms, self.generation)
        if self._holdings.expire(now_ms):
            self._changes()
        self._look_ms = now_ms + LOOK_MS if len(self._members) else 0

    def _changes(self) -> None:
        if not self._is_changed:
            self._is_changed = True
            self.generation += 1

    def _present(self) -> tuple[int, dict[IggyMemberKey, IggyTold]]:
        return self.generation, self._holdings.told(self._members.keys())

    @property
    def _is_storing(self) -> bool:
        return bool(self._change % 2)

    def stored(self, now_ms: int, change: int, error: GroupError) -> None:
        if change != self._change:
            return
        self._change += 1
        waiting, self._waiting = self._waiting, []
        if error:
            # Not undone: it is stored with the next change.
            self._is_changed = self._is_failing = True
            self._look_ms = now_ms + LOOK_MS
            waiting += self._waiting_next
            self._waiting_next = []
        else:
            self._told = self._storing
        for said, token in waiting:
            self._answer(said, token, error)

    def next_deadline_ms(self) -> int | None:
        return self._look_ms or None

    def begin_times(self, now_ms: int) -> None:
        self._members.begin_times(now_ms)
        if len(self._members):
            self._look_ms = now_ms + LOOK_MS

    def expire(self, now_ms: int) -> None:
        if self._look_ms and now_ms >= self._look_ms:
            self._is_failing = False
            self._look_at(now_ms, is_new=False)

    def bury(self) -> GroupError:
        """One whose group was deleted goes, whoever is in it."""
        if self.state is GroupState.DEAD:
            return GroupError.UNKNOWN_GROUP
        if len(self._members) and not self._known.was_deleted(self.group_id):
            return GroupError.NOT_EMPTY
        self._members.clear()
        self._holdings = Holdings()
        waiting, self._waiting_next = self._waiting_next, []
        for said, token in waiting:
            self._answer(said, token, GroupError.UNKNOWN_GROUP)
        self._is_known = self._is_changed = False
        self._look_ms = 0
        return GroupError.NONE

    def revive(self) -> None:
        self._is_known = True

    def take_actions(self, wall_ms: int) -> list[Action]:
        if self._is_changed and not self._is_storing and not self._is_failing:
            self._is_changed = False
            self._change += 1
            self._storing = self._present()
            self._waiting, self._waiting_next = self._waiting_next, []
            record = iggy_record(self.group_id, self._image())
            self._answers.append(StoreRecords(self._change, [record]))
        found, self._answers = self._answers, []
        return found

    def _image(self) -> IggyImage:
        owners = self._holdings.owners
        heirs = [self._holdings.heir_of(number) for number in range(len(owners))]
        return IggyImage(self.generation, tuple(self._members), tuple(owners), tuple(heirs))


def _assignment(topic: str, told: IggyTold | None) -> bytes:
    """What a member has, as members of Kafka's groups say it to each other: so tools can show it."""
    if told is None or not topic:
        return b""
    numbers = sorted(told.partitions + told.draining)
    partitions = [TopicPartition(topic, numbers)] if numbers else []
    message = ConsumerProtocolAssignment(TopicPartitionCollection(partitions))
    return joined(_ASSIGNMENT_VERSION, message.encode(_ASSIGNMENT_VERSION))
