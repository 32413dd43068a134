"""Who may join a group, and as whom."""

from collections.abc import Callable

from tank_node.coordinators.classic.member import Member
from tank_node.coordinators.classic.rebalance import Rebalance
from tank_node.coordinators.classic.replacements import Replacements
from tank_node.coordinators.machine.group_actions import Actions
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import JoinAnswer, JoinRequest, MemberName
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState


class Joins:
    """Takes members into a group, or says why not."""

    def __init__(
        self,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        rebalance: Rebalance,
        replacements: Replacements,
        actions: Actions,
    ) -> None:
        self._settings = settings
        self._new_member_id = new_member_id
        self._rebalance = rebalance
        self._members = rebalance.members
        self._replacements = replacements
        self._actions = actions

    def join(self, now_ms: int, request: JoinRequest, token: object) -> GroupError:
        """A member wants to be in the next generation: its token comes back with the answer, unless it is
        refused here: then the reason is returned."""
        name = request.member
        error = self._refusal(request)
        if error is GroupError.GROUP_FULL:
            self._turn_away(now_ms, name)
        if error:
            return error
        if not name.member_id:
            return self._join_without_id(now_ms, request, token)
        if name.instance_id is None and name.member_id in self._members.pending:
            self._add(now_ms, request, name.member_id, token)
            return GroupError.NONE
        member, error = self._members.find(name)
        if member is not None:
            self._join_again(now_ms, member, request, token)
        return error

    def _refusal(self, request: JoinRequest) -> GroupError:
        """Why a join is refused before anything is known of the member."""
        settings = self._settings
        name = request.member
        members = self._members
        if not settings.min_session_ms <= request.session_ms <= settings.max_session_ms:
            return GroupError.INVALID_SESSION_TIMEOUT
        if self._rebalance.state is GroupState.DEAD and name.member_id:
            return GroupError.UNKNOWN_MEMBER
        known = members.get(name.member_id) if name.member_id else None
        if known is None and name.instance_id is not None:
            known = members.of_instance(name.instance_id)
        if not self._has_room(request, known):
            return GroupError.GROUP_FULL
        if not len(members):
            is_right = bool(request.protocol_type and request.protocols)
        else:
            is_right = request.protocol_type == self._rebalance.protocol_type and members.support(
                request.protocols, known
            )
        return GroupError.NONE if is_right else GroupError.INCONSISTENT_PROTOCOL

    def _has_room(self, request: JoinRequest, known: Member | None) -> bool:
        """Whether the group may have this member. While it gathers its members, those who come first are
        in."""
        limits = self._settings.limits
        members = self._members
        said = sum(len(name) + len(metadata) for name, metadata in request.protocols)
        held = members.held_bytes - (known.held_bytes if known is not None else 0)
        if said > limits.member_bytes or held + said > limits.group_bytes:
            return False
        if self._rebalance.is_gathering:
            return (known is not None and known.join_token is not None) or (
                members.waiting < self._settings.max_size
            )
        return known is not None or len(members) < self._settings.max_size

    def _turn_away(self, now_ms: int, name: MemberName) -> None:
        """A member for whom there is no room does not keep the others waiting."""
        member, _ = self._members.find(name)
        if member is not None:
            self._rebalance.dismiss(member, GroupError.GROUP_FULL)
            self._rebalance.members_changed(now_ms)
        elif self._members.pending.pop(name.member_id, None) is not None:
            self._rebalance.end_if_all_joined(now_ms)

    def _join_without_id(self, now_ms: int, request: JoinRequest, token: object) -> GroupError:
        members = self._members
        instance_id = request.member.instance_id
        if instance_id is None and request.needs_member_id:
            if len(members.pending) >= self._settings.max_size:
                return GroupError.GROUP_FULL
            self._rebalance.come_alive()
            member_id = self._new_member_id(request.client_id)
            members.pending[member_id] = now_ms + request.session_ms
            self._rebalance.wake_by(now_ms + request.session_ms)
            self._actions.answer(token, JoinAnswer(GroupError.MEMBER_ID_REQUIRED, member_id))
            return GroupError.NONE
        member_id = self._new_member_id(request.client_id if instance_id is None else instance_id)
        known = members.of_instance(instance_id) if instance_id is not None else None
        if known is not None:
            self._replacements.replace(now_ms, known, member_id, request, token)
        else:
            self._add(now_ms, request, member_id, token)
        return GroupError.NONE

    def _add(self, now_ms: int, request: JoinRequest, member_id: str, token: object) -> None:
        """A member joins that wasn't there."""
        self._rebalance.come_alive()
        if not len(self._members):
            self._rebalance.protocol_type = request.protocol_type
        member = Member(member_id, request)
        member.is_new = True
        self._members.add(member)
        self._members.wait(member, token)
        self._rebalance.set_session(member, now_ms, self._settings.limits.new_member_ms)
        self._rebalance.newcomer()
        self._rebalance.members_changed(now_ms)

    def _join_again(self, now_ms: int, member: Member, request: JoinRequest, token: object) -> None:
        """A member joins that there is."""
        rebalance = self._rebalance
        is_same = member.protocols == request.protocols
        is_leader = member.member_id == rebalance.generation.leader_id
        is_in_forming = rebalance.is_in_forming(member)
        if member.join_token is not None:  # its client asks again, over another connection
            rebalance.answers.refuse_all(member, GroupError.REBALANCING)
        self._members.wait(member, token)
        if not member.is_new:
            rebalance.set_session(member, now_ms)
        is_assigned = rebalance.state is GroupState.STABLE and not is_leader
        if is_same and (is_assigned or rebalance.state is GroupState.COMPLETING_REBALANCE):
            rebalance.answer_current(member)
        else:
            self._members.update(member, request)
            if not (is_in_forming and is_same):
                rebalance.members_changed(now_ms)
