"""The reasons why a partition refuses an append or a read. Each protocol has a table of its own answers for
them."""

from enum import IntEnum


class Refusal(IntEnum):
    """A reason; only NONE is false."""

    NONE = 0
    UNKNOWN_TOPIC = 1
    UNKNOWN_PARTITION = 2
    OTHER_LEADER = 3
    """Another broker leads."""
    NO_LEADER = 4
    """No broker leads, as far as this broker knows."""
    NOT_ENOUGH_REPLICAS = 5
    """Fewer replicas are in sync than the topic demands."""
    NOT_ACKNOWLEDGED_IN_TIME = 6
    """The batch was written; whether it will be committed is not known."""
    STORAGE = 7
    """The disk refused a read or a write."""
    DAMAGED = 8
    """Stored batches are missing or wrong."""
    INVALID_BATCH = 9
    TOO_LARGE = 10
    NUMBER_TAKEN = 11
    """The batch has own numbers that are not above the log's end."""
    OUT_OF_ORDER_SEQUENCE = 12
    """Batches of the producer before this one are missing."""
    STALE_PRODUCER_EPOCH = 13
    UNKNOWN_PRODUCER = 14
    """The producer has stored nothing here, and this is not its first batch."""
    TOO_MANY_PRODUCERS = 15
    FORGOTTEN_PRODUCER = 16
    """As UNKNOWN_PRODUCER, but the producer may have stored batches that are not remembered."""
    OTHER_FORMAT = 17
    """The topic stores batches of another format, and the client asked that they not be converted."""
    INTERNAL_TOPIC = 18
    """Brokers keep their own records in the topic: no client writes it."""
