"""Messages as text, JSON lines, hex or by a template. `Renderer`s are pure: columns of a batch in, bytes
out.
"""

import base64
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import OBEYED, safe_text, time_text
from tank_cli.shell.nearest import did_you_mean

if TYPE_CHECKING:
    from tank_client.model import Headers

HEX_BYTES_A_LINE = 16
NO_TIME = -1  # of records of Kafka's clients that set none
FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
OBEYED_IN_JSON = re.compile(OBEYED.pattern.replace("\x0a-", "\x0b-", 1))  # without line ends
ESCAPES = {r"\n": "\n", r"\t": "\t", r"\0": "\0", r"\r": "\r", r"\\": "\\"}


@dataclass(slots=True, frozen=True)
class MessageColumns:
    """A run of messages of one partition: columns of the same length."""

    topic: str
    partition: int
    numbers: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence["Headers"] | None = None
    """None: no message has any."""

    def headers_of(self, row: int) -> "Headers":
        """The headers of one message."""
        return () if self.headers is None else self.headers[row]


class Renderer(Protocol):
    """Columns as the bytes to write."""

    def __call__(self, columns: MessageColumns) -> bytes: ...


def text_renderer(*, for_terminal: bool, key_separator: str | None) -> Renderer:
    """One value per line; with `key_separator`, the key and this text before it. Raw bytes, escaped for a
    terminal. Null looks as empty does.
    """
    if for_terminal:
        separator = key_separator

        def safe(columns: MessageColumns) -> bytes:
            lines = [safe_text(value or b"") for value in columns.values]
            if separator is not None:
                pairs = zip(columns.keys, lines, strict=True)
                lines = [f"{safe_text(key or b'')}{separator}{line}" for key, line in pairs]
            return ("\n".join(lines) + "\n").encode()

        return safe
    raw_separator = None if key_separator is None else key_separator.encode()

    def raw(columns: MessageColumns) -> bytes:
        values = [value or b"" for value in columns.values]
        if raw_separator is not None:
            pairs = zip(columns.keys, values, strict=True)
            values = [b"%b%b%b" % (key or b"", raw_separator, value) for key, value in pairs]
        return b"\n".join(values) + b"\n"

    return raw


def json_renderer(*, for_terminal: bool) -> Renderer:
    """`json_lines`; for a terminal, control characters are written as JSON escapes."""

    def safe(columns: MessageColumns) -> bytes:
        lines = json_lines(columns).decode()
        return OBEYED_IN_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", lines).encode()

    return safe if for_terminal else json_lines


def json_lines(columns: MessageColumns) -> bytes:
    """A JSON object a line. Key and value as strings where they are UTF-8, else as `key_base64`,
    `value_base64`; null where they are null, as is a time that was never set. A message without headers has
    no such field.
    """
    lines = []
    head = {"topic": columns.topic, "partition": columns.partition}
    rows = zip(columns.numbers, columns.timestamps_ms, columns.keys, columns.values, strict=True)
    for row, (number, timestamp_ms, key, value) in enumerate(rows):
        headers = columns.headers_of(row)
        body: dict[str, object] = {
            **head,
            "number": number,
            "timestamp_ms": None if timestamp_ms == NO_TIME else timestamp_ms,
            **json_content("key", key),
            **json_content("value", value),
        }
        if headers:
            body["headers"] = [
                {**json_content("key", as_sent(name)), **json_content("value", content)}
                for name, content in headers
            ]
        lines.append(json.dumps(body, ensure_ascii=False))
    return ("\n".join(lines) + "\n").encode()


def json_content(name: str, content: bytes | None) -> dict[str, str | None]:
    """`{name: text}` for UTF-8 and for nothing (null), `{name_base64: …}` for other bytes."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def as_sent(name: str) -> bytes:
    """A header's name as the bytes that were sent."""
    return name.encode("utf-8", "surrogateescape")


