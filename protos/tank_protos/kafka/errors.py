"""The reasons for which records in Kafka's formats are refused, as Kafka's error codes."""

from enum import IntEnum
from typing import ClassVar

from tank_protos.wire.errors import WireError


class RecordsFault(IntEnum):
    """The reason for a refusal; the values are Kafka's error codes. Clients repeat a batch that is CORRUPT,
    and give up one with another fault."""

    CORRUPT = 2
    """A length or a checksum doesn't match: the bytes changed on their way."""
    TOO_LARGE = 10
    """The batch is larger than its topic allows, or unpacks to more than the limits allow. Some clients split
    it and try again."""
    INVALID_TIMESTAMP = 32
    """The timestamp is too far ahead, or the format cannot hold it, or its type is one that only brokers
    set."""
    UNSUPPORTED_CODEC = 76
    """The format has no compression codec of this number."""
    INVALID_RECORD = 87
    """All other faults: the bytes are as the client sent them, and they are wrong."""


class InvalidRecords(WireError):
    """A batch, a message set or a record cannot be accepted, read or converted."""

    reason: ClassVar[str] = "invalid_records"

    def __init__(self, fault: RecordsFault, sentence: str, index: int | None = None) -> None:
        super().__init__(sentence)
        self.fault = fault
        self.index = index
        """The record's place in its batch, from 0; None if the batch as a whole is wrong."""


def invalid(sentence: str, index: int | None = None) -> InvalidRecords:
    """Returns the error for INVALID_RECORD."""
    return InvalidRecords(RecordsFault.INVALID_RECORD, sentence, index)


def corrupt(sentence: str) -> InvalidRecords:
    """Returns the error for CORRUPT."""
    return InvalidRecords(RecordsFault.CORRUPT, sentence)


def too_large(sentence: str) -> InvalidRecords:
    """Returns the error for TOO_LARGE."""
    return InvalidRecords(RecordsFault.TOO_LARGE, sentence)
