"""The numbers that stand for a choice in Iggy's messages."""

from enum import IntEnum


class ConsumerKind(IntEnum):
    """Who reads."""

    CONSUMER = 1
    GROUP = 2


class PollingKind(IntEnum):
    """Where a poll begins."""

    OFFSET = 1
    TIMESTAMP = 2
    FIRST = 3
    LAST = 4
    NEXT = 5
    """Behind the stored offset."""


class PartitioningKind(IntEnum):
    """How the partition of a send is chosen."""

    BALANCED = 1
    PARTITION = 2
    KEY = 3


class HeaderKind(IntEnum):
    """The type of a user header's key or value. Numbers are little-endian."""

    RAW = 1
    STRING = 2
    BOOL = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    INT128 = 8
    UINT8 = 9
    UINT16 = 10
    UINT32 = 11
    UINT64 = 12
    UINT128 = 13
    FLOAT32 = 14
    FLOAT64 = 15


class ClientTransport(IntEnum):
    """How a client is connected."""

    TCP = 1
    QUIC = 2
    HTTP = 3
    WEBSOCKET = 4


class UserStatus(IntEnum):
    """Whether a user may log in."""

    ACTIVE = 1
    INACTIVE = 2


class TopicCompression(IntEnum):
    """What a topic says of its compression; it changes no byte."""

    NONE = 1
    GZIP = 2


class OptionScope(IntEnum):
    """What options belong to."""

    TOPIC = 1
    STREAM = 2
    USER = 3
