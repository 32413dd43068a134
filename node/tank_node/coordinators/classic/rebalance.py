"""A group's way from one generation to the next: gathers members, votes, and gives out what was assigned."""

from collections.abc import Mapping

from tank_node.coordinators.classic.answers import Answers, everybody
from tank_node.coordinators.classic.generation import Assigning, Forming, Generation, JoinPhase
from tank_node.coordinators.classic.group_image import image_of
from tank_node.coordinators.classic.member import Member
from tank_node.coordinators.classic.members import GroupMembers
from tank_node.coordinators.machine.group_actions import Actions
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_protos.generated.kafka.group_metadata_value import GroupMetadataValue


class Rebalance:
    """The state of a group, its members and its generation.

    A generation's number is stored before its members hear of it, and its assignments are: so no later
    coordinator of the group gives the number to other members, or tells other assignments for it.
    """

    def __init__(self, settings: GroupSettings, actions: Actions) -> None:
        self.state = GroupState.DEAD
        self.members = GroupMembers()
        self.generation = Generation()
        self.protocol_type = ""
        self.answers = Answers(self.members, actions)
        self._actions = actions
        self._settings = settings
        self.last_number = 0
        """The greatest number that was given to a generation, stored or not."""
        self._phase: JoinPhase | None = None
        self._forming: Forming | None = None
        self._assigning: Assigning | None = None
        self._sync_deadline_ms: int | None = None
        self._soonest_ms: int | None = None
        """No deadline is earlier. It may be too early: a heartbeat puts off a session, but not this."""

    @property
    def is_gathering(self) -> bool:
        """Whether the group gathers its members."""
        return self.state is GroupState.PREPARING_REBALANCE

    def come_alive(self) -> None:
        """The group is there from now on."""
        if self.state is GroupState.DEAD:
            self.state = GroupState.EMPTY

    # Timers

    @property
    def next_deadline_ms(self) -> int | None:
        """When `expire` is to be called next; it may have nothing to do then. None: there is nothing to wait
        for."""
        return self._soonest_ms

    def set_session(self, member: Member, now_ms: int, length_ms: int | None = None) -> None:
        """A member was heard: its session begins anew."""
        member.deadline_ms = now_ms + (member.session_ms if length_ms is None else length_ms)
        self.wake_by(member.deadline_ms)

    def wake_by(self, deadline_ms: int) -> None:
        """A deadline was set."""
        if self._soonest_ms is None or deadline_ms < self._soonest_ms:
            self._soonest_ms = deadline_ms

    def expire(self, now_ms: int) -> None:
        """Ends what has lasted too long."""
        members = self.members
        forgotten = [each for each, deadline in members.pending.items() if deadline <= now_ms]
        for member_id in forgotten:
            del members.pending[member_id]
        silent = [member for member in members if member.may_expire and member.deadline_ms <= now_ms]
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now_ms:
            self._sync_deadline_ms = None
            silent += [member for member in members if member.owes_sync and member not in silent]
        for member in silent:
            self.dismiss(member, GroupError.UNKNOWN_MEMBER)
        if silent:
            self.members_changed(now_ms)
        elif forgotten:
            self.end_if_all_joined(now_ms)
        phase = self._phase
        if phase is not None and self._forming is None and phase.deadline_ms <= now_ms:
            self._end_phase(phase, now_ms)
        self._soonest_ms = min(self._deadlines(), default=None)

    def _deadlines(self) -> list[int]:
        found = [member.deadline_ms for member in self.members if member.may_expire]
        found += self.members.pending.values()
        if self._phase is not None and self._forming is None:
            found.append(self._phase.deadline_ms)
        if self._sync_deadline_ms is not None:
            found.append(self._sync_deadline_ms)
        return found

    # Members come and go

    def dismiss(self, member: Member, error: GroupError) -> None:
        """A member is out, and hears so where it waits. The caller says `members_changed`."""
        self.answers.refuse_all(member, error)
        self.members.remove(member)

    def members_changed(self, now_ms: int) -> None:
        """Members came, went, or say something else: a rebalance begins, or the one that runs looks again."""
        if not self.is_gathering:
            self._begin(now_ms)
        elif self._forming is not None:
            self._forming.is_outdated = True
        else:
            self.end_if_all_joined(now_ms)

    def newcomer(self) -> None:
        """A member joins that wasn't there: an initial phase lasts longer."""
        if self._phase is not None:
            self._phase.has_newcomers = True

    def is_in_forming(self, member: Member) -> bool:
        """Whether no other rebalance is needed for this member, though its join came after the join phase's
        end."""
        return self._forming is not None and member.member_id in self._forming.joined

    def end_if_all_joined(self, now_ms: int) -> None:
        """Ends a join phase for which no member is missing; but an initial one."""
        phase = self._phase
        if phase is not None and self._forming is None:
            if phase.is_initial:
                if phase.deadline_ms <= now_ms:
                    self._end_phase(phase, now_ms)
            elif self.members.have_all_joined:
                self._end_phase(phase, now_ms)

    # Phases

    def _begin(self, now_ms: int) -> None:
        is_initial = self.state is GroupState.EMPTY
        for member in self.members:
            member.owes_sync = False
            if member.sync_token is not None:
                self.answers.refuse_sync(member, GroupError.REBALANCING)
                self.set_session(member, now_ms)
        self._assigning = None
        self._sync_deadline_ms = None
        self.state = GroupState.PREPARING_REBALANCE
        wait_ms = self.members.rebalance_ms
        if is_initial:
            delay_ms = min(self._settings.initial_delay_ms, wait_ms)
            self._set_phase(JoinPhase(now_ms + delay_ms, True, wait_ms - delay_ms))
        else:
            self._set_phase(JoinPhase(now_ms + wait_ms))
        self.end_if_all_joined(now_ms)

    def _set_phase(self, phase: JoinPhase) -> None:
        self._phase = phase
        self.wake_by(phase.deadline_ms)

    def _end_phase(self, phase: JoinPhase, now_ms: int) -> None:
        """The time of a join phase is over, or no member is missing."""
        members = self.members
        if phase.is_initial and phase.has_newcomers and phase.left_ms > 0:
            delay_ms = min(self._settings.initial_delay_ms, phase.left_ms)
            self._set_phase(JoinPhase(now_ms + delay_ms, True, phase.left_ms - delay_ms))
            return
        for member in [m for m in members if m.join_token is None and not m.is_static]:
            members.remove(member)
        first = members.first_waiting
        if first is None:
            if len(members):
                self._set_phase(JoinPhase(now_ms + members.rebalance_ms))
            else:
                self._become_empty()
            return
        self.last_number += 1
        leader = members.get(self.generation.leader_id)
        if leader is None or leader.join_token is None:
            leader = first
        generation = Generation(self.last_number, members.vote(), leader.member_id)
        joined = frozenset(member.member_id for member in members if member.join_token is not None)
        change = self._actions.store(image_of(self.protocol_type, generation, members, {}), is_whole=False)
        self._forming = Forming(generation, change, joined, everybody(members, generation.protocol))

    def _become_empty(self) -> None:
        self.last_number += 1
        self._phase = None
        self.generation = Generation(self.last_number)
        self.state = GroupState.EMPTY
        # No request waits for it. Where it fails, a later coordinator finds members, whose sessions then end.
        self._actions.store(image_of(self.protocol_type, self.generation, (), {}), is_whole=True)

    # What members ask

    def sync(self, member: Member, assignments: Mapping[str, bytes], token: object) -> None:
        """A member of the present generation asks for its assignment; the leader's request has those of
        all. Of two that the leader brings in one generation the first holds."""
        member.owes_sync = False
        # Its client asks again, over another connection.
        self.answers.refuse_sync(member, GroupError.REBALANCING)
        member.sync_token = token
        if self.state is GroupState.STABLE:
            self.answers.tell_assignment(member, self.protocol_type, self.generation)
        elif member.member_id == self.generation.leader_id and self._assigning is None:
            image = image_of(self.protocol_type, self.generation, self.members, assignments)
            self._assigning = Assigning(self._actions.store(image, is_whole=True), assignments)

    def answer_current(self, member: Member) -> None:
        """Tells a member whose join waits of the present generation, and the leader of all members."""
        together = everybody(self.members, self.generation.protocol)
        self.answers.tell_generation(member, self.protocol_type, self.generation, together)

    # What was stored

    def stored(self, now_ms: int, change: int, error: GroupError) -> None:
        """A change is below the high-water mark, or failed."""
        if self._forming is not None and self._forming.change == change:
            self._generation_stored(self._forming, now_ms, error)
        elif self._assigning is not None and self._assigning.change == change:
            self._assignments_stored(self._assigning, now_ms, error)

    def _generation_stored(self, forming: Forming, now_ms: int, error: GroupError) -> None:
        self._forming = None
        members = self.members
        if error:
            for member in list(members):
                if member.join_token is not None:
                    self.answers.refuse_join(member, error)
                    self.set_session(member, now_ms)
                    if member.is_new and not member.is_static:
                        members.remove(member)  # its client doesn't know its id: it joins as another one
            self._set_phase(JoinPhase(now_ms + members.rebalance_ms))
            self.end_if_all_joined(now_ms)
            return
        self.generation = forming.generation
        self.state = GroupState.COMPLETING_REBALANCE
        self._phase = None
        for member in members:
            if member.member_id in forming.joined and member.join_token is not None:
                self.answers.tell_generation(member, self.protocol_type, self.generation, forming.members)
                member.is_new = False
                member.owes_sync = True
                self.set_session(member, now_ms)
        self._expect_syncs(now_ms)
        if forming.is_outdated:
            self._begin(now_ms)

    def _expect_syncs(self, now_ms: int) -> None:
        self._sync_deadline_ms = now_ms + self.members.rebalance_ms
        self.wake_by(self._sync_deadline_ms)

    def _assignments_stored(self, assigning: Assigning, now_ms: int, error: GroupError) -> None:
        self._assigning = None
        if error:
            for member in self.members:
                if member.sync_token is not None:
                    self.answers.refuse_sync(member, error)
                    self.set_session(member, now_ms)
            self._begin(now_ms)
            return
        self.state = GroupState.STABLE
        for member in self.members:
            self.members.assign(member, assigning.assignments.get(member.member_id, b""))
            if member.sync_token is not None:
                self.answers.tell_assignment(member, self.protocol_type, self.generation)
                self.set_session(member, now_ms)

    def begin_times(self, now_ms: int) -> None:
        """Begins all times anew: a coordinator that read the group long ago answers for it from now on."""
        for member in self.members:
            self.set_session(member, now_ms)
        if self._phase is not None:
            self._set_phase(JoinPhase(now_ms + self.members.rebalance_ms))
        if self._sync_deadline_ms is not None:
            self._expect_syncs(now_ms)
        self._soonest_ms = min(self._deadlines(), default=None)

    def restore(self, image: GroupMetadataValue, members: list[Member], now_ms: int) -> None:
        """Begins as an earlier coordinator has left it. All members get one full session."""
        self.protocol_type = image.protocol_type
        self.generation = Generation(image.generation, image.protocol, image.leader or "")
        self.last_number = image.generation
        for member in members:
            self.members.add(member)
            self.set_session(member, now_ms)
        if not members:
            self.state = GroupState.EMPTY
        elif image.leader is None:  # it comes from the other protocol: what the members have is not all
            self._begin(now_ms)
            return
        elif image.current_state_timestamp >= 0 or any(member.assignment for member in members):
            self.state = GroupState.STABLE
        else:
            self.state = GroupState.COMPLETING_REBALANCE
            if self.members.get(self.generation.leader_id) is None:  # no assignments would ever come
                self._begin(now_ms)
                return
            for member in members:
                member.owes_sync = True
            self._expect_syncs(now_ms)
