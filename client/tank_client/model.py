"""What calls return: plain values, the same for both faces of the client."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tank_client.errors import InvalidArgument

DEFAULT_PORT = 11011
FIRST = 0
"""As a number to fetch from: the first that can be read."""
END = 2**64 - 1
"""As a number to fetch from: what comes next."""
NO_BROKER = 0xFFFF
SettingValue = str | int | float | bool
"""What a topic's setting may be given as: `3600` and `True` mean what `"3600"` and `"true"` mean."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_servers(servers: "str | list[str] | tuple[str, ...]") -> list[Address]:
    """`HOST:PORT,HOST:PORT,…` (a missing port: 11011; IPv6 in brackets) as addresses. InvalidArgument when
    it isn't."""
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
    """A message with its place. `key` is None when it has none (an empty key is none), `value` may be empty;
    `timestamp_ms`: milliseconds, by custom since 1970, as its producer set them."""

    sequence_number: int
    timestamp_ms: int
    key: bytes | None
    value: bytes
    topic: str
    partition: int


@dataclass(slots=True, frozen=True)
class Stored:
    """A bundle is stored: the numbers of its first and last message. Both 0: the broker does not say (the
    C++ broker, the old document, or a repeat of a bundle that was stored long ago)."""

    first: int
    last: int

    @property
    def known(self) -> bool:
        """Whether the broker told the numbers."""
        return self.first != 0


@dataclass(slots=True, frozen=True)
class FetchedChunk:
    """What one fetch of one partition brought: raw bundles, each with its varint length before it.

    `base`: the number of the first message of the first bundle (it can be below the number asked for; without
    meaning when `sparse`: then the bundle says it itself). `high_water_mark`: messages above it are to be
    dropped.
    `chunk` is empty when nothing came within the wait. `first_available`: the smallest number that can be
    read; None when the answer does not say.
    """

    base: int
    high_water_mark: int
    chunk: memoryview
    sparse: bool = False
    first_available: int | None = None


@dataclass(slots=True, frozen=True)
class Ends:
    """How far a partition reaches: the smallest number that can be read (0: none was ever written), and the
    greatest committed one (0: none)."""

    first_available: int
    high_water_mark: int


@dataclass(slots=True, frozen=True)
class FoundTime:
    """Where a time begins: `number` is the first of the first batch that holds or follows a message at or
    after it (the log's end + 1: there is none yet); `timestamp_ms` the greatest time up to that batch's
    end, 0 when there is none."""

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
    """What keeps a partition from being used as it should."""

    FAILED = "failed"
    """It takes no writes until the broker starts anew: its disk refused something."""
    DAMAGED = "damaged"
    """Stored batches are missing or wrong."""
    NOT_OPENED = "not opened"
    """Its log could not be opened."""
    HANGS = "hangs"
    """An fsync of it doesn't end: its disk hangs."""
    UNKNOWN_EPOCH = "unknown epoch"
    """Another broker pushed to it in a leader epoch that the controllers haven't told of."""


@dataclass(slots=True, frozen=True)
class PartitionTrouble:
    """A partition that can't be used as it should; `reason`: what the broker found, in its own words."""

    topic: str
    partition: int
    trouble: Trouble
    reason: str


@dataclass(slots=True, frozen=True)
class StrayFolder:
    """A folder that belongs to no topic of the cluster and was set aside; `size_bytes` is of the broker's
    start."""

    path: str
    size_bytes: int


@dataclass(slots=True, frozen=True)
class ClusterReport:
    """Where one broker knows the processes of its cluster to be."""

    cluster_id: str
    controllers: tuple[Address, ...]
    """With their gRPC ports. Empty: it is a broker of its own."""
    hosts: Mapping[str, tuple[str, ...]]
    """Numeric addresses by brokers' names: what the name service said last. Only of names that it knows."""


@dataclass(slots=True, frozen=True)
class BrokerReport:
    """What one broker says of itself, its disk and its partitions.

    `data_bytes`: batches and index, without stray folders. `free_bytes`, `disk_bytes`: None when its system
    does not tell. `open_files`: of logs. `software_version`: empty when it doesn't know it."""

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


@dataclass(slots=True, frozen=True)
class Setting:
    """A topic's setting as the broker says it; `is_default`: nobody set it."""

    key: str
    value: str
    is_default: bool


@dataclass(slots=True, frozen=True)
class PartitionDescription:
    """A partition. `leader`: a broker id, None without one. `first_available`, `high_water_mark`,
    `size_bytes`: None when only its leader knows them."""

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
    """A topic. From the C++ broker: `topic_id` 0, no settings, no leaders."""

    name: str
    partitions: tuple[PartitionDescription, ...]
    topic_id: int = 0
    replication_factor: int = 1
    settings: tuple[Setting, ...] = ()


@dataclass(slots=True, frozen=True)
class ServerStatus:
    """What Status (id 10) says of the broker that we talk to."""

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
    """What the broker can do. `version`: 0 old document, 400 the C++ broker, 1000 and more ours; only ours
    has the rest.

    `features`: name -> (oldest, newest version). `limits`: name with its unit -> value."""

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
    """The cluster as DiscoverTopology tells it; `nodes` None: the broker stands alone."""

    cluster_name: str
    nodes: tuple[TopologyNode, ...] | None


@dataclass(slots=True, frozen=True)
class CommittedPosition:
    """How far a group has read: the next number to read, with the note kept beside it."""

    number: int
    metadata: str = ""
    committed_ms: int = 0


@dataclass(slots=True, frozen=True)
class ProducerIdentity:
    """What InitProducer gave: the id (never 0) and the epoch to begin with."""

    producer_id: int
    epoch: int