def render_hex(columns: MessageColumns) -> bytes:
    """A line about each message, then its value in rows of sixteen bytes."""
    lines = []
    rows = zip(columns.numbers, columns.timestamps_ms, columns.keys, columns.values, strict=True)
    for row, (number, timestamp_ms, key, value) in enumerate(rows):
        shown_key = "" if key is None else f" key={safe_text(key)}"
        place = f"{columns.topic}/{columns.partition} {number}"
        size = "null" if value is None else f"{len(value)} bytes"
        lines.append(f"{place} {time_text(timestamp_ms)}{shown_key} {size}")
        lines += [f"header {header_text(*header)}" for header in columns.headers_of(row)]
        lines += hex_rows(value or b"")
    return ("\n".join(lines) + "\n").encode()


def header_text(name: str, content: bytes | None) -> str:
    """`name=value`, or the name alone for a header with the value null."""
    return safe_text(as_sent(name)) + ("" if content is None else f"={safe_text(content)}")


def header_bytes(name: str, content: bytes | None) -> bytes:
    """As `header_text`, as the bytes that were sent."""
    return as_sent(name) + (b"" if content is None else b"=" + content)


def hex_rows(content: bytes) -> list[str]:
    """`00000000  68 65 6c 6c 6f …  hello`, sixteen bytes a row."""
    rows = []
    for start in range(0, len(content), HEX_BYTES_A_LINE):
        part = content[start : start + HEX_BYTES_A_LINE]
        left, right = part[:8].hex(" "), part[8:].hex(" ")
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        rows.append(f"{start:08x}  {left:<23}  {right:<23}  {letters}")
    return rows


Field = Callable[[MessageColumns, int], bytes]
FIELDS: dict[str, Field] = {
    "topic": lambda columns, row: columns.topic.encode(),
    "partition": lambda columns, row: b"%d" % columns.partition,
    "number": lambda columns, row: b"%d" % columns.numbers[row],
    "timestamp_ms": lambda columns, row: b"%d" % columns.timestamps_ms[row],
    "time": lambda columns, row: time_text(columns.timestamps_ms[row]).encode(),
    "key": lambda columns, row: columns.keys[row] or b"",
    "key_hex": lambda columns, row: (columns.keys[row] or b"").hex().encode(),
    "value": lambda columns, row: columns.values[row] or b"",
    "value_hex": lambda columns, row: (columns.values[row] or b"").hex().encode(),
    "size": lambda columns, row: b"%d" % len(columns.values[row] or b""),
    "headers": lambda columns, row: b",".join(header_bytes(*each) for each in columns.headers_of(row)),
}
"""The names that a template may have in braces."""


def template_renderer(template: str, *, for_terminal: bool) -> Renderer:
    r"""A line a message, as in '{partition}:{number} {key} {value}'. \n, \t, \r, \0 and \\ mean what they
    mean in C.
    """
    pieces = parse_template(template)

    def render(columns: MessageColumns) -> bytes:
        rows = []
        for row in range(len(columns.values)):
            parts = [piece if isinstance(piece, bytes) else piece(columns, row) for piece in pieces]
            if for_terminal:
                parts = [
                    part if isinstance(piece, bytes) else safe_text(part).encode()
                    for piece, part in zip(pieces, parts, strict=True)
                ]
            rows.append(b"".join(parts) + b"\n")
        return b"".join(rows)

    return render


def parse_template(template: str) -> list[bytes | Field]:
    """Literal pieces and fields, in order. Raises a usage error for an unknown field, which names the nearest
    one.
    """
    template = re.sub(r"\\[nt0r\\]", lambda found: ESCAPES[found.group()], template)
    pieces: list[bytes | Field] = []
    end = 0
    for found in FIELD.finditer(template):
        pieces.append(template[end : found.start()].encode())
        end = found.end()
        sign, name = found.group(), found.group(1)
        if sign in ("{{", "}}"):
            pieces.append(sign[:1].encode())
        elif name is None:
            place = found.start() + 1
            message = f"The template has a lone {sign!r} at character {place}; write {sign * 2} for the sign."
            raise CliError(message, ExitCode.USAGE)
        elif name not in FIELDS:
            guess = did_you_mean(name, FIELDS)
            message = (
                f"The template names {name!r}, which is no field.{guess} There are: {', '.join(FIELDS)}."
            )
            raise CliError(message, ExitCode.USAGE)
        else:
            pieces.append(FIELDS[name])
    pieces.append(template[end:].encode())
    return [piece for piece in pieces if piece != b""]
