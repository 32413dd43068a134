"""The answers to the members of a group whose joins and syncs wait."""

from collections.abc import Iterable

from tank_node.coordinators.classic.generation import Generation
from tank_node.coordinators.classic.member import Member
from tank_node.coordinators.classic.members import GroupMembers
from tank_node.coordinators.machine.group_actions import Actions
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import JoinAnswer, JoinedMember, SyncAnswer


def everybody(members: Iterable[Member], protocol: str | None) -> tuple[JoinedMember, ...]:
    """The members, as their leader gets them."""
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.metadata(protocol)) for member in members
    )


class Answers:
    """Answers members. Where nothing waits of a member, nothing is sent."""

    def __init__(self, members: GroupMembers, actions: Actions) -> None:
        self._members = members
        self._actions = actions

    def tell_generation(
        self,
        member: Member,
        protocol_type: str,
        generation: Generation,
        together: tuple[JoinedMember, ...],
        *,
        skip_assignment: bool = False,
    ) -> None:
        """A member's join is answered. Args: together: all members, whom the leader alone is told."""
        is_leader = member.member_id == generation.leader_id
        answer = JoinAnswer(
            GroupError.NONE,
            member.member_id,
            generation.number,
            protocol_type,
            generation.protocol,
            generation.leader_id,
            together if is_leader else (),
            skip_assignment and is_leader,
        )
        self._actions.answer(self._members.end_wait(member), answer)

    def tell_assignment(self, member: Member, protocol_type: str, generation: Generation) -> None:
        """A member's sync is answered."""
        token, member.sync_token = member.sync_token, None
        answer = SyncAnswer(GroupError.NONE, member.assignment, protocol_type, generation.protocol)
        self._actions.answer(token, answer)

    def refuse_join(self, member: Member, error: GroupError) -> None:
        """A member's join has failed."""
        self._actions.answer(self._members.end_wait(member), JoinAnswer(error, member.member_id))

    def refuse_sync(self, member: Member, error: GroupError) -> None:
        """A member's sync has failed."""
        token, member.sync_token = member.sync_token, None
        self._actions.answer(token, SyncAnswer(error))

    def refuse_all(self, member: Member, error: GroupError) -> None:
        """Whatever waits of a member has failed."""
        self.refuse_join(member, error)
        self.refuse_sync(member, error)
