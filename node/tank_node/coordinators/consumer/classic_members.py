"""Members of the classic protocol in a group of the consumer protocol: each of their requests is translated.

They join at once, without waiting for others: the generation they hear is their epoch, and no member of the
group leads it. SyncGroup gives them what they have now, and a heartbeat sends them to join again whenever
there is more to give or to take.
"""

from collections.abc import Callable, Sequence

from tank_node.coordinators.classic.subscription import (
    CONSUMER,
    ConsumerSubscription,
    assignment_bytes,
    read_subscription,
)
from tank_node.coordinators.consumer.consumer_sharing import Sharing
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    JoinAnswer,
    JoinRequest,
    MemberName,
    SyncAnswer,
    SyncRequest,
)
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.member_refused import MemberRefused
from tank_node.coordinators.records.consumer_member import (
    ClassicSide,
    ConsumerMember,
    MemberStanding,
    Said,
    ShareProgress,
)


class ClassicMembers:
    """Translates the requests of classic members."""

    def __init__(
        self, settings: GroupSettings, new_member_id: Callable[[str], str], sharing: Sharing
    ) -> None:
        self._settings = settings
        self._new_member_id = new_member_id
        self._sharing = sharing

    # --- joining -----------------------------------------------------------------------------------

    def join(self, now_ms: int, request: JoinRequest) -> JoinAnswer:
        """Takes a member in, or one step further, and returns its answer, which may be sent when all changes
        are stored. Raises MemberRefused."""
        sharing = self._sharing
        subscription = self._check(request)
        member, has_changed = self._member(now_ms, request, subscription)
        sharing.hear(now_ms, member)
        sharing.refresh(has_changed=has_changed)
        owned = sharing.places(subscription.owned)
        sharing.advance(now_ms, member, owned)
        member.join_by_ms = None
        member.sync_by_ms = now_ms + max(request.rebalance_ms, 0)
        sharing.wake_by(member.sync_by_ms)
        return JoinAnswer(
            GroupError.NONE,
            member.member_id,
            member.standing.epoch,
            CONSUMER,
            request.protocols[0][0],
        )

    def _check(self, request: JoinRequest) -> ConsumerSubscription:
        settings = self._settings
        if not settings.min_session_ms <= request.session_ms <= settings.max_session_ms:
            raise MemberRefused(GroupError.INVALID_SESSION_TIMEOUT)
        if sum(len(name) + len(said) for name, said in request.protocols) > settings.limits.member_bytes:
            raise MemberRefused(GroupError.GROUP_FULL)
        if request.protocol_type != CONSUMER or not request.protocols:
            raise MemberRefused(GroupError.INCONSISTENT_PROTOCOL)
        subscription = read_subscription(request.protocols[0][1])
        if subscription is None or not self._agrees(request):
            raise MemberRefused(GroupError.INCONSISTENT_PROTOCOL)
        return subscription

    def _agrees(self, request: JoinRequest) -> bool:
        """Whether all other classic members know one of its protocols: they may be left among themselves."""
        common = {name for name, _ in request.protocols}
        for member in self._sharing.members:
            classic = member.said.classic
            if classic is not None and member.member_id != request.member.member_id:
                common &= {name for name, _ in classic.protocols}
        return bool(common)

    def _member(
        self, now_ms: int, request: JoinRequest, subscription: ConsumerSubscription
    ) -> tuple[ConsumerMember, bool]:
        """The member that joins, and whether the group has changed by it."""
        sharing = self._sharing
        members = sharing.members
        name = request.member
        said = Said(
            name.instance_id,
            subscription.rack_id,
            request.client_id,
            request.client_host,
            subscription.topics,
            "",
            request.rebalance_ms,
            None,
            ClassicSide(request.session_ms, request.protocols),
        )
        known: ConsumerMember | None
        if name.member_id and name.member_id not in members.pending:
            known, error = members.find(name)
            if known is None:
                raise MemberRefused(error)
        else:
            known = None if name.instance_id is None else members.of_instance(name.instance_id)
            if known is not None:  # a static member's process starts again
                known = sharing.replace(known, self._new_member_id(name.instance_id or ""))
        if known is not None:
            return known, sharing.update(known, said)
        if len(members) >= self._settings.consumer_max_size:
            raise MemberRefused(GroupError.GROUP_FULL)
        if name.member_id:
            member_id = name.member_id
        else:
            member_id = self._new_member_id(name.instance_id or request.client_id)
            if request.needs_member_id and name.instance_id is None:
                self._promise(now_ms, request, member_id)
        member = ConsumerMember(member_id, said, MemberStanding())
        sharing.admit(member)
        return member, True

    def _promise(self, now_ms: int, request: JoinRequest, member_id: str) -> None:
        """Sends a dynamic member back with its id, for which there is a place for some time."""
        pending = self._sharing.members.pending
        if len(pending) >= self._settings.consumer_max_size:
            raise MemberRefused(GroupError.GROUP_FULL)
        pending[member_id] = now_ms + request.session_ms
        self._sharing.wake_by(now_ms + request.session_ms)
        raise MemberRefused(GroupError.MEMBER_ID_REQUIRED, member_id)

    # --- syncing, living, leaving -------------------------------------------------------------------

    def sync(self, now_ms: int, request: SyncRequest) -> SyncAnswer:
        """A member's assignment, which may be sent when all changes are stored. Raises MemberRefused."""
        member, classic = self._known(request.member, request.generation)
        protocol, metadata = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER) or request.protocol not in (None, protocol):
            raise MemberRefused(GroupError.INCONSISTENT_PROTOCOL)
        sharing = self._sharing
        sharing.hear(now_ms, member)
        standing = member.standing
        if standing.epoch < sharing.epoch and standing.progress is not ShareProgress.REVOKING:
            self._call_back(now_ms, member)
            raise MemberRefused(GroupError.REBALANCING)
        member.sync_by_ms = None
        assigned = assignment_bytes(metadata, sharing.named(standing.assigned))
        return SyncAnswer(GroupError.NONE, assigned, CONSUMER, protocol)

    def heartbeat(self, now_ms: int, name: MemberName, generation: int) -> None:
        """A member lives. Raises MemberRefused: REBALANCING where it is to join again."""
        member, _ = self._known(name, generation)
        sharing = self._sharing
        sharing.hear(now_ms, member)
        sharing.refresh(has_changed=False)
        standing = member.standing
        if (
            standing.epoch < sharing.epoch
            or standing.progress is ShareProgress.REVOKING
            or sharing.is_waiting_in_vain(member)
        ):
            self._call_back(now_ms, member)
            raise MemberRefused(GroupError.REBALANCING)

    def _call_back(self, now_ms: int, member: ConsumerMember) -> None:
        """A member is to join again, within its rebalance timeout."""
        if member.join_by_ms is None:
            member.join_by_ms = now_ms + max(member.said.rebalance_ms, 0)
            self._sharing.wake_by(member.join_by_ms)

    def _known(self, name: MemberName, generation: int) -> tuple[ConsumerMember, ClassicSide]:
        member, error = self._sharing.members.find(name)
        if member is None:
            raise MemberRefused(error)
        classic = member.said.classic
        if classic is None:
            raise MemberRefused(GroupError.UNKNOWN_MEMBER)
        if generation != member.standing.epoch:
            raise MemberRefused(GroupError.ILLEGAL_GENERATION)
        return member, classic

    def leave(self, leaving: Sequence[tuple[str, str | None]]) -> list[GroupError]:
        """Members go; an administrator may take out any of them, whatever its protocol."""
        sharing = self._sharing
        members = sharing.members
        found = []
        has_left = False
        for member_id, instance_id in leaving:
            error = GroupError.NONE
            member: ConsumerMember | None = None
            if not member_id and instance_id is not None:
                member = members.of_instance(instance_id)
                error = GroupError.NONE if member is not None else GroupError.UNKNOWN_MEMBER
            elif members.pending.pop(member_id, None) is None:
                member, error = members.find(MemberName("", member_id, instance_id))
            if member is not None:
                sharing.dismiss(member)
                has_left = True
            found.append(error)
        if has_left:
            sharing.refresh(has_changed=True)
        return found
