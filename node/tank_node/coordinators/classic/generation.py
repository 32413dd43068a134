"""A generation of a group, and the steps on the way to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tank_node.coordinators.machine.group_requests import JoinedMember


@dataclass(slots=True, frozen=True)
class Generation:
    """A time between two rebalances."""

    number: int = 0
    protocol: str | None = None
    """The way of assigning that was voted for; None: the group has no members."""
    leader_id: str = ""


@dataclass(slots=True)
class JoinPhase:
    """Members are gathered for the next generation."""

    deadline_ms: int
    is_initial: bool = False
    """Whether the group had no members: it waits for its time, however many have joined."""
    left_ms: int = 0
    """How much longer an initial phase may become."""
    has_newcomers: bool = False
    """Whether a new member came since its time was last set."""


@dataclass(slots=True)
class Forming:
    """A generation whose number is being stored: no member has heard of it."""

    generation: Generation
    change: int
    joined: frozenset[str]
    """The ids of the members who joined it."""
    members: tuple[JoinedMember, ...]
    """All members, as its leader will get them: those who say something else by then join anew."""
    is_outdated: bool = False
    """Whether members have changed since: another rebalance follows at once."""


@dataclass(slots=True, frozen=True)
class Assigning:
    """The assignments of a generation that are being stored: no member has heard of them."""

    change: int
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    """By member id; members that are missing get nothing."""
