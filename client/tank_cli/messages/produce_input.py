"""The input of `tank produce`: lines, JSON lines, messages as `consume` prints them, or whole files.

Messages are handed on as they arrive, so that a slow pipe has no delay and a fast one large batches.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from tank_cli.shell.exit_codes import CliError
from tank_cli.shell.figures import bytes_text

READ_BYTES = 256 << 10
MAX_MESSAGE_BYTES = 64 << 20  # a longer line or file is taken for a mistake; the broker's own limit is lower
MAX_KEY_BYTES = 255  # the key's length has one byte in a bundle
Headers = tuple[tuple[str, bytes | None], ...]
"""A message's headers: names and values."""


@dataclass(slots=True)
class Records:
    """A run of messages to send, as columns of the same length. `partition` None: the partitioner chooses."""

    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    timestamps_ms: list[int | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    partition: int | None = None


@dataclass(slots=True, frozen=True)
class InputMessage:
    """One message to send; None: the input doesn't give the field, or it is null."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int | None = None
    partition: int | None = None
    headers: Headers = ()


Parser = Callable[[bytes], InputMessage]


class InputSource(Protocol):
    """An open file or pipe: `io.BufferedReader`, `io.BytesIO`."""

    def read1(self, size: int, /) -> bytes:
        """Returns the bytes that are there, at most `size`; waits only when there are none; empty at the
        end."""
        ...


def line_runs(source: InputSource, name: str) -> Iterator[list[bytes]]:
    """Yields the lines of a file or pipe without their ends, in runs of lines that have arrived. A last line
    without an end counts.
    """
    unfinished: list[bytes] = []  # pieces of the last line: joined once, so that a long line costs its length
    size = 0
    while piece := source.read1(READ_BYTES):
        lines = piece.split(b"\n")
        if len(lines) > 1:
            lines[0] = b"".join([*unfinished, lines[0]])
            unfinished, size = [], 0
        last = lines.pop()
        unfinished.append(last)
        size += len(last)
        if size > MAX_MESSAGE_BYTES:
            limit = bytes_text(MAX_MESSAGE_BYTES)
            raise CliError(f"{name} has a line of more than {limit}, too large for one message.")
        if lines:
            yield lines
    if size:
        yield [b"".join(unfinished)]


def line_parser(key: bytes | None, key_separator: str | None) -> Parser:
    """A line is a value; with a separator, a key and a value."""
    if key_separator is None:
        return lambda line: InputMessage(line, key)
    separator = key_separator.encode()

    def parse(line: bytes) -> InputMessage:
        found, parted, value = line.partition(separator)
        if not parted:
            raise ValueError(f"it has no {key_separator!r} between key and value")
        return InputMessage(value, found or None)

    return parse


def json_parser(key: bytes | None, key_field: str | None, timestamp_field: str | None) -> Parser:
    """A line is a JSON object and, as it stands, the value; key and time are taken from its fields."""

    def parse(line: bytes) -> InputMessage:
        body = json_object(line)
        found = key
        if key_field is not None:
            if key_field not in body:
                raise ValueError(f"it has no field {key_field!r} for the key")
            found = scalar_bytes(body[key_field])
        timestamp_ms = None
        if timestamp_field is not None:
            if timestamp_field not in body:
                raise ValueError(f"it has no field {timestamp_field!r} for the time")
            timestamp_ms = time_of(body[timestamp_field])
        return InputMessage(line, found, timestamp_ms)

    return parse


def parse_message(line: bytes) -> InputMessage:
    """A line as `tank consume --format json` prints it: key, value, timestamp_ms, partition and headers, all
    but value optional. The value may be null, for topics of Kafka's format.
    """
    body = json_object(line)
    value = content_of(body, "value")
    if value is None and "value" not in body:
        raise ValueError("it has neither 'value' nor 'value_base64'")
    return InputMessage(
        value,
        content_of(body, "key"),
        number_of(body, "timestamp_ms"),
        number_of(body, "partition"),
        headers_in(body),
    )


def headers_in(body: dict[str, object]) -> Headers:
    """The headers, as `tank consume --format json` prints them: a list of objects with `key` and `value`."""
    found = body.get("headers")
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("its 'headers' is no list of objects with 'key' and 'value'")
    headers = []
    for each in found:
        name = content_of(each, "key")
        if name is None:
            raise ValueError("one of its 'headers' has no 'key'")
        headers.append((name.decode("utf-8", "surrogateescape"), content_of(each, "value")))
    return tuple(headers)


def header_option(text: str) -> tuple[str, bytes | None]:
    """A header from the command line, `NAME=VALUE`. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"--header wants NAME=VALUE, not {text!r}")
    return name, value.encode("utf-8", "surrogateescape")


