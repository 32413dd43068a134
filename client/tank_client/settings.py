"""The settings and bounds of the client, each with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from tank_client.errors import InvalidArgument


@dataclass(slots=True, frozen=True)
class ClientSettings:
    """Bounds of one client; times in milliseconds, sizes in bytes."""

    client_id: str = "tank-client"
    """A name for the broker's logs; 255 bytes at most."""
    connect_timeout_ms: int = 5_000
    """For the TCP connection and the first answer together: a live broker answers in milliseconds."""
    request_timeout_ms: int = 30_000
    """For one call with all its retries; a wait that the call asks the broker for is added."""
    attempt_timeout_ms: int = 10_000
    """For one answer: longer than a broker waits for its replicas (8 s). After it the connection counts as
    dead.
    """
    silence_ms: int = 1_000
    """When an answer is late by this much, the client asks another broker for the leader: a broker that hangs
    is left as soon as there is a new leader, and not only after `attempt_timeout_ms`."""
    backoff_min_ms: int = 50
    backoff_max_ms: int = 2_000
    """The wait between attempts: doubled each time, with full jitter, so that clients don't retry at the same
    time.
    """
    max_in_flight_per_connection: int = 4_096
    """Requests without an answer on one connection: the broker bounds them, too, and each holds memory in the
    client.
    """
    max_frame_bytes: int = 256 << 20
    """The greatest frame, TANK's own limit: a frame that announces more ends the connection."""
    max_connections: int = 256
    """Connections to the brokers of one cluster: redirects may lead to many."""
    metadata_max_age_ms: int = 300_000
    """How long a topic's number of partitions is valid; then it is asked for again, so that producers find
    added partitions.
    """

    doubt_after_ms: int = 15_000
    """After so long without a new message, a reader asks another broker whether its broker still leads, and
    again after the same time: a leader that is cut off from the others cannot know that it was replaced."""
    view_lag_ms: int = 5_000
    """With several brokers: for how long the client ignores a broker's answer that a known topic is missing,
    or that a log ends below a number that was read. Brokers learn of changes one after the other.
    """
    new_topic_lag_ms: int = 500
    """With several brokers: for how long the client asks others about a topic that it has never seen, before
    it raises UnknownTopic. Another program may have created the topic a moment ago, through another broker.
    """

    def __post_init__(self) -> None:
        _check_least(
            self, 1, "connect_timeout_ms", "request_timeout_ms", "attempt_timeout_ms", "backoff_min_ms",
            "backoff_max_ms", "max_in_flight_per_connection", "max_frame_bytes", "max_connections",
            "metadata_max_age_ms", "doubt_after_ms", "silence_ms",
        )  # fmt: skip


@dataclass(slots=True, frozen=True)
class ProducerSettings:
    """How a producer batches, waits and retries; times in milliseconds, sizes in bytes."""

    batch_bytes: int = 64 << 10
    """A bundle is sent when its keys and values reach this: large enough for the broker's speed, small for
    latency."""
    linger_ms: int = 5
    """A bundle is also sent when its first message has waited this long."""
    buffer_bytes: int = 32 << 20
    """The size of all messages that are not acknowledged yet. When it is reached, `send` waits for room."""
    max_block_ms: int = 60_000
    """How long `send` waits for room, or, before a topic's first message, for the number of its
    partitions.
    """
    delivery_timeout_ms: int = 120_000
    """The time from a bundle's first message until its delivery fails."""
    max_in_flight_per_partition: int = 5
    """The broker remembers the last five bundles of a producer in a partition, and could not recognize a
    repeat of an older one."""
    required_acks: int = 0
    """0: as many replicas as the topic's min.insync.replicas; 255: the leader and half of its in-sync peers +
    1; n: the leader and n more."""
    ack_timeout_ms: int = 0
    """How long the broker waits for replicas; 0: 8000."""
    idempotent: bool | None = None
    """Whether bundles have sequence numbers, by which the broker recognizes repeats. None: when the broker
    has producer ids. True: always; FeatureMissing when the broker has none.
    """
    at_least_once: bool = False
    """Only without idempotence: send a bundle again when its outcome is unknown, at the risk of storing it
    twice.
    """
    compression: bool | None = None
    """True: always compress with snappy; False: never; None: like TANK's own client, from 512 messages or 1
    KiB on, unless a sample of a larger bundle does not shrink.
    """
    partitioner: str = "crc32c"
    """`crc32c` or `murmur2` (Kafka's), see `tank_client.producing.partitioner`."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_in_flight_per_partition <= 5:
            raise InvalidArgument(
                "max_in_flight_per_partition must be 1 to 5: the broker remembers five bundles"
            )
        if self.batch_bytes < 1 or self.buffer_bytes < self.batch_bytes:
            raise InvalidArgument("buffer_bytes must be at least batch_bytes, and both positive")
        if not isinstance(self.required_acks, int) or not 0 <= self.required_acks <= 255:
            raise InvalidArgument(
                "required_acks must be 0 (the topic's min.insync.replicas), n (the leader and n more) "
                "or 255 (the leader and half of the others)"
            )
        _check_least(self, 0, "linger_ms", "max_block_ms", "ack_timeout_ms")
        _check_least(self, 1, "delivery_timeout_ms")


class OutOfBoundsPolicy(Enum):
    """Where a consumer goes when its position is not in the partition (expired, or beyond the end)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    ERROR = "error"


