"""Checks a program's messages, and puts them into columns for a producer."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import index
from types import NoneType
from typing import Any

from tank_client import errors
from tank_client.producing.accumulator import InputColumns, as_bytes

PORTION_MESSAGES = 1024
"""How many messages are read from a generator at once."""


def column_batches(
    values: Iterable[bytes],
    keys: Iterable[bytes | None] | None,
    timestamps_ms: Iterable[int] | int | None,
) -> Iterator[InputColumns]:
    """The messages as columns: sequences as a whole, generators in portions. Raises InvalidArgument."""
    columns = (values, keys, timestamps_ms)
    if all(isinstance(column, Sequence) or not isinstance(column, Iterable) for column in columns):
        yield _checked(*columns)
        return
    takers = [_taker(column) for column in columns]
    while True:
        portion = [take() for take in takers]
        if not any(isinstance(column, list) and column for column in portion):
            return
        yield _checked(*portion)


def _taker(column: Any) -> Callable[[], Any]:
    """Returns a function that gives the next portion of a column, or the one value that all messages
    share.
    """
    if not isinstance(column, Iterable):
        return lambda: column
    rest = iter(column)
    return lambda: list(islice(rest, PORTION_MESSAGES))


def _checked(values: Any, keys: Any, timestamps_ms: Any) -> InputColumns:
    if not isinstance(values, Sequence):
        raise errors.InvalidArgument(f"values are many messages, not one {type(values).__name__}")
    count = len(values)
    return InputColumns(all_bytes(values), all_keys(keys, count), stamps_of(count, timestamps_ms))


def all_bytes(values: Sequence[bytes]) -> list[bytes]:
    """The values, each of them bytes."""
    if not _are_all(values, bytes):
        return [as_bytes(value) for value in values]
    return values if isinstance(values, list) else list(values)


def _are_all(column: Sequence[object], *types: type) -> bool:
    """Whether the exact type of each value is one of these. Counting takes less than half the time of a set
    of the types.
    """
    found = list(map(type, column))
    return sum(map(found.count, types)) == len(found)


def all_keys(keys: Sequence[bytes | None] | None, messages: int) -> list[bytes | None] | None:
    """The keys, each of them bytes of at most 255, or None; as many as there are messages."""
    if keys is None:
        return None
    if len(keys) != messages:
        raise errors.InvalidArgument(f"{len(keys)} keys for {messages} values")
    if not _are_all(keys, bytes, NoneType):
        keys = [None if key is None else as_bytes(key) for key in keys]
    if any(length > 255 for length in map(len, filter(None, keys))):
        raise errors.InvalidArgument("a key has at most 255 bytes")
    return keys if isinstance(keys, list) else list(keys)


def stamps_of(messages: int, timestamps_ms: Sequence[int] | int | None) -> list[int]:
    """A timestamp for each message: the given ones, the one given for all, or now."""
    if timestamps_ms is None:
        return [int(time.time() * 1000)] * messages
    given = timestamps_ms if isinstance(timestamps_ms, Sequence) else [timestamps_ms]
    try:
        stamps = list(given) if _are_all(given, int) else [index(stamp) for stamp in given]
    except TypeError:
        raise errors.InvalidArgument("a timestamp is a whole number of milliseconds of the epoch") from None
    if stamps and not 0 <= min(stamps) <= max(stamps) < 1 << 64:
        raise errors.InvalidArgument("a timestamp is milliseconds from 0 to 2^64 - 1")
    if not isinstance(timestamps_ms, Sequence):
        return stamps * messages
    if len(stamps) != messages:
        raise errors.InvalidArgument(f"{len(stamps)} timestamps for {messages} values")
    return stamps
