"""What calls return: plain values, the same for both faces of the client."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from tank_client.errors import InvalidArgument

DEFAULT_PORT = 11011
FIRST = 0
"""The number to fetch from for the first message that can be read."""
END = 2**64 - 1
"""The number to fetch from for the next message that will be stored."""
NO_BROKER = 0xFFFF
Route: TypeAlias = tuple[str, int]
"""A topic and a partition."""
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""A message's headers: names and values, in the order in which they were sent. A name may occur twice."""
HeadersToSend: TypeAlias = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]
"""The headers of a message to send: names and values, as pairs or as a mapping."""
SettingValue = str | int | float | bool
"""The value of a topic's setting: `3600` and `True` mean the same as `"3600"` and `"true"`."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_servers(servers: "str | list[str] | tuple[str, ...]") -> list[Address]:
    """Returns the addresses in `HOST:PORT,HOST:PORT,…` (a missing port: 11011; IPv6 in brackets). Raises
    InvalidArgument for any other text."""
    names = servers.split(",") if isinstance(servers, str) else list(servers)
    addresses = [_parse_server(name.strip()) for name in names if name.strip()]
    if not addresses:
        raise InvalidArgument("no servers given: pass HOST:PORT, several separated by commas")
    return list(dict.fromkeys(addresses))


def _parse_server(name: str) -> Address:
    if "/" in name:
        raise InvalidArgument(f"{name!r} is not HOST:PORT: write it without '//' and without a path")
    host, port = name, ""
    if name.startswith("["):
        host, bracket, rest = name[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise InvalidArgument(
                f"{name!r} is not HOST:PORT: close the bracket of an IPv6 address, as in [::1]:11011"
            )
        port = rest[1:]
    elif name.count(":") == 1:
        host, _, port = name.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise InvalidArgument(f"{name!r} is not HOST:PORT with a port of 1 to 65535")
    return Address(host, int(port) if port else DEFAULT_PORT)


class ConsumedMessage(NamedTuple):
    """A message with its topic, partition and number. `key` is None when there is none; `value` may be empty.
    `timestamp_ms`: milliseconds since 1970 by convention, as the producer set them.

    In topics of Kafka's format, `value` is None for a tombstone, an empty key is a key, `timestamp_ms` is -1
    where the producer set none, and messages have headers. In topics of TANK's format an empty key counts as
    no key, and there are neither null values nor headers.
    """

    sequence_number: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    headers: Headers = ()


@dataclass(slots=True, frozen=True)
class Stored:
    """A bundle is stored: the numbers of its first and last message. Both are 0 when the broker does not give
    them (the C++ broker, the old document, or a repeat of a bundle that was stored long ago)."""

    first: int
    last: int

    @property
    def known(self) -> bool:
        """Whether the broker gave the numbers."""
        return self.first != 0


@dataclass(slots=True, frozen=True)
class FetchedChunk:
    """The result of one fetch of one partition: raw bundles, each with its varint length before it; or, with
    `holds_records`, Kafka's record batches as they are stored, which have their own numbers.

    `base`: the number of the first message of the first bundle, which can be below the number asked for. It
    has no meaning when `sparse`, because that bundle has its own numbers. `high_water_mark`: the caller must
    drop messages above it.

    `chunk` is empty when no message came within the wait. `first_available`: the smallest number that can be
    read; None when the broker does not give it.
    """

    base: int
    high_water_mark: int
    chunk: memoryview
    sparse: bool = False
    first_available: int | None = None
    holds_records: bool = False


@dataclass(slots=True, frozen=True)
class Ends:
    """The range of a partition: the smallest number that can be read (0: no message was ever written), and
    the greatest committed number (0: none)."""

    first_available: int
    high_water_mark: int


@dataclass(slots=True, frozen=True)
class FoundTime:
    """The place of a time in a partition. `number`: the first number of the first batch that holds or follows
    a message at or after the time; the log's end + 1 when there is none yet. `timestamp_ms`: the greatest
    time up to the end of that batch; 0 when there is none."""

    number: int
    timestamp_ms: int

    @property
    def found(self) -> bool:
        """Whether there is such a message."""
        return self.timestamp_ms != 0


@dataclass(slots=True, frozen=True)
class BrokerDescription:
    """A broker of the cluster."""

    broker_id: int
    address: Address
    rack: str = ""


class Trouble(Enum):
    """The reason why a partition cannot be used fully."""

    FAILED = "failed"
    """The partition takes no writes until the broker restarts, because its disk refused an operation."""
    DAMAGED = "damaged"
    """Stored batches are missing or wrong."""
    NOT_OPENED = "not opened"
    """Its log could not be opened."""
    HANGS = "hangs"
    """An fsync of the partition does not end: the disk hangs."""
    UNKNOWN_EPOCH = "unknown epoch"
    """Another broker sent it messages in a leader epoch that this broker has not learned from the
    controllers."""


@dataclass(slots=True, frozen=True)
class PartitionTrouble:
    """A partition that cannot be used fully; `reason`: the finding, in the broker's words."""

    topic: str
    partition: int
    trouble: Trouble
    reason: str


