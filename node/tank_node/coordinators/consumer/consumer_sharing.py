"""How a group of the consumer protocol shares partitions: its members, their targets, and the way there."""

from collections.abc import Mapping

from tank_node.coordinators.consumer.consumer_members import ConsumerMembers
from tank_node.coordinators.consumer.consumer_outbox import Outbox
from tank_node.coordinators.consumer.consumer_targets import Targets
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.machine.stored_record import StoredRecord
from tank_node.coordinators.machine.topics import NOWHERE, Place, Places, Topics
from tank_node.coordinators.records import consumer_records
from tank_node.coordinators.records.consumer_member import ConsumerMember, MemberStanding, Said, ShareProgress
from tank_node.coordinators.records.consumer_records import ConsumerImage, Key, KeyKind, Value


class Sharing:
    """The state of a group.

    Its epoch rises with every change of members, of what they read, and of the topics. For each epoch there
    are targets, and every member goes toward its own, by its heartbeats. What is changed is marked to be
    stored.
    """

    def __init__(self, group_id: str, settings: GroupSettings, topics: Topics, epoch: int = 0) -> None:
        """epoch: that of the group before it became one of this protocol: the next one is greater."""
        self.epoch = epoch
        self.is_there = False
        """Whether the group was ever joined, or committed to."""
        self.members = ConsumerMembers()
        self.targets = Targets(settings.consumer_assignors, topics)
        self.outbox = Outbox()
        self._group_id = group_id
        self._settings = settings
        self._topics = topics
        self._known: tuple[tuple[bool, int], GroupState] = ((False, 0), GroupState.DEAD)
        """The state, and what it is known for: nothing was marked since."""
        self._soonest_ms: int | None = None
        """No deadline is earlier. It may be too early: a heartbeat puts off a session, but not this."""

    @property
    def state(self) -> GroupState:
        """The group's state."""
        key = (self.is_there, self.outbox.version)
        if self._known[0] != key:
            self._known = (key, self._state())
        return self._known[1]

    def _state(self) -> GroupState:
        if not self.is_there:
            return GroupState.DEAD
        if not len(self.members):
            return GroupState.EMPTY
        if self.epoch > self.targets.epoch:
            return GroupState.ASSIGNING
        if all(member.standing.is_at(self.targets.epoch) for member in self.members):
            return GroupState.STABLE
        return GroupState.RECONCILING

    # --- members -----------------------------------------------------------------------------------

    def admit(self, member: ConsumerMember) -> None:
        """A member is in. The caller says `refresh`."""
        self.is_there = True
        self.members.add(member)
        self.outbox.mark((KeyKind.MEMBER, member.member_id), (KeyKind.CURRENT, member.member_id))

    def take_over(self, now_ms: int, member_id: str, said: Said, standing: MemberStanding) -> None:
        """A member comes with a group of the classic protocol: it has what it had there. The caller says
        `refresh`."""
        member = ConsumerMember(member_id, said, standing)
        self.admit(member)
        self.targets.by_member[member_id] = standing.assigned
        self.outbox.mark((KeyKind.TARGET, member_id))
        self.hear(now_ms, member)

    def update(self, member: ConsumerMember, said: Said) -> bool:
        """Takes over what a member says of itself; returns whether it reads something else, or wants another
        assignor: then the caller says `refresh`."""
        before = member.said
        if said == before:
            return False
        member.said = said
        self.members.note(member)
        self.outbox.mark((KeyKind.MEMBER, member.member_id))
        return (said.topics, said.regex, said.assignor) != (before.topics, before.regex, before.assignor)

    def replace(self, member: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member's new process takes its place, with its target. Returns the new member, which has
        nothing."""
        found = ConsumerMember(member_id, member.said, MemberStanding())
        self.members.remove(member)
        self.members.add(found)
        self.targets.move(member.member_id, member_id)
        for each in (member.member_id, member_id):
            self.outbox.mark(
                (KeyKind.MEMBER, each),
                (KeyKind.TARGET, each),
                (KeyKind.CURRENT, each),
            )
        return found

    def dismiss(self, member: ConsumerMember) -> None:
        """A member is out. The caller says `refresh`."""
        self.members.remove(member)
        self.targets.forget(member.member_id)
        each = member.member_id
        self.outbox.mark((KeyKind.MEMBER, each), (KeyKind.TARGET, each), (KeyKind.CURRENT, each))

    def refresh(self, *, has_changed: bool) -> None:
        """Begins another epoch if members have changed, or topics have, and makes its targets."""
        has_other_topics = self.targets.look(self.members, anew=has_changed)
        if has_other_topics:
            self.outbox.mark((KeyKind.TOPICS, ""))
        if has_changed or has_other_topics:
            self.epoch += 1
            self.outbox.mark((KeyKind.GROUP, ""))
        if self.epoch > self.targets.epoch and len(self.members):
            changed = self.targets.make(self.epoch, self.members)
            self.outbox.mark((KeyKind.TARGETS, ""), *((KeyKind.TARGET, member_id) for member_id in changed))

    def advance(self, now_ms: int, member: ConsumerMember, owned: Places | None) -> None:
        """A member goes one step toward its target. owned: what it says that it has; None: it didn't say."""
        target = self.targets.of(member.member_id)
        standing = member.standing.toward(
            target, self.targets.epoch, owned, lambda place: self.members.is_free(place, member)
        )
        if standing is not member.standing and standing != member.standing:
            self.stand(now_ms, member, standing)

    def stand(self, now_ms: int, member: ConsumerMember, standing: MemberStanding) -> None:
        """A member has another standing; one that is to give partitions up has its time for that."""
        self.members.stand(member, standing)
        self.outbox.mark((KeyKind.CURRENT, member.member_id))
        member.revoke_by_ms = None
        if standing.progress is ShareProgress.REVOKING:
            member.revoke_by_ms = now_ms + max(member.said.rebalance_ms, 0)
            self.wake_by(member.revoke_by_ms)

    def is_waiting_in_vain(self, member: ConsumerMember) -> bool:
        """Whether some of what a member waits for is free by now."""
        if member.standing.progress is not ShareProgress.WAITING:
            return False
        missing = self.targets.of(member.member_id) - member.standing.assigned
        return any(self.members.is_free(place, member) for place in missing)

    # --- time --------------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        """When `expire` is to be called next; it may have nothing to do then."""
        return self._soonest_ms

    def wake_by(self, deadline_ms: int) -> None:
        """A deadline was set."""
        if self._soonest_ms is None or deadline_ms < self._soonest_ms:
            self._soonest_ms = deadline_ms

    def hear(self, now_ms: int, member: ConsumerMember) -> None:
        """A member was heard: its session begins anew."""
        classic = member.said.classic
        length_ms = self._settings.consumer_session_ms if classic is None else classic.session_ms
        member.deadline_ms = now_ms + length_ms
        self.wake_by(member.deadline_ms)

    def expire(self, now_ms: int) -> None:
        """Dismisses those who were silent, or slow, for too long."""
        pending = self.members.pending
        for member_id in [each for each, deadline in pending.items() if deadline <= now_ms]:
            del pending[member_id]
        late = [member for member in self.members if min(member.deadlines) <= now_ms]
        for member in late:
            self.dismiss(member)
        if late:
            self.refresh(has_changed=True)
        found = [deadline for member in self.members for deadline in member.deadlines]
        self._soonest_ms = min((*found, *pending.values()), default=None)

    def begin_times(self, now_ms: int) -> None:
        """Begins all times anew: a coordinator that read the group long ago answers for it from now on."""
        self._soonest_ms = None
        for member in self.members:
            self.hear(now_ms, member)
            if member.standing.progress is ShareProgress.REVOKING:
                member.revoke_by_ms = now_ms + max(member.said.rebalance_ms, 0)
                self.wake_by(member.revoke_by_ms)

    # --- names -------------------------------------------------------------------------------------

    def named(self, places: Places) -> dict[str, tuple[int, ...]]:
        """Partitions by their topics' names, without those of deleted topics."""
        found = {}
        for topic_id, numbers in consumer_records.by_topic(places):
            shape = self._topics.of_id(topic_id)
            if shape is not None:
                found[shape.name] = tuple(numbers)
        return found

    def places(self, partitions: Mapping[str, tuple[int, ...]]) -> Places:
        """As `named`, the other way; without topics that there are none of."""
        found: set[Place] = set()
        for name, numbers in partitions.items():
            shape = self._topics.named(name)
            if shape is not None:
                found.update((shape.topic_id, number) for number in numbers)
        return frozenset(found)

    # --- what is stored ----------------------------------------------------------------------------

    def record(self, key: Key) -> StoredRecord:
        """The record under a key, as it is to be now."""
        return consumer_records.record(self._group_id, key, self._value(key))

    def _value(self, key: Key) -> Value:
        kind, member_id = key
        if not self.is_there or kind is KeyKind.CLASSIC:
            return None
        if kind is KeyKind.GROUP:
            return self.epoch
        if kind is KeyKind.TARGETS:
            return self.targets.epoch
        if kind is KeyKind.TOPICS:
            return self.targets.shapes
        if kind is KeyKind.TARGET:
            return self.targets.by_member.get(member_id)
        member = self.members.get(member_id)
        if member is None:
            return None
        return member.said if kind is KeyKind.MEMBER else member.standing

    def tombstones(self) -> list[StoredRecord]:
        """The records that delete the group from the log."""
        return [consumer_records.record(self._group_id, key, None) for key in sorted(self.outbox.keys)]

    def bury(self) -> None:
        """The group is being deleted: it isn't there any more."""
        self.is_there = False
        self.members.pending.clear()
        self.targets.shapes = {}

    def restore(self, image: ConsumerImage, now_ms: int) -> None:
        """Begins as an earlier coordinator has left it. All members get one full session, and those that are
        to give partitions up their full time."""
        self.is_there = True
        self.epoch = image.epoch
        self.targets.epoch = image.target_epoch
        self.targets.shapes = dict(image.topics)
        self.targets.by_member = {each: image.targets.get(each, NOWHERE) for each in image.members}
        self.outbox.keys.update({(KeyKind.GROUP, ""), (KeyKind.TOPICS, ""), (KeyKind.TARGETS, "")})
        for kind, ids in (
            (KeyKind.MEMBER, image.members),
            (KeyKind.TARGET, image.targets),
            (KeyKind.CURRENT, image.standings),
        ):
            self.outbox.keys.update((kind, member_id) for member_id in ids)
        for member_id, said in image.members.items():
            member = ConsumerMember(member_id, said, image.standings.get(member_id, MemberStanding()))
            self.members.add(member)
        self.begin_times(now_ms)
