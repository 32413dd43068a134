"""Every bound of the client, in one place, with its reason."""

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
    """For TCP and the first answer together: a broker that is there answers in milliseconds."""
    request_timeout_ms: int = 30_000
    """For one call with all its retries; the waits that a call asks for come on top."""
    attempt_timeout_ms: int = 10_000
    """For one answer: more than a broker waits for its replicas (8 s). Then the connection counts as dead."""
    silence_ms: int = 1_000
    """An answer that is late by this much makes us ask another broker who leads: one that hangs is left as
    soon as there is a new leader, and not after `attempt_timeout_ms`."""
    backoff_min_ms: int = 50
    backoff_max_ms: int = 2_000
    """Between attempts: doubled each time, with full jitter, so that clients don't come back in step."""
    max_in_flight_per_connection: int = 4_096
    """Requests without an answer: the broker bounds them too, and each holds memory here."""
    max_frame_bytes: int = 256 << 20
    """TANK's own limit; an answer that announces more is not an answer."""
    max_connections: int = 256
    """Brokers that redirects may lead to."""
    metadata_max_age_ms: int = 300_000
    """How long partition counts are believed, so that producers find added partitions."""

    doubt_after_ms: int = 15_000
    """How long a reader that gets nothing new believes that its broker still leads: one that is cut off from
    the others can't know. Then another broker is asked, and again after the same time."""
    view_lag_ms: int = 5_000
    """How long a broker may not know a topic that is there, or end below what was read: it hears of changes
    after the others, or never while it is cut off. Only where there are several brokers."""

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
    """... or when its first message has waited this long."""
    buffer_bytes: int = 32 << 20
    """Messages not yet acknowledged, all partitions together. `send` waits for room."""
    max_block_ms: int = 60_000
    """How long `send` waits for room, or, before a topic's first message, for its partitions."""
    delivery_timeout_ms: int = 120_000
    """From the bundle's first message until its future fails."""
    max_in_flight_per_partition: int = 5
    """The broker remembers a producer's last five bundles in a partition: more could not be recognized as
    repeats."""
    required_acks: int = 0
    """0: the topic's min.insync.replicas; 255: the leader and half of its in-sync peers + 1; n: the leader
    and n more."""
    ack_timeout_ms: int = 0
    """How long the broker waits for replicas; 0: 8000."""
    idempotent: bool | None = None
    """None: where the broker can. True: FeatureMissing where it can't. False: without numbers that
    recognize repeats."""
    at_least_once: bool = False
    """Only without idempotence: send a bundle again when its outcome is unknown, at the risk of storing it
    twice."""
    compression: bool | None = None
    """True: snappy always; False: never; None: as TANK's own client, from 512 messages or 1 KiB on, unless a
    sample of a larger bundle does not shrink."""
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
    """What a consumer does when its position is not in the partition (expired, or beyond the end)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    ERROR = "error"


class DamagedPolicy(Enum):
    """What a consumer does with a bundle that cannot be read, after all that stands before it."""

    ERROR = "error"
    """CorruptBundle, until it seeks behind it."""
    SKIP = "skip"
    """A warning in the log, and on behind it."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StartAt(Enum):
    """Where a consumer begins, when neither a number nor a time is given."""

    FIRST = "first"
    END = "end"
    COMMITTED = "committed"


@dataclass(slots=True, frozen=True, init=False)
class AtTime:
    """Begin with the first message at or after this time."""

    timestamp_ms: int
    """Milliseconds of the epoch."""

    def __init__(self, time: int | datetime) -> None:
        """`time`: milliseconds of the epoch, or a datetime with a time zone; what it has below a millisecond
        counts, too: a message of the millisecond before is not read. InvalidArgument when it has no zone."""
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
    """Asked for per partition and request; an answer can exceed it by one bundle."""
    prefetch_bytes: int = 16 << 20
    """Fetched and not yet handed out: no request leaves while more is held, so the bound can be exceeded by
    the requests under way (`max_requests` times fetch_bytes)."""
    max_requests: int = 8
    """Fetches under way at once."""
    max_wait_ms: int = 5_000
    """How long the broker holds a fetch that finds nothing; it wakes at the append, so a long wait costs no
    latency."""
    min_bytes: int = 0
    """How many bytes must be appended before a waiting fetch is answered."""
    give_up_after_ms: int = 120_000
    """How long a partition may be unreachable before the reader is told; reading again goes on trying."""
    out_of_bounds: OutOfBoundsPolicy = OutOfBoundsPolicy.EARLIEST
    """Where to go when a number has expired or is beyond the end; its name, 'earliest', will do, too."""
    damaged: DamagedPolicy = DamagedPolicy.ERROR
    """What to do at a bundle that cannot be read; its name, 'skip', will do, too."""

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
        _check_least(self, 0, "max_wait_ms", "min_bytes")


def _check_least(settings: object, least: int, *names: str) -> None:
    """InvalidArgument for a number that would stop everything instead of bounding it."""
    for name in names:
        value = getattr(settings, name)
        if not isinstance(value, int) or value < least:
            raise InvalidArgument(f"{name}={value!r}: it must be a whole number, {least} or more")