def number_of(body: dict[str, object], name: str) -> int | None:
    """A number that is not negative; None where there is none."""
    number = body.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"its {name!r} is no number")
    return number


def content_of(body: dict[str, object], name: str) -> bytes | None:
    """A key or value: text, or bytes in base64; other JSON as its text."""
    encoded = body.get(f"{name}_base64")
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise ValueError(f"its '{name}_base64' is not base64") from None
    found = body.get(name)
    return None if found is None else scalar_bytes(found)


def json_object(line: bytes) -> dict[str, object]:
    """Reads a line as a JSON object. Raises ValueError when it is none."""
    try:
        body = json.loads(line)
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(body, dict):
        raise ValueError("it is JSON, but not an object")
    return body


def scalar_bytes(found: object) -> bytes | None:
    """A field as a key: text as it is, null as no key, anything else as its JSON."""
    if found is None:
        return None
    return found.encode() if isinstance(found, str) else json.dumps(found, separators=(",", ":")).encode()


def time_of(found: object) -> int:
    """Milliseconds of the epoch, or ISO 8601 (UTC where it has no zone)."""
    if isinstance(found, int | float) and not isinstance(found, bool) and found >= 0:
        return int(found)
    if isinstance(found, str):
        try:
            moment = datetime.fromisoformat(found)
        except ValueError:
            raise ValueError(f"its time {found!r} is neither ISO 8601 nor milliseconds") from None
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    raise ValueError("its time is neither ISO 8601 nor milliseconds")


def parsed_runs(
    source: InputSource, name: str, parse: Parser, longest_key: int | None = MAX_KEY_BYTES
) -> Iterator[list[InputMessage]]:
    """The records of a file's lines. A line that can't be parsed is an error that says which, after the
    records before it. `longest_key`: a line with a longer key is one, too; None: any fits."""
    seen = 0
    for lines in line_runs(source, name):
        records: list[InputMessage] = []
        for line in lines:
            seen += 1
            try:
                record = parse(line)
                if longest_key is not None and len(record.key or b"") > longest_key:
                    length = len(record.key or b"")
                    raise ValueError(f"its key has {length} bytes, and {longest_key} is the most")
            except ValueError as error:
                yield records
                raise CliError(f"{name}, line {seen}: {error}; the lines before it were sent.") from error
            records.append(record)
        yield records


def file_record(source: InputSource, name: str, key: bytes | None) -> InputMessage:
    """A whole file as one message."""
    pieces, size = [], 0
    while piece := source.read1(READ_BYTES):
        size += len(piece)
        if size > MAX_MESSAGE_BYTES:
            raise CliError(
                f"{name} is larger than {bytes_text(MAX_MESSAGE_BYTES)}: too large for one message."
            )
        pieces.append(piece)
    return InputMessage(b"".join(pieces), key)


def grouped(records: list[InputMessage], partition: int | None) -> list[Records]:
    """Records as columns, one run a partition; the order within a partition stays. `partition`: the partition
    for all records, in place of their own.
    """
    runs: dict[int | None, Records] = {}
    for record in records:
        wanted = record.partition if partition is None else partition
        run = runs.get(wanted)
        if run is None:
            run = runs[wanted] = Records(partition=wanted)
        run.values.append(record.value)
        run.keys.append(record.key)
        run.timestamps_ms.append(record.timestamp_ms)
        run.headers.append(record.headers)
    return list(runs.values())
