"""The records that every producer sends, as the programs in Python make them and `matrix` wants them back.

README.md says the rule.
"""

from typing import NamedTuple

ALL_BYTES = bytes(range(256))


class Sent(NamedTuple):
    """What a producer sends."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def record(name: str, number: int, kind: str) -> Sent:
    """Record `number` of a producer. kind: as in README.md."""
    text = f"{name}-{number}".encode()
    has_key = number % 3 != 2
    key = text if has_key else None
    value: bytes | None = b"" if number % 11 == 10 else text + b"-" + ALL_BYTES
    if kind == "plain":
        return Sent(key, value, [])
    if has_key and number % 10 == 9:
        key = b""
    if has_key and number % 7 == 6:
        value = None
    headers: list[tuple[str, bytes | None]] = [("h", str(number).encode()), ("h", b"\xff\x00")]
    if kind == "all":
        headers.append(("null", None))
    return Sent(key, value, headers)


def printed(
    offset: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> list[object]:
    """A record as `consume` prints it."""
    return [offset, _hex(key), _hex(value), [[each, _hex(content)] for each, content in headers]]


def _hex(content: bytes | None) -> str | None:
    return None if content is None else content.hex()
