"""A group in a coordinator's memory."""

from tank_node.coordinators.machine.group_machine import GroupMachine
from tank_node.coordinators.machine.group_memory import GROUP_BYTES, GroupFigures, GroupMemory
from tank_node.coordinators.machine.group_requests import ListedGroup
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.machine.stored_record import StoredRecord
from tank_node.coordinators.offsets.committed_offsets import CommittedOffsets
from tank_node.coordinators.offsets.offset_expiry import may_go


class Group:
    """A group's members, and how far it has read."""

    __slots__ = (
        "_figures", "_memory", "changes", "due_ms", "group_id", "is_resting", "is_stored", "members",
        "offsets", "unwritten",
    )  # fmt: skip

    def __init__(self, group_id: str, members: GroupMachine, memory: GroupMemory) -> None:
        """memory: counts the group, beside others."""
        self.group_id = group_id
        self.members = members
        """The machine of the protocol that its members speak."""
        self.offsets = CommittedOffsets(memory)
        self.is_stored = False
        """Whether the log has a record of the group itself, below the high-water mark."""
        self.is_resting = False
        """Whether the group was loaded, and its members' times have not begun: they do when this is used."""
        self.changes = 0
        """Changes of the group itself that are on their way."""
        self.unwritten: list[StoredRecord] = []
        """Records that go into the log before those of the next change."""
        self.due_ms = 0
        """When the members' machine is to look at its times; 0: no such time is noted."""
        self._memory = memory
        self._figures = GroupFigures(GroupState.DEAD, 0, 0, 0)
        """What was counted last."""
        memory.add(1, 0, GROUP_BYTES)
        memory.add_members(GroupState.DEAD, 1, 0)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of the group but its record, if there is one."""
        return not self.changes and not self.due_ms and may_go(self.members, self.offsets)

    @property
    def is_uncounted(self) -> bool:
        """Whether it counts as none, because it was that when it was counted last."""
        return self._figures.state is GroupState.DEAD

    def listed(self) -> ListedGroup:
        """The group's line in a list, with the number of its members."""
        line = self.members.listed()
        return ListedGroup(
            line.group_id, line.protocol_type, line.state, line.is_classic, self.members.figures().members
        )

    def count(self) -> bool:
        """Counts the group as it is by now. Returns whether it has another generation."""
        memory = self._memory
        before, now = self._figures, self.members.figures()
        if now == before:
            return False
        self._figures = now
        memory.add(0, 0, now.held_bytes - before.held_bytes)
        memory.add_members(before.state, -1, -before.members)
        memory.add_members(now.state, 1, now.members)
        return now.generation != before.generation

    def forget(self) -> None:
        """The group leaves the memory; it has no offsets."""
        figures = self._figures
        self._memory.add(-1, 0, -GROUP_BYTES - figures.held_bytes)
        self._memory.add_members(figures.state, -1, -figures.members)
