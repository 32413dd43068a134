"""The members of a group by their names, whatever its protocol."""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import MemberName


class Named(Protocol):
    """A member."""

    @property
    def member_id(self) -> str:
        """Its id; a static member may have another one later."""


AnyMember = TypeVar("AnyMember", bound=Named)


class NamedMembers(Generic[AnyMember]):
    """The members, and the ids of those that are to join. An instance id has one member."""

    def __init__(self) -> None:
        self.pending: dict[str, int] = {}
        """Ids that were given to clients of the classic protocol that have not joined with them, and when
        they are forgotten."""
        self._by_id: dict[str, AnyMember] = {}
        self._instances: dict[str, AnyMember] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[AnyMember]:
        return iter(self._by_id.values())

    def get(self, member_id: str) -> AnyMember | None:
        """The member with this id."""
        return self._by_id.get(member_id)

    def of_instance(self, instance_id: str) -> AnyMember | None:
        """The static member of this name."""
        return self._instances.get(instance_id)

    def find(self, name: MemberName) -> tuple[AnyMember | None, GroupError]:
        """The member that sends a request, or why it is refused."""
        if name.instance_id is not None:
            member = self._instances.get(name.instance_id)
            if member is not None and member.member_id != name.member_id:
                return None, GroupError.FENCED_INSTANCE
        else:
            member = self._by_id.get(name.member_id)
        return member, GroupError.NONE if member is not None else GroupError.UNKNOWN_MEMBER