@dataclass(slots=True, frozen=True)
class StrayFolder:
    """A folder that belongs to no topic of the cluster and was set aside; `size_bytes` was measured when the
    broker started."""

    path: str
    size_bytes: int


@dataclass(slots=True, frozen=True)
class ClusterReport:
    """The addresses of the cluster's processes, as one broker knows them."""

    cluster_id: str
    controllers: tuple[Address, ...]
    """The controllers' gRPC addresses. Empty: the broker is not part of a cluster."""
    hosts: Mapping[str, tuple[str, ...]]
    """Numeric addresses by brokers' host names, from the last answer of the name service. Names that were
    never found are missing.
    """


@dataclass(slots=True, frozen=True)
class BrokerReport:
    """One broker's report on itself, its disk and its partitions.

    `data_bytes`: batches and indexes, without stray folders. `free_bytes`, `disk_bytes`: None when the
    broker's system does not give them. `open_files`: only files of logs. `software_version`: empty when the
    broker does not know it.
    """

    broker_id: int
    software_version: str
    started_ms: int
    uptime_ms: int
    data_folder: str
    data_bytes: int
    free_bytes: int | None
    disk_bytes: int | None
    open_files: int
    connections: int
    troubles: tuple[PartitionTrouble, ...] = ()
    stray_folders: tuple[StrayFolder, ...] = ()


class ClientProtocol(Enum):
    """The protocol that a client speaks with a broker."""

    TANK = "tank"
    KAFKA = "kafka"
    IGGY = "iggy"
    UNKNOWN = "unknown"
    """One that only newer brokers know."""


@dataclass(slots=True, frozen=True)
class ConnectedClient:
    """A connection of a client to a broker. `number`: rises from one connection to the next. `client_id`: the
    name that the client gives itself, `software`: its library; both may be empty. `received_bytes`,
    `sent_bytes`: None when the broker's system doesn't count them. `requests`: the kinds of requests that
    came, with the version in which each came last, or None.
    """

    number: int
    protocol: ClientProtocol
    address: Address | None
    client_id: str
    software: str
    software_version: str
    connected_ms: int
    received_bytes: int | None
    sent_bytes: int | None
    in_flight: int
    requests: Mapping[str, int | None]


@dataclass(slots=True, frozen=True)
class ConnectionPage:
    """A page of the clients' connections to one broker, the oldest first. `next_after`: the number behind
    which the next page begins; None: there is none."""

    broker_id: int
    connections: tuple[ConnectedClient, ...]
    next_after: int | None


@dataclass(slots=True, frozen=True)
class Setting:
    """The value of a topic's setting; `is_default`: the topic has no value of its own."""

    key: str
    value: str
    is_default: bool


@dataclass(slots=True, frozen=True)
class PartitionDescription:
    """A partition. `leader`: a broker id, None when there is no leader. `first_available`, `high_water_mark`,
    `size_bytes`: None when only the leader knows them."""

    partition: int
    leader: int | None = None
    leader_epoch: int = 0
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    first_available: int | None = None
    high_water_mark: int | None = None
    size_bytes: int | None = None


