"""The error codes on the wire: TANK's own, and those of Tank Cluster's messages from id 0x40 on."""

from enum import IntEnum


class ProduceError(IntEnum):
    """Result bytes of ProduceResponse (TANK ids 1 and 5)."""

    NONE = 0x00
    UNKNOWN_PARTITION = 0x01
    STORAGE = 0x02
    NOT_ACKNOWLEDGED_IN_TIME = 0x03
    NOT_ENOUGH_REPLICAS = 0x04
    SEQUENCE_NUMBER_NOT_ABOVE_END = 0x0A
    OTHER_LEADER = 0xFC
    NO_LEADER = 0xFD
    READ_ONLY = 0xFE
    UNKNOWN_TOPIC = 0xFF


class ConsumeFlag(IntEnum):
    """Flag bytes of a partition in ConsumeResponse."""

    DATA = 0x00
    OUT_OF_BOUNDS = 0x01
    RECORD_BATCHES = 0xFA
    NOT_OPENED = 0xFB
    OTHER_LEADER = 0xFC
    NO_LEADER = 0xFD
    SPARSE = 0xFE
    UNKNOWN_PARTITION = 0xFF


class CreateTopicError(IntEnum):
    """Error bytes of CreateTopicResponse (TANK id 7)."""

    NONE = 0
    EXISTS = 1
    SYSTEM = 2
    BAD_CONFIG = 4
    READ_ONLY = 5
    INVALID_REQUEST = 10


class ReloadConfError(IntEnum):
    """Error bytes of ReloadConfResponse (TANK id 8)."""

    NONE = 0
    NO_FILE = 2
    BAD_CONFIG = 3
    UNKNOWN_PARTITION = 10
    UNKNOWN_TOPIC = 11
    NOT_IN_CLUSTER_MODE = 12


class ErrorCode(IntEnum):
    """Error codes of Tank Cluster's own messages (ids from 0x40 on).

    An error that TANK has, too, has TANK's code.
    """

    NONE = 0x00
    UNKNOWN_PARTITION = 0x01
    STORAGE = 0x02
    NOT_ACKNOWLEDGED_IN_TIME = 0x03
    NOT_ENOUGH_REPLICAS = 0x04
    SEQUENCE_NUMBER_NOT_ABOVE_END = 0x0A
    INVALID_BUNDLE = 0x10
    OUT_OF_ORDER_SEQUENCE = 0x11
    STALE_PRODUCER_EPOCH = 0x12
    UNKNOWN_PRODUCER = 0x13
    TOO_LARGE = 0x14
    INVALID_REQUEST = 0x15
    TOPIC_EXISTS = 0x16
    INVALID_NAME = 0x17
    INVALID_SETTING = 0x18
    INVALID_PARTITIONS = 0x19
    INVALID_REPLICATION_FACTOR = 0x1A
    UNKNOWN_GROUP = 0x1B
    TIMED_OUT = 0x1C
    OVERLOADED = 0x1D
    DAMAGED = 0x1E
    STALE_EPOCH = 0x1F
    FENCED = 0x20
    NOT_ELECTABLE = 0x21
    UNKNOWN_BROKER = 0x22
    IN_USE = 0x23
    INELIGIBLE_REPLICA = 0x24
    LIMIT_REACHED = 0x25
    TOO_MANY_PRODUCERS = 0x26
    OTHER_FORMAT = 0x27
    UNKNOWN_MEMBER = 0x28
    FENCED_MEMBER_EPOCH = 0x29
    STALE_MEMBER_EPOCH = 0x2A
    UNRELEASED_INSTANCE = 0x2B
    FENCED_INSTANCE = 0x2C
    GROUP_NOT_EMPTY = 0x2D
    GROUP_FULL = 0x2E
    SUBSCRIBED = 0x2F
    REBALANCING = 0x30
    OTHER_GROUP_TYPE = 0x31
    UNSUPPORTED_ASSIGNOR = 0x32
    COORDINATOR_NOT_AVAILABLE = 0x33
    COORDINATOR_LOADING = 0x34
    LEVEL_TOO_LOW = 0x35
    UNKNOWN_STREAM = 0x36
    STREAM_EXISTS = 0x37
    NUMBER_TAKEN = 0x38
    GROUP_EXISTS = 0x39
    USER_EXISTS = 0x3C
    UNKNOWN_USER = 0x3D
    ROOT_USER = 0x3E
    TOKEN_EXISTS = 0x3F
    UNKNOWN_TOKEN = 0x40
    STALE_USER = 0x41
    NOTHING_ASSIGNED = 0x42
    OFFSET_ABOVE_END = 0x43
    OTHER_LEADER = 0xFC
    NO_LEADER = 0xFD
    READ_ONLY = 0xFE
    UNKNOWN_TOPIC = 0xFF


class PushError(IntEnum):
    """Error bytes of PushAnswer: why a follower did not take its leader's stretch."""

    NONE = 0x00
    UNKNOWN_PARTITION = 0x01
    """The follower's view doesn't have the topic id, or no replica of it on this broker; perhaps not yet."""
    STORAGE = 0x02
    """The follower's disk failed."""
    STALE_LEADER = 0x03
    """The follower knows a leader of a higher epoch."""
    NOT_READY = 0x04
    """The registration of the follower's broker is not committed, or its view doesn't have it yet."""
    DISAGREES = 0x05
    """The follower lacks the messages before the stretch; LogEnd and its epoch say where the logs may
    agree.
    """
    BAD_BATCH = 0x06
    """A batch or record of the stretch doesn't match its checksum, or is out of order."""
    DAMAGED = 0x07
    """The follower's log is damaged, and may be refilled only when it is out of sync."""
    DIVERGED = 0x08
    """The follower has different messages at or below its high-water mark, and has stopped."""


class TroubleKind(IntEnum):
    """What is wrong with a partition, in DescribeBrokerResponse (0x4c)."""

    FAILED = 1
    DAMAGED = 2
    NOT_OPENED = 3
    HANGS = 4
    UNKNOWN_EPOCH = 5


class GroupStateCode(IntEnum):
    """A consumer group's state, in ListGroupsResponse and DescribeGroupsResponse."""

    DEAD = 0
    EMPTY = 1
    PREPARING_REBALANCE = 2
    COMPLETING_REBALANCE = 3
    STABLE = 4
    ASSIGNING = 5
    RECONCILING = 6


class ConnectionProtocol(IntEnum):
    """The protocol of a client's connection, in DescribeConnectionsResponse."""

    TANK = 1
    KAFKA = 2
    IGGY = 3
