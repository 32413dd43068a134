"""The settings of groups that an operator chooses."""

from dataclasses import dataclass, field
from enum import StrEnum

from tank_node.coordinators.machine.assignors import ASSIGNORS
from tank_node.coordinators.machine.group_limits import GroupLimits
from tank_protos.wire.names import MAX_PARTITIONS_OF_A_TOPIC

DAY_MS = 86_400_000
LAG_SERIES = 1_000
"""The most partitions of groups with metrics of their own, unless the configuration says another number: each
is a series in each scrape, and clients choose its labels freely."""
MOST_LAG_SERIES = 100_000
"""The greatest number that a configuration may say: some 10 MB in each scrape."""


class Migration(StrEnum):
    """Whether groups change their protocol while they have members: `group.consumer.migration.policy`."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    """Only to the consumer protocol."""
    DOWNGRADE = "downgrade"
    """Only to the classic protocol."""
    DISABLED = "disabled"


class GroupSettingError(ValueError):
    """A setting that is out of range, or contradicts another; the message says what to do."""


@dataclass(slots=True, frozen=True)
class GroupSettings:
    """What holds for all groups of a broker, under Kafka's names at the edge. Raises GroupSettingError."""

    min_session_ms: int = 6_000
    """`group.min.session.timeout.ms`: a shorter session is refused."""
    max_session_ms: int = 1_800_000
    """`group.max.session.timeout.ms`: a longer session is refused, as its partitions would stay unread for so
    long when a member dies."""
    initial_delay_ms: int = 3_000
    """`group.initial.rebalance.delay.ms`: how long a group without members waits for others when the first
    one joins, so that a start of many is one rebalance."""
    max_size: int = 2_000
    """`group.max.size`: the most members of a group; at most `GroupLimits.members`."""
    offset_metadata_length: int = 4_096
    """`offset.metadata.max.bytes`: the longest text beside a committed offset, in characters, as in Kafka."""
    offsets_retention_ms: int = 7 * DAY_MS
    """`offsets.retention.ms`: how long unused committed offsets stay."""
    lag_series: int = LAG_SERIES
    """How many partitions of groups have metrics of their own, and as many of the partitions that the broker
    leads; 0: none."""
    topic_partitions: int = 50
    """`offsets.topic.num.partitions`: the partitions of the internal topic, when it is created. They stay as
    many, because they say where a group is."""
    consumer_session_ms: int = 45_000
    """`group.consumer.session.timeout.ms`: how long a member of the consumer protocol may be silent."""
    consumer_heartbeat_ms: int = 5_000
    """`group.consumer.heartbeat.interval.ms`: after how long it is to send its next heartbeat."""
    consumer_max_size: int = 2_000
    """`group.consumer.max.size`: the most members of a group of the consumer protocol; at most
    `GroupLimits.members`."""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """`group.consumer.assignors`: those that members may ask for; the first one is the usual one."""
    consumer_migration: Migration = Migration.BIDIRECTIONAL
    """`group.consumer.migration.policy`."""
    limits: GroupLimits = field(default_factory=GroupLimits)

    def __post_init__(self) -> None:
        if not 0 < self.min_session_ms <= self.max_session_ms:
            raise GroupSettingError(
                f"group.min.session.timeout.ms ({self.min_session_ms}) must be at least 1, and at most "
                f"group.max.session.timeout.ms ({self.max_session_ms})"
            )
        if self.initial_delay_ms < 0:
            raise GroupSettingError("group.initial.rebalance.delay.ms must be 0 or more")
        if not 0 < self.max_size <= self.limits.members:
            raise GroupSettingError(f"group.max.size must be between 1 and {self.limits.members}")
        if self.offset_metadata_length < 0:
            raise GroupSettingError("offset.metadata.max.bytes must be 0 or more")
        if self.offsets_retention_ms < 1:
            raise GroupSettingError("offsets.retention.ms must be at least 1")
        if not 0 <= self.lag_series <= MOST_LAG_SERIES:
            raise GroupSettingError(f"the series of lags must be between 0 and {MOST_LAG_SERIES}")
        if not 0 < self.topic_partitions <= MAX_PARTITIONS_OF_A_TOPIC:
            raise GroupSettingError(
                f"offsets.topic.num.partitions must be between 1 and {MAX_PARTITIONS_OF_A_TOPIC}"
            )
        self._check_consumers()

    def _check_consumers(self) -> None:
        if not 0 < self.consumer_heartbeat_ms < self.consumer_session_ms:
            raise GroupSettingError(
                f"group.consumer.heartbeat.interval.ms ({self.consumer_heartbeat_ms}) must be at least 1, "
                f"and below group.consumer.session.timeout.ms ({self.consumer_session_ms})"
            )
        if not 0 < self.consumer_max_size <= self.limits.members:
            raise GroupSettingError(f"group.consumer.max.size must be between 1 and {self.limits.members}")
        unknown = [name for name in self.consumer_assignors if name not in ASSIGNORS]
        if unknown or not self.consumer_assignors:
            raise GroupSettingError(f"group.consumer.assignors must be some of {', '.join(ASSIGNORS)}")
