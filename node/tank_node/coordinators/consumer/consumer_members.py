"""The members of a group of the consumer protocol, and which of them has which partition."""

from typing import Final

from tank_node.coordinators.machine.named_members import NamedMembers
from tank_node.coordinators.machine.topics import Place
from tank_node.coordinators.records.consumer_member import ConsumerMember, MemberStanding

_PLACE_BYTES: Final = 300
"""What a partition takes in a member's target and standing."""


class ConsumerMembers(NamedMembers[ConsumerMember]):
    """The members, and the ids of those that are to join. An instance id has one member, and a partition one
    holder."""

    def __init__(self) -> None:
        super().__init__()
        self.classic = 0
        """How many members speak the classic protocol."""
        self.said_bytes = 0
        """The size of what they say of topics and protocols."""
        self._holders: dict[Place, ConsumerMember] = {}

    def add(self, member: ConsumerMember) -> None:
        """Takes a member in, whose id may be pending."""
        self.pending.pop(member.member_id, None)
        self._by_id[member.member_id] = member
        self.classic += member.is_classic
        self.said_bytes += member.said.size
        if member.said.instance_id is not None:
            self._instances[member.said.instance_id] = member
        for place in member.standing.held:
            self._holders[place] = member

    def note(self, member: ConsumerMember) -> None:
        """What the member says of itself is new."""
        if member.said.instance_id is not None:
            self._instances[member.said.instance_id] = member
        self.classic = sum(each.is_classic for each in self)
        self.said_bytes = sum(each.said.size for each in self)

    def remove(self, member: ConsumerMember) -> None:
        """Forgets a member; what it had is free."""
        self.stand(member, MemberStanding())
        del self._by_id[member.member_id]
        instance_id = member.said.instance_id
        if instance_id is not None and self._instances.get(instance_id) is member:
            del self._instances[instance_id]
        self.classic -= member.is_classic
        self.said_bytes -= member.said.size

    def stand(self, member: ConsumerMember, standing: MemberStanding) -> None:
        """Gives a member another standing."""
        before, after = member.standing.held, standing.held
        for place in before - after:
            if self._holders.get(place) is member:
                del self._holders[place]
        for place in after - before:
            self._holders[place] = member
        member.standing = standing

    @property
    def held_bytes(self) -> int:
        """About how many bytes they take beside themselves."""
        return self.said_bytes + _PLACE_BYTES * len(self._holders)

    def is_free(self, place: Place, member: ConsumerMember) -> bool:
        """Whether no other member has a partition."""
        return self._holders.get(place, member) is member