@dataclass(slots=True, frozen=True)
class TopicDescription:
    """A topic. From the C++ broker: `topic_id` is 0, and there are no settings and no leaders."""

    name: str
    partitions: tuple[PartitionDescription, ...]
    topic_id: int = 0
    replication_factor: int = 1
    settings: tuple[Setting, ...] = ()


@dataclass(slots=True, frozen=True)
class ServerStatus:
    """The connected broker's answer to Status (id 10)."""

    version: int
    cluster_aware: bool
    cluster_name: str
    live_nodes: int
    topics: int
    partitions: int
    open_partitions: int
    opening_ms: int
    start_time_s: int


@dataclass(slots=True, frozen=True)
class Features:
    """The features of a broker. `version`: 0 for the old document, 400 for the C++ broker, 1000 and more for
    Tank Cluster, which alone has the other fields.

    `features`: name -> (oldest, newest version). `limits`: name with its unit -> value.
    """

    version: int
    cluster_id: str = ""
    broker_id: int = NO_BROKER
    features: dict[str, tuple[int, int]] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class TopologyNode:
    """A node in the answer to DiscoverTopology (id 12)."""

    node_id: int
    address: Address | None
    available: bool
    blocked: bool
    partitions: int


@dataclass(slots=True, frozen=True)
class Topology:
    """The cluster in the answer to DiscoverTopology; `nodes` is None when the broker is not part of a
    cluster."""

    cluster_name: str
    nodes: tuple[TopologyNode, ...] | None


@dataclass(slots=True, frozen=True)
class CommittedPosition:
    """A group's position in a partition: the next number to read, and the metadata stored with it."""

    number: int
    metadata: str = ""
    committed_ms: int = 0


@dataclass(slots=True, frozen=True)
class ProducerIdentity:
    """The answer to InitProducer: the id (never 0) and the epoch to begin with."""

    producer_id: int
    epoch: int


class ConsumerGroupState(Enum):
    """What a consumer group does."""

    DEAD = "dead"
    """There is no such group."""
    EMPTY = "empty"
    """It has no members; it may have positions."""
    PREPARING_REBALANCE = "preparing rebalance"
    """It waits for its members to join again."""
    COMPLETING_REBALANCE = "completing rebalance"
    """It waits for the assignments from one of its members."""
    STABLE = "stable"
    """All members have the partitions that they are to have."""
    ASSIGNING = "assigning"
    """Its coordinator is about to assign partitions."""
    RECONCILING = "reconciling"
    """Some members still have to give partitions up, or to take theirs."""
    UNKNOWN = "unknown"
    """A state that only newer brokers know; or the broker gives none."""


@dataclass(slots=True, frozen=True)
class GroupSummary:
    """A consumer group in a list. `protocol_type`: what its members have in common, for example consumer or
    connect; empty when it has had no members. `members`: None when the broker doesn't give their number.
    `title`: what people know it by, if that is not its name: stream/topic/group of Iggy's clients."""

    name: str
    protocol_type: str = ""
    state: ConsumerGroupState = ConsumerGroupState.UNKNOWN
    members: int | None = None
    title: str = ""


@dataclass(slots=True, frozen=True)
class GroupMember:
    """A member of a consumer group. `instance_id`: the name of a static member, or empty. `epoch`: its epoch,
    or the group's generation. `subscribed`, `assignment`: the topics that it reads, and the partitions that
    it has; empty when the broker could not read what it said."""

    member_id: str
    instance_id: str
    client_name: str
    host: str
    epoch: int
    subscribed: tuple[str, ...]
    assignment: tuple[tuple[str, int], ...]


@dataclass(slots=True, frozen=True)
class GroupDescription:
    """A consumer group with its members. `protocol`: the way in which partitions are assigned. `epoch`: the
    group's epoch, or the generation of members that assign partitions themselves; -1: none."""

    name: str
    state: ConsumerGroupState
    protocol_type: str
    protocol: str
    epoch: int
    members: tuple[GroupMember, ...]
