"""Checks a program's messages, and puts them into columns for a producer."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import index
from types import NoneType
from typing import Any

from tank_client import errors
from tank_client.model import HeadersToSend
from tank_client.producing.accumulator import InputColumns, as_bytes
from tank_client.producing.partition_queue import RecordHeaders

PORTION_MESSAGES = 1024
"""How many messages are read from a generator at once."""


def column_batches(
    values: Iterable[bytes | None],
    keys: Iterable[bytes | None] | None,
    timestamps_ms: Iterable[int] | int | None,
    headers: Iterable[HeadersToSend | None] | None = None,
) -> Iterator[InputColumns]:
    """The messages as columns: sequences as a whole, generators in portions. Raises InvalidArgument."""
    columns = (values, keys, timestamps_ms, headers)
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


def _checked(values: Any, keys: Any, timestamps_ms: Any, headers: Any = None) -> InputColumns:
    if not isinstance(values, Sequence):
        raise errors.InvalidArgument(f"values are many messages, not one {type(values).__name__}")
    count = len(values)
    contents = all_bytes(values)
    return InputColumns(
        contents,
        all_keys(keys, count),
        stamps_of(count, timestamps_ms),
        None if headers is None else all_headers(headers, count),
        None in contents,
    )


def all_bytes(values: Sequence[bytes | None]) -> list[bytes | None]:
    """The values, each of them bytes, or None for null."""
    if not _are_all(values, bytes):
        return [None if value is None else as_bytes(value) for value in values]
    return values if isinstance(values, list) else list(values)


def all_headers(headers: Sequence[HeadersToSend | None], messages: int) -> list[RecordHeaders] | None:
    """The headers of all messages; None when no message has some."""
    if len(headers) != messages:
        raise errors.InvalidArgument(f"{len(headers)} lists of headers for {messages} values")
    found = [record_headers(each) for each in headers]
    return found if any(found) else None


def record_headers(headers: HeadersToSend | None) -> RecordHeaders:
    """The headers of one message, as they are sent. Raises InvalidArgument for a name that is no text, and a
    value that is neither bytes nor None."""
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found: list[tuple[bytes, bytes | None]] = []
    try:
        for name, value in pairs:
            found.append(
                (name.encode("utf-8", "surrogateescape"), None if value is None else as_bytes(value))
            )
    except (AttributeError, TypeError, ValueError) as wrong:
        if isinstance(wrong, errors.InvalidArgument):
            raise
        raise errors.InvalidArgument(
            "headers are pairs of a name, which is text, and a value, which is bytes or None"
        ) from None
    return tuple(found)


def _are_all(column: Sequence[object], *types: type) -> bool:
    """Whether the exact type of each value is one of these. Counting takes less than half the time of a set
    of the types.
    """
    found = list(map(type, column))
    return sum(map(found.count, types)) == len(found)


def all_keys(keys: Sequence[bytes | None] | None, messages: int) -> list[bytes | None] | None:
    """The keys, each of them bytes or None; as many as there are messages."""
    if keys is None:
        return None
    if len(keys) != messages:
        raise errors.InvalidArgument(f"{len(keys)} keys for {messages} values")
    if not _are_all(keys, bytes, NoneType):
        keys = [None if key is None else as_bytes(key) for key in keys]
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
