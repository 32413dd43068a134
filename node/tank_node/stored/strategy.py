"""What a read of stored batches begins with."""

from enum import IntEnum


class StoredStrategy(IntEnum):
    """A strategy, as FetchStoredRequest (86) has it."""

    NUMBER = 1
    """The message of this number, or the first one above it that can be read; 0: the first of all. A consumer
    that goes on asks by its position."""
    TIME = 2
    """The first message that was appended at or after a time, in microseconds since 1970."""
    FIRST = 3
    """The first message that can be read."""
    LAST = 4
    """The newest messages, as many as are wanted."""
