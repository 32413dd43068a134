"""The groups of a broker in numbers: how many there are, and what they take in memory."""

from collections import Counter
from typing import Final, NamedTuple

from tank_node.coordinators.machine.group_state import GroupState

GROUP_BYTES: Final = 2_000
"""What a group takes beside its members and offsets."""
MEMBER_BYTES: Final = 1_000
"""What a member takes beside what it says and what was assigned to it."""
OFFSET_BYTES: Final = 300
"""What a committed offset takes beside the client's note."""


class GroupFigures(NamedTuple):
    """What is counted of a group."""

    state: GroupState
    generation: int
    """The number of the present generation."""
    members: int
    held_bytes: int
    """About how many bytes its members take."""


class GroupMemory:
    """The groups and offsets of one partition, or of all partitions of a broker, and about how many bytes
    they take."""

    __slots__ = ("_above", "_consumers", "groups", "held_bytes", "members", "offsets", "states")

    def __init__(self, above: "GroupMemory | None" = None) -> None:
        """above: that of the whole broker, which counts the same."""
        self._above = above
        self._consumers: GroupMemory | None = None
        self.groups = 0
        self.members = 0
        self.offsets = 0
        self.held_bytes = 0
        self.states: Counter[GroupState] = Counter()
        """The groups by their states."""

    @property
    def consumers(self) -> "GroupMemory":
        """That of Iggy's consumers, which counts here, too."""
        if self._consumers is None:
            self._consumers = GroupMemory(self)
        return self._consumers

    def add(self, groups: int, offsets: int, held_bytes: int) -> None:
        """Adds so many, or takes them away where they are negative."""
        self.groups += groups
        self.offsets += offsets
        self.held_bytes += held_bytes
        if self._above is not None:
            self._above.add(groups, offsets, held_bytes)

    def add_members(self, state: GroupState, groups: int, members: int) -> None:
        """Adds groups in this state, and members; or takes them away."""
        self.states[state] += groups
        self.members += members
        if self._above is not None:
            self._above.add_members(state, groups, members)

    def clear(self) -> None:
        """Takes away all that there is."""
        self.add(-self.groups, -self.offsets, -self.held_bytes)
        members = self.members
        for state, groups in list(self.states.items()):
            self.add_members(state, -groups, -members)
            members = 0


def text_bytes(text: str) -> int:
    """Returns about how many bytes a text takes."""
    return len(text) if text.isascii() else 4 * len(text)
