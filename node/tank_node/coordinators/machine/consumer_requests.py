"""What members of groups of the consumer protocol (KIP-848) ask of the coordinator, and what it answers.
Plain data, in no protocol's words.

The coordinator assigns the partitions of such a group. A member says what it reads and what it has, and hears
what it is to have; everything that did not change may be left out. Topics have their names here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_state import GroupState

JOINS: Final = 0
"""The epoch of a member that joins, or comes back after it was fenced."""
LEAVES: Final = -1
"""The epoch of a member that leaves for good."""
LEAVES_FOR_A_WHILE: Final = -2
"""The epoch of a static member that leaves, and comes back under its instance id within its session."""

Partitions = Mapping[str, tuple[int, ...]]
"""Numbers of partitions, rising, by the topic's name."""


@dataclass(slots=True, frozen=True)
class ConsumerHeartbeat:
    """A member lives: it joins, goes on, or leaves. None: unchanged since its last heartbeat; in one that
    joins, it says everything."""

    group_id: str
    member_id: str
    """Chosen by the member. Empty: the coordinator chooses, in a heartbeat that joins."""
    instance_id: str | None = None
    """The name of a static member."""
    member_epoch: int = JOINS
    """The epoch that the member heard last, or JOINS, LEAVES, LEAVES_FOR_A_WHILE."""
    rack_id: str | None = None
    rebalance_ms: int = -1
    """How long the member may take to give partitions up; -1: unchanged."""
    topics: tuple[str, ...] | None = None
    """The names of the topics that it reads."""
    topic_regex: str | None = None
    """A regular expression of the topics that it reads, besides `topics`; empty: none."""
    assignor: str | None = None
    """The assignor that it wants: `uniform` or `range`; None: unchanged, or the coordinator chooses."""
    owned: Partitions | None = None
    """The partitions that it has."""
    client_id: str = ""
    client_host: str = ""
    """The client's address, as tools show it."""


@dataclass(slots=True, frozen=True)
class ConsumerHeartbeatAnswer:
    """The member's place in the group, or a refusal."""

    error: GroupError
    message: str | None = None
    """What went wrong, for people."""
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_ms: int = 0
    """After how long the member is to send its next heartbeat."""
    assignment: Partitions | None = None
    """The partitions that the member is to have: it gives up all others, and says so. None: as it heard
    before."""


@dataclass(slots=True, frozen=True)
class DescribedConsumerMember:
    """A member of a group of the consumer protocol, as tools show it."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str
    """A pattern of more topics; empty: none."""
    assignment: Partitions
    """What the member has."""
    target: Partitions
    """What the member is to have."""
    is_classic: bool = False
    """Whether the member speaks the classic protocol, which the coordinator translates."""


@dataclass(slots=True, frozen=True)
class DescribedConsumerGroup:
    """A group of the consumer protocol, as tools show it."""

    error: GroupError
    group_id: str
    state: GroupState = GroupState.DEAD
    epoch: int = 0
    assignment_epoch: int = 0
    """The group's epoch for which the targets were made."""
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()
