"""A group in a coordinator's memory."""

from tank_node.coordinators.classic_group import ClassicGroup
from tank_node.coordinators.committed_offsets import CommittedOffsets
from tank_node.coordinators.offset_expiry import may_go


class Group:
    """A group's members, and how far it has read."""

    __slots__ = ("changes", "due_ms", "group_id", "is_stored", "members", "offsets")

    def __init__(self, group_id: str, members: ClassicGroup) -> None:
        self.group_id = group_id
        self.members = members
        """The machine of the classic protocol."""
        self.offsets = CommittedOffsets()
        self.is_stored = False
        """Whether the log has a record of the group itself, below the high-water mark."""
        self.changes = 0
        """Changes of the group itself that are on their way."""
        self.due_ms = 0
        """When the members' machine is to look at its times; 0: no such time is noted."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of the group but its record, if there is one."""
        return not self.changes and not self.due_ms and may_go(self.members, self.offsets)