class DamagedPolicy(Enum):
    """How a consumer handles a bundle that cannot be read, after it has handed out all messages before it."""

    ERROR = "error"
    """Raises CorruptBundle, until a seek behind the bundle."""
    SKIP = "skip"
    """Logs a warning and goes on behind the bundle."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StartAt(Enum):
    """Where a consumer begins: an alternative to a number or a time."""

    FIRST = "first"
    END = "end"
    COMMITTED = "committed"


@dataclass(slots=True, frozen=True, init=False)
class AtTime:
    """Begin with the first message at or after this time."""

    timestamp_ms: int
    """Milliseconds of the epoch."""

    def __init__(self, time: int | datetime) -> None:
        """`time`: milliseconds of the epoch, or a datetime with a time zone, rounded up to a millisecond, so
        that no earlier message is read. Raises InvalidArgument when the time has no zone.
        """
        object.__setattr__(self, "timestamp_ms", _ms_of(time) if isinstance(time, datetime) else time)


def _ms_of(time: datetime) -> int:
    if time.tzinfo is None:
        raise InvalidArgument(
            f"{time!r} has no time zone: use datetime.now(timezone.utc), or astimezone() for this machine's"
        )
    return -((EPOCH - time) // timedelta(milliseconds=1))


Start = StartAt | AtTime | int | str | Mapping[tuple[str, int], "StartAt | AtTime | int | str"]
"""Where to begin: 'first', 'end', 'committed', a sequence number, a time, or one of these per (topic,
partition)."""


@dataclass(slots=True, frozen=True)
class ConsumerSettings:
    """How a consumer fetches; times in milliseconds, sizes in bytes."""

    fetch_bytes: int = 1 << 20
    """The bytes requested for each partition; an answer can exceed them by one bundle."""
    prefetch_bytes: int = 16 << 20
    """The size of messages that are fetched and not yet handed out. No request is sent while more is held, so
    the requests under way (`max_requests` times fetch_bytes) can exceed it.
    """
    max_requests: int = 8
    """Fetches under way at the same time."""
    max_wait_ms: int = 5_000
    """How long the broker holds a fetch that finds nothing; the broker answers at the append, so a long wait
    costs no latency.
    """
    min_bytes: int = 0
    """How many bytes must be appended before a waiting fetch is answered."""
    give_up_after_ms: int = 120_000
    """How long a partition may be unreachable before the consumer raises the error; a further read tries
    again."""
    out_of_bounds: OutOfBoundsPolicy = OutOfBoundsPolicy.EARLIEST
    """Where to continue when a number has expired or is beyond the end; the text 'earliest' works, too."""
    damaged: DamagedPolicy = DamagedPolicy.ERROR
    """How to handle a bundle that cannot be read; the text 'skip' works, too."""
    max_poll_interval_ms: int = 300_000
    """As a member of a group: after so long without a read, the consumer leaves the group, so that others get
    its partitions."""
    rebalance_timeout_ms: int = 300_000
    """As a member of a group: how long the consumer may take to give partitions up. They are given up at a
    read, so this is to be no less than `max_poll_interval_ms`."""
    session_timeout_ms: int = 45_000
    """As a member of a group: after so long without an answer to a heartbeat, the consumer counts its
    partitions as lost. Brokers decide by their own setting when a silent member is out of its group; this is
    its default."""
    assignor: str = ""
    """As a member of a group: how the group assigns partitions, `uniform` or `range`; empty: the broker
    chooses.
    """

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "out_of_bounds", OutOfBoundsPolicy(self.out_of_bounds))
        except ValueError:
            raise InvalidArgument(
                f"out_of_bounds={self.out_of_bounds!r}: use 'earliest', 'latest' or 'error'"
            ) from None
        try:
            object.__setattr__(self, "damaged", DamagedPolicy(self.damaged))
        except ValueError:
            raise InvalidArgument(f"damaged={self.damaged!r}: use 'error' or 'skip'") from None
        _check_least(self, 1, "fetch_bytes", "prefetch_bytes", "max_requests", "give_up_after_ms")
        _check_least(self, 1, "max_poll_interval_ms", "rebalance_timeout_ms", "session_timeout_ms")
        _check_least(self, 0, "max_wait_ms", "min_bytes")


def _check_least(settings: object, least: int, *names: str) -> None:
    """Raises InvalidArgument for a number so small that nothing could be sent."""
    for name in names:
        value = getattr(settings, name)
        if not isinstance(value, int) or value < least:
            raise InvalidArgument(f"{name}={value!r}: it must be a whole number, {least} or more")
