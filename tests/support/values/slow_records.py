"""A reader of Kafka's records and message sets, byte by byte, with no eye for speed.

It shares nothing with `tank_protos.kafka`: a second opinion on what the fast ones read and refuse.
"""

from __future__ import annotations

import zlib

Content = bytes | None
Row = tuple[Content, Content, int, int, tuple[tuple[bytes, Content], ...]]
"""Key, value, offset delta, timestamp delta, headers."""
OldRow = tuple[int, int, Content, Content]
"""Offset, timestamp (-1: none), key, value."""


class Bad(Exception):
    """The bytes are not what they should be."""


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise Bad("ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self, bits: int) -> int:
        raw = 0
        for group in range((bits + 6) // 7):
            byte = self.take(1)[0]
            raw += byte % 128 << 7 * group
            if byte < 128:
                if raw >= 1 << bits:
                    raise Bad("too many bits")
                return raw // 2 if raw % 2 == 0 else -(raw // 2) - 1
        raise Bad("too many bytes")

    def content(self) -> Content:
        length = self.varint(32)
        return None if length == -1 else self.take(length)

    def old_content(self) -> Content:
        length = self.number(4)
        return None if length == -1 else self.take(length)


def slow_records(payload: bytes, count: int) -> list[Row]:
    """The records of an unpacked batch. Raises Bad."""
    reader, rows = _Bytes(payload), []
    if count < 0:
        raise Bad("a count below 0")
    for _ in range(count):
        record = _Bytes(reader.take(reader.varint(32)))
        record.take(1)
        timestamp, offset = record.varint(64), record.varint(32)
        key, value = record.content(), record.content()
        headers = []
        number = record.varint(32)
        if number < 0:
            raise Bad("headers below 0")
        for _ in range(number):
            name = record.content()
            if name is None:
                raise Bad("a header without a key")
            headers.append((name, record.content()))
        if record.left:
            raise Bad("a record that is longer than its parts")
        rows.append((key, value, offset, timestamp, tuple(headers)))
    if reader.left:
        raise Bad("bytes behind the records")
    return rows


def slow_set(data: bytes) -> list[OldRow]:
    """The messages of a set in which nothing is compressed. Raises Bad."""
    reader, rows = _Bytes(data), []
    while reader.left:
        offset = reader.number(8)
        message = _Bytes(reader.take(reader.number(4)))
        crc = message.number(4)
        if crc % 2**32 != zlib.crc32(message.data[4:]):
            raise Bad("checksum")
        magic, attributes = message.number(1), message.number(1)
        if magic not in (0, 1) or attributes % 8:
            raise Bad("magic, or compressed")
        timestamp = message.number(8) if magic else -1
        key, value = message.old_content(), message.old_content()
        if message.left:
            raise Bad("bytes behind the value")
        rows.append((offset, timestamp, key, value))
    return rows
