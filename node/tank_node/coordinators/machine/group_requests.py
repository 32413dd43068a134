"""What clients ask of a group's coordinator, and what it answers. Plain data, in no protocol's words.

Offsets are Kafka's: the first record of a partition has 0, and a committed offset is that of the next record
to read. Texts that clients chose (metadata, assignments) are never interpreted but where it is said.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tank_node.coordinators.machine.committed_offset import NO_EPOCH as NO_EPOCH
from tank_node.coordinators.machine.committed_offset import CommittedOffset as CommittedOffset
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_state import GroupState

NO_GENERATION = -1
"""The generation of a request that comes from no member: a simple commit."""


@dataclass(slots=True, frozen=True)
class MemberName:
    """What a request says about the member that sends it."""

    group_id: str
    member_id: str
    """Empty where the client has none so far."""
    instance_id: str | None = None
    """The name of a static member, which keeps its assignment when its process starts again (KIP-345)."""


@dataclass(slots=True, frozen=True)
class JoinRequest:
    """A member wants to be in the group's next generation."""

    member: MemberName
    client_id: str
    client_host: str
    """The client's address, as tools show it."""
    session_ms: int
    """How long the member may be silent."""
    rebalance_ms: int
    """How long the group waits for the member to join again; at least the session's time where the client
    didn't say."""
    protocol_type: str
    """For example `consumer`, `connect` or `sr`; members of one group have the same."""
    protocols: tuple[tuple[str, bytes], ...]
    """(name, metadata), best first: the ways of assigning that the member knows."""
    needs_member_id: bool = False
    """Whether a new dynamic member gets its id in an answer MEMBER_ID_REQUIRED, and is a member when it joins
    with it (KIP-394)."""
    may_skip_assignment: bool = False
    """Whether a leader that came back as a static member understands that nothing is to be assigned
    (KIP-814)."""


@dataclass(slots=True, frozen=True)
class JoinedMember:
    """A member, as the generation's leader gets it, to assign partitions."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(slots=True, frozen=True)
class JoinAnswer:
    """The member's place in the generation, or a refusal."""

    error: GroupError
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    """The way of assigning that was voted for."""
    leader_id: str = ""
    members: tuple[JoinedMember, ...] = ()
    """All members, for the leader; empty for others."""
    skip_assignment: bool = False


@dataclass(slots=True, frozen=True)
class SyncRequest:
    """A member asks for its assignment in a generation; the leader brings those of all."""

    member: MemberName
    generation: int
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    """By member id; empty but for the leader."""
    protocol_type: str | None = None
    protocol: str | None = None
    """None: not said (older clients), so not compared with the group's."""


@dataclass(slots=True, frozen=True)
class SyncAnswer:
    """The member's assignment, or a refusal."""

    error: GroupError
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


TopicPartition = tuple[str, int]
"""A topic's name and a partition's number."""


@dataclass(slots=True, frozen=True)
class CommitRequest:
    """Offsets that a member, or a client without a group's generation, has read up to."""

    member: MemberName
    generation: int
    offsets: Mapping[TopicPartition, CommittedOffset]
    unknown_group: GroupError = GroupError.ILLEGAL_GENERATION
    """The answer where the group isn't there and the request has a generation: newer clients know
    UNKNOWN_GROUP."""


@dataclass(slots=True, frozen=True)
class DescribedMember:
    """A member, as tools show it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    """Empty but in a stable group, as `assignment`."""
    assignment: bytes


@dataclass(slots=True, frozen=True)
class DescribedGroup:
    """A group, as tools show it."""

    error: GroupError
    group_id: str
    state: GroupState = GroupState.DEAD
    protocol_type: str = ""
    protocol: str = ""
    """Empty but in a stable group."""
    generation: int = NO_GENERATION
    members: tuple[DescribedMember, ...] = ()


@dataclass(slots=True, frozen=True)
class ListedGroup:
    """A line in a list of groups."""

    group_id: str
    protocol_type: str
    state: GroupState
    is_classic: bool = True
    """Whether its members speak the classic protocol, or else the consumer protocol."""
    members: int = 0
    """How many it has; a machine's own line doesn't say it, see `Group.listed`."""
