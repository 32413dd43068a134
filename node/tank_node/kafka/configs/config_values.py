"""How values of configs are read and shown: Kafka's texts on one side, those of our settings on the other.

A function that reads takes Kafka's value, and returns the setting's; it raises ValueError with what to write.
A function that shows takes the setting's value as `TopicSettings.describe` gives it, and returns Kafka's.
"""

import re
from collections.abc import Callable
from typing import Final

from tank_protos.topic_settings import CleanupPolicy, parse_duration_ms

UNLIMITED: Final = 2**63 - 1
"""Kafka's value of a limit that is not set, where -1 is none."""
_NEVER: Final = 2**53
"""A time or size from this on is a limit that is not set: settings stay below it."""
_INT_MAX: Final = 2**31 - 1
_COMPRESSIONS: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
"""Kafka's other values of compression.type."""


def whole(text: str, least: int, most: int = UNLIMITED) -> int:
    """A whole number within these bounds. Raises ValueError."""
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or not least <= int(text) <= most:
        raise ValueError(f"write a whole number from {least} to {most}")
    return int(text)


def long_from(least: int) -> Callable[[str], str]:
    """Returns what reads a whole number from `least` on, of 64 bits."""

    def read(text: str) -> str:
        return str(min(whole(text, least), _NEVER - 1))

    return read


def int_from(least: int) -> Callable[[str], str]:
    """Returns what reads a whole number from `least` on, of 32 bits."""

    def read(text: str) -> str:
        return str(whole(text, least, _INT_MAX))

    return read


def read_ms(text: str) -> str:
    """Reads a time in milliseconds."""
    return f"{min(whole(text, 0), _NEVER - 1)}ms"


def show_ms(value: str) -> str:
    """Shows a time in milliseconds."""
    return str(parse_duration_ms(value))


def read_keeping_ms(text: str) -> str:
    """Reads how long something is kept; -1: for ever."""
    amount = whole(text, -1)
    # To Kafka 0 means that nothing is kept, and to us that everything is.
    return "0" if amount < 0 or amount >= _NEVER else f"{max(amount, 1)}ms"


def show_keeping_ms(value: str) -> str:
    """Shows how long something is kept; -1: for ever."""
    return str(parse_duration_ms(value) or -1)


def read_keeping_bytes(text: str) -> str:
    """Reads how much is kept; -1: all."""
    amount = whole(text, -1)
    return "0" if amount < 0 or amount >= _NEVER else str(max(amount, 1))


def show_keeping_bytes(value: str) -> str:
    """Shows how much is kept; -1: all."""
    return "-1" if value == "0" else value


def read_interval_ms(text: str) -> str:
    """Reads an interval; UNLIMITED, or any that no clock would reach: none."""
    amount = whole(text, 0)
    return "0" if amount >= _NEVER else f"{max(amount, 1)}ms"


def show_interval_ms(value: str) -> str:
    """Shows an interval; UNLIMITED: none."""
    return str(parse_duration_ms(value) or UNLIMITED)


def read_interval_messages(text: str) -> str:
    """Reads an interval in messages; UNLIMITED, or any that is as good: none."""
    amount = whole(text, 1)
    return "0" if amount >= 10**15 else str(amount)


def show_interval_messages(value: str) -> str:
    """Shows an interval in messages; UNLIMITED: none."""
    return str(UNLIMITED) if value == "0" else value


def read_bound_ms(text: str) -> str:
    """Reads how far times may be off, in milliseconds; UNLIMITED: as far as can be."""
    amount = whole(text, 0)
    return str(UNLIMITED if amount >= _NEVER else amount)


def read_flag(text: str) -> str:
    """Reads true or false."""
    if text.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.lower()


def read_ratio(text: str) -> str:
    """Reads a share, from 0 to 1."""
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ValueError("write a number between 0 and 1, such as 0.5")
    return f"{ratio:.9f}".rstrip("0").rstrip(".")


def list_of(text: str) -> list[str]:
    """The elements of a list's value, each once, in order."""
    return list(dict.fromkeys(part for part in (each.strip() for each in text.split(",")) if part))


def read_cleanup(text: str) -> str:
    """Reads the cleanup policy, a list."""
    policies = list_of(text.lower())
    if policies == ["delete"]:
        return CleanupPolicy.DELETE
    if policies == ["compact"]:
        return CleanupPolicy.CLEANUP
    if sorted(policies) == ["compact", "delete"]:
        return CleanupPolicy.BOTH
    raise ValueError("write delete, compact, or both")


def show_cleanup(value: str) -> str:
    """Shows the cleanup policy."""
    return value.replace(CleanupPolicy.CLEANUP, "compact")


def read_compression(text: str) -> str:
    """Reads compression.type. Batches are stored as they came, so that the codecs are refused: a topic that
    shows one and stores another could have readers that can't unpack it, or fill a disk."""
    if text == "producer":
        return text
    if text in _COMPRESSIONS:
        raise ValueError(
            "brokers store batches as producers compressed them, and compress none anew: leave it out or "
            "write producer, and set compression.type of the producers"
        )
    raise ValueError("write producer")


def as_it_is(text: str) -> str:
    """Reads a text that both sides write alike."""
    return text
