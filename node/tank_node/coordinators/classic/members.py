"""The members of a group: who they are, and what they agree on."""

from collections import Counter

from tank_node.coordinators.classic.member import Member, Protocols
from tank_node.coordinators.machine.group_limits import LEAST_REBALANCE_MS
from tank_node.coordinators.machine.group_memory import MEMBER_BYTES
from tank_node.coordinators.machine.group_requests import JoinRequest
from tank_node.coordinators.machine.named_members import NamedMembers


class GroupMembers(NamedMembers[Member]):
    """The members of a group, and the ids of those that are to join. An instance id has one member."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        """How many members' joins wait."""
        self.held_bytes = 0
        """The size of what they say in all their protocols."""
        self.assigned_bytes = 0
        """The size of what is assigned to them."""
        self._knowing: Counter[str] = Counter()
        """How many members know each protocol."""
        self._turn = 0

    def add(self, member: Member) -> None:
        """Takes a member in, whose id may be pending."""
        self.pending.pop(member.member_id, None)
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._instances[member.instance_id] = member
        self.assigned_bytes += len(member.assignment)
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        """Forgets a member whose requests have been answered."""
        assert member.join_token is None
        assert member.sync_token is None
        del self._by_id[member.member_id]
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        self.assigned_bytes -= len(member.assignment)
        self._count(member, -1)

    def rename(self, member: Member, member_id: str) -> None:
        """Gives a static member, whose process started again, its new id."""
        del self._by_id[member.member_id]
        member.member_id = member_id
        self._by_id[member_id] = member

    def update(self, member: Member, request: JoinRequest) -> None:
        """Takes over what a member says when it joins again."""
        self._count(member, -1)
        member.client_id = request.client_id
        member.client_host = request.client_host
        member.session_ms = request.session_ms
        member.rebalance_ms = request.rebalance_ms
        member.protocols = request.protocols
        self._count(member, 1)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Gives a member its assignment."""
        self.assigned_bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def added_by(self, request: JoinRequest) -> int:
        """How many more bytes the members would take if this one joined."""
        name = request.member
        known = self._by_id.get(name.member_id)
        if known is None and name.instance_id is not None:
            known = self._instances.get(name.instance_id)
        said = sum(len(protocol) + len(metadata) for protocol, metadata in request.protocols)
        return said + MEMBER_BYTES if known is None else said - known.held_bytes

    def wait(self, member: Member, token: object) -> None:
        """A member's join waits from now on; it had none that waits."""
        assert member.join_token is None
        self.waiting += 1
        self._turn += 1
        member.join_token = token
        member.turn = self._turn

    def end_wait(self, member: Member) -> object | None:
        """The join that waited, to be answered; None: there was none."""
        token = member.join_token
        if token is not None:
            self.waiting -= 1
            member.join_token = None
        return token

    @property
    def have_all_joined(self) -> bool:
        """Whether all members, and those who have been given an id, wait for the next generation."""
        return self.waiting == len(self._by_id) and not self.pending

    @property
    def first_waiting(self) -> Member | None:
        """The member whose join waits longest."""
        return min((m for m in self if m.join_token is not None), key=lambda m: m.turn, default=None)

    @property
    def rebalance_ms(self) -> int:
        """How long to wait for members: the greatest of their times."""
        return max((max(member.rebalance_ms, LEAST_REBALANCE_MS) for member in self), default=0)

    def support(self, protocols: Protocols, besides: Member | None = None) -> bool:
        """Whether all other members know one of these protocols."""
        others = len(self._by_id) - (besides is not None)
        known = {name for name, _ in besides.protocols} if besides is not None else set()
        return any(self._knowing[name] - (name in known) == others for name, _ in protocols)

    def vote(self) -> str:
        """The protocol that most members like best, of those that all know; among equals the one that an
        earlier member votes for."""
        all_know = {name for name, count in self._knowing.items() if count == len(self._by_id)}
        votes = Counter(next(name for name, _ in member.protocols if name in all_know) for member in self)
        return votes.most_common(1)[0][0]

    def _count(self, member: Member, by: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self._knowing[name] += by
            if not self._knowing[name]:
                del self._knowing[name]
        self.held_bytes += by * member.held_bytes
