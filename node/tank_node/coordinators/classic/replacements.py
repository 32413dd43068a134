"""Static members whose processes start again: the new process takes the old one's place."""

from dataclasses import dataclass

from tank_node.coordinators.classic.answers import everybody
from tank_node.coordinators.classic.generation import Generation
from tank_node.coordinators.classic.group_image import image_of
from tank_node.coordinators.classic.member import Member
from tank_node.coordinators.classic.rebalance import Rebalance
from tank_node.coordinators.machine.group_actions import Actions
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import JoinRequest
from tank_node.coordinators.machine.group_state import GroupState


@dataclass(slots=True, frozen=True)
class _Replacement:
    """A new process took a place in a stable group: its answer waits until this is stored."""

    member: Member
    token: object
    old_leader_id: str
    may_skip_assignment: bool


class Replacements:
    """The replacements in a stable group that are being stored. They change no member's assignment, so there
    is no rebalance."""

    def __init__(self, rebalance: Rebalance, actions: Actions) -> None:
        self._rebalance = rebalance
        self._actions = actions
        self._waiting: dict[int, _Replacement] = {}

    def replace(
        self, now_ms: int, member: Member, member_id: str, request: JoinRequest, token: object
    ) -> None:
        """A process joins without an id, as a static member that there is: its predecessor is fenced."""
        rebalance = self._rebalance
        members = rebalance.members
        generation = rebalance.generation
        rebalance.answers.refuse_all(member, GroupError.FENCED_INSTANCE)
        if member.member_id == generation.leader_id:
            rebalance.generation = Generation(generation.number, generation.protocol, member_id)
        members.rename(member, member_id)
        members.update(member, request)
        members.wait(member, token)
        rebalance.set_session(member, now_ms)
        if rebalance.state is GroupState.STABLE and members.vote() == generation.protocol:
            assigned = {each.member_id: each.assignment for each in members}
            image = image_of(rebalance.protocol_type, rebalance.generation, members, assigned)
            change = self._actions.store(image, is_whole=True)
            skip = request.may_skip_assignment
            self._waiting[change] = _Replacement(member, token, generation.leader_id, skip)
        else:
            rebalance.members_changed(now_ms)

    def stored(self, now_ms: int, change: int, error: GroupError) -> bool:
        """A change is below the high-water mark, or failed; returns whether it was one of these. Where a
        rebalance has begun since, the process waits for that."""
        found = self._waiting.pop(change, None)
        if found is None:
            return False
        rebalance = self._rebalance
        if rebalance.state is GroupState.STABLE and found.member.join_token is found.token:
            rebalance.set_session(found.member, now_ms)
            if error:
                rebalance.answers.refuse_join(found.member, error)
            else:
                self._tell(found)
        return True

    def _tell(self, found: _Replacement) -> None:
        """Where the process leads, and its client can't be told that nothing is to be assigned, it hears the
        leader's earlier id: what it assigned would be for no member."""
        rebalance = self._rebalance
        generation = rebalance.generation
        if found.may_skip_assignment:
            together = everybody(rebalance.members, generation.protocol)
        else:
            together = ()
            generation = Generation(generation.number, generation.protocol, found.old_leader_id)
        rebalance.answers.tell_generation(
            found.member, rebalance.protocol_type, generation, together, skip_assignment=True
        )
