"""The heartbeats of members of the consumer protocol (KIP-848): they join, go on, and leave."""

from collections.abc import Callable
from dataclasses import replace

from tank_node.coordinators.consumer.consumer_sharing import Sharing
from tank_node.coordinators.machine.consumer_requests import (
    JOINS,
    LEAVES_FOR_A_WHILE,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
)
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.member_refused import MemberRefused
from tank_node.coordinators.machine.topics import NOWHERE, InvalidPattern, Places, Topics
from tank_node.coordinators.records.consumer_member import ConsumerMember, MemberStanding, Said, ShareProgress


class ConsumerHeartbeats:
    """Takes heartbeats, and says what the members hear, or why they are refused."""

    def __init__(
        self, settings: GroupSettings, topics: Topics, new_member_id: Callable[[str], str], sharing: Sharing
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._new_member_id = new_member_id
        self._sharing = sharing

    def take(self, now_ms: int, heartbeat: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        """Takes a heartbeat, and returns its answer, which may be sent when all changes are stored. Raises
        MemberRefused: then nothing has changed."""
        check(heartbeat, self._settings)
        if heartbeat.member_epoch < JOINS:
            return self._leave(heartbeat)
        return self._go_on(now_ms, heartbeat)

    # --- joining, and going on ---------------------------------------------------------------------

    def _go_on(self, now_ms: int, heartbeat: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        sharing = self._sharing
        self._check_regex(heartbeat)
        owned = None if heartbeat.owned is None else sharing.places(heartbeat.owned)
        joins = heartbeat.member_epoch == JOINS
        if joins:
            owned = NOWHERE
            member, has_changed = self._join(now_ms, heartbeat)
        else:
            member = self._known(heartbeat)
            self._check_epoch(member, heartbeat.member_epoch, owned)
            has_changed = False
        had = member.standing.assigned
        # An older epoch is that of a member which did not get the answer with the present one.
        is_behind = heartbeat.member_epoch != member.standing.epoch
        if not joins:
            has_changed = sharing.update(member, said_by(heartbeat, member.said))
        sharing.hear(now_ms, member)
        sharing.refresh(has_changed=has_changed)
        # One that has not heard of its present epoch has not heard either what it is to give up.
        sharing.advance(now_ms, member, None if is_behind else owned)
        standing = member.standing
        is_told = joins or is_behind or is_full(heartbeat) or member.owes_assignment
        member.owes_assignment = False
        return ConsumerHeartbeatAnswer(
            GroupError.NONE,
            None,
            member.member_id,
            standing.epoch,
            self._settings.consumer_heartbeat_ms,
            sharing.named(standing.assigned) if is_told or standing.assigned != had else None,
        )

    def _check_regex(self, heartbeat: ConsumerHeartbeat) -> None:
        if heartbeat.topic_regex:
            try:
                self._topics.matching(heartbeat.topic_regex)
            except InvalidPattern as error:
                raise MemberRefused(GroupError.INVALID_REGEX, str(error)) from None

    def _known(self, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
        """The member that sends a heartbeat that doesn't join."""
        members = self._sharing.members
        if heartbeat.instance_id is None:
            member = members.get(heartbeat.member_id)
        else:
            member = members.of_instance(heartbeat.instance_id)
            if member is not None and member.member_id != heartbeat.member_id:
                raise MemberRefused(
                    GroupError.FENCED_INSTANCE, f"another member has the instance id {heartbeat.instance_id}"
                )
        if member is None:
            raise MemberRefused(GroupError.UNKNOWN_MEMBER, f"the group has no member {heartbeat.member_id}")
        return member

    @staticmethod
    def _check_epoch(member: ConsumerMember, epoch: int, owned: Places | None) -> None:
        """A member with its previous epoch did not get the answer with the present one: it goes on, if it has
        nothing that isn't its own now. Any other epoch but the present one is fenced."""
        standing = member.standing
        if epoch == standing.epoch:
            return
        is_previous = epoch == standing.previous_epoch and standing.epoch > 0
        if is_previous and owned is not None and owned <= standing.assigned:
            return
        raise MemberRefused(
            GroupError.FENCED_MEMBER_EPOCH,
            f"the member is in epoch {standing.epoch}, not {epoch}: it gives all up, and joins again",
        )

    def _join(self, now_ms: int, heartbeat: ConsumerHeartbeat) -> tuple[ConsumerMember, bool]:
        """The member that joins, and whether the group has changed by it."""
        sharing = self._sharing
        members = sharing.members
        said = said_by(heartbeat, Said())
        known = members.get(heartbeat.member_id) if heartbeat.member_id else None
        static = None if said.instance_id is None else members.of_instance(said.instance_id)
        has_changed = False
        if static is not None and static is not known:
            is_away = static.standing.epoch == LEAVES_FOR_A_WHILE
            if not is_away and not static.is_classic:
                raise MemberRefused(
                    GroupError.UNRELEASED_INSTANCE_ID,
                    f"the member {static.member_id} lives under the instance id {said.instance_id}",
                )
            if known is not None:
                sharing.dismiss(known)
                has_changed = True  # what it was to have goes to others
            member = sharing.replace(static, heartbeat.member_id or self._new_member_id(said.client_id))
        elif known is not None:
            member = known
            if member.said.instance_id not in (None, said.instance_id):
                raise MemberRefused(GroupError.FENCED_INSTANCE, "the member has another instance id")
            # It says that it has nothing: it comes in like a new one, and keeps its target.
            sharing.stand(now_ms, member, MemberStanding())
        else:
            if len(members) >= self._settings.consumer_max_size:
                raise MemberRefused(GroupError.GROUP_FULL, "the group has as many members as it may have")
            member_id = heartbeat.member_id or self._new_member_id(said.client_id)
            member = ConsumerMember(member_id, said, MemberStanding())
            sharing.admit(member)
            return member, True
        return member, sharing.update(member, said) or has_changed

    # --- leaving -----------------------------------------------------------------------------------

    def _leave(self, heartbeat: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        sharing = self._sharing
        member = self._known(heartbeat)
        if heartbeat.member_epoch == LEAVES_FOR_A_WHILE:
            if member.said.instance_id is None:
                raise MemberRefused(
                    GroupError.INVALID_REQUEST, "only a member with an instance id may come back"
                )
            before = member.standing
            away = MemberStanding(LEAVES_FOR_A_WHILE, before.epoch, ShareProgress.THERE, before.assigned)
            sharing.stand(0, member, away)
        else:
            sharing.dismiss(member)
            sharing.refresh(has_changed=True)
        return ConsumerHeartbeatAnswer(
            GroupError.NONE, None, heartbeat.member_id, heartbeat.member_epoch, 0, None
        )


def check(heartbeat: ConsumerHeartbeat, settings: GroupSettings) -> None:
    """Raises MemberRefused for a heartbeat that says what none may say."""
    limits = settings.limits
    named = (heartbeat.member_id, heartbeat.instance_id, heartbeat.rack_id, heartbeat.topic_regex)
    topics = heartbeat.topics or ()
    if len(heartbeat.group_id.encode("utf-8", "surrogateescape")) > limits.name_bytes:
        raise MemberRefused(
            GroupError.INVALID_GROUP_ID, f"a group's name has at most {limits.name_bytes} bytes"
        )
    if any(len(each or "") > limits.member_text_characters for each in named):
        raise MemberRefused(
            GroupError.INVALID_REQUEST, f"an id has at most {limits.member_text_characters} characters"
        )
    if heartbeat.rebalance_ms > limits.rebalance_ms:
        raise MemberRefused(
            GroupError.INVALID_REQUEST, f"a rebalance timeout has at most {limits.rebalance_ms} ms"
        )
    if any(len(topic) > limits.member_text_characters for topic in topics):
        raise MemberRefused(
            GroupError.INVALID_REQUEST, f"a topic has at most {limits.member_text_characters} characters"
        )
    if sum(map(len, topics)) > limits.member_bytes:
        raise MemberRefused(GroupError.INVALID_REQUEST, "the member names too many topics")
    if not heartbeat.member_id and heartbeat.member_epoch != JOINS:
        raise MemberRefused(GroupError.INVALID_REQUEST, "the member's id may only be empty where it joins")
    if heartbeat.instance_id == "" or heartbeat.rack_id == "":
        raise MemberRefused(
            GroupError.INVALID_REQUEST, "an instance id and a rack may be missing, but not empty"
        )
    if heartbeat.member_epoch < LEAVES_FOR_A_WHILE:
        raise MemberRefused(GroupError.INVALID_REQUEST, f"there is no epoch {heartbeat.member_epoch}")
    if heartbeat.member_epoch == LEAVES_FOR_A_WHILE and heartbeat.instance_id is None:
        raise MemberRefused(GroupError.INVALID_REQUEST, "only a member with an instance id may come back")
    if heartbeat.assignor is not None and heartbeat.assignor not in settings.consumer_assignors:
        known = ", ".join(settings.consumer_assignors)
        raise MemberRefused(
            GroupError.UNSUPPORTED_ASSIGNOR, f"there is no assignor {heartbeat.assignor[:100]}, but {known}"
        )
    if heartbeat.member_epoch == JOINS:
        _check_join(heartbeat)


def _check_join(heartbeat: ConsumerHeartbeat) -> None:
    if heartbeat.rebalance_ms < 0:
        raise MemberRefused(GroupError.INVALID_REQUEST, "a member that joins says its rebalance timeout")
    if heartbeat.owned is None or any(heartbeat.owned.values()):
        raise MemberRefused(GroupError.INVALID_REQUEST, "a member that joins has no partitions, and says so")
    if heartbeat.topics is None and heartbeat.topic_regex is None:
        raise MemberRefused(GroupError.INVALID_REQUEST, "a member that joins says which topics it reads")


def said_by(heartbeat: ConsumerHeartbeat, before: Said) -> Said:
    """What a member says of itself by now."""
    said = replace(before, client_id=heartbeat.client_id, client_host=heartbeat.client_host, classic=None)
    if heartbeat.instance_id is not None:
        said = replace(said, instance_id=heartbeat.instance_id)
    if heartbeat.rack_id is not None:
        said = replace(said, rack_id=heartbeat.rack_id)
    if heartbeat.rebalance_ms >= 0:
        said = replace(said, rebalance_ms=heartbeat.rebalance_ms)
    if heartbeat.topics is not None:
        said = replace(said, topics=frozenset(heartbeat.topics))
    if heartbeat.topic_regex is not None:
        said = replace(said, regex=heartbeat.topic_regex)
    if heartbeat.assignor is not None:
        said = replace(said, assignor=heartbeat.assignor)
    return said


def is_full(heartbeat: ConsumerHeartbeat) -> bool:
    """Whether a member says everything: so do those that don't know what the coordinator has heard."""
    reads = heartbeat.topics is not None or heartbeat.topic_regex is not None
    return heartbeat.rebalance_ms >= 0 and reads and heartbeat.owned is not None
