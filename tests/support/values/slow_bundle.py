"""A slow bundle decoder, written from `docs/protocol/bundle.md`, byte by byte.

It shares nothing with `tank_protos.bundle` but cramjam, so that tests can compare the two.
"""

from __future__ import annotations

import cramjam

Row = tuple[int, int, bytes | None, bytes]


class Bad(Exception):
    """The bytes are no bundle."""


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise Bad("ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def varint(self) -> int:
        value = 0
        for group in range(5):
            byte = self.number(1)
            value += byte % 128 << 7 * group
            if byte < 128:
                if value >= 2**32:
                    raise Bad("over 32 bits")
                return value
        raise Bad("over five bytes")


def slow_decode(bundle: bytes, base: int) -> list[Row]:
    """(number, timestamp, key, content) of each message. Raises Bad."""
    reader = _Bytes(bundle)
    flags = reader.number(1)
    codec, count, sparse, reserved = flags % 4, flags // 4 % 16, flags // 64 % 2, flags // 128
    if reserved or codec > 1:
        raise Bad("flags")
    if count == 0:
        count = reader.varint()
    first, last = base, base + count - 1
    if sparse:
        first = last = reader.number(8)
        if count > 1:
            last = first + reader.varint() + 1
        if first == 0 or last > 2**63 - 2 or last - first + 1 < count:
            raise Bad("numbers")
    if count == 0:
        raise Bad("no messages")
    if codec == 1:
        packed = reader.take(len(bundle) - reader.at)
        if _Bytes(packed).varint() > 22 * len(packed):
            raise Bad("promises too much")
        try:
            reader = _Bytes(bytes(cramjam.snappy.decompress_raw(packed)))
        except cramjam.DecompressionError as error:
            raise Bad("snappy") from error
    rows: list[Row] = []
    for index in range(count):
        rows.append(_message(reader, rows, index, count, (first, last) if sparse else None, base))
    if reader.at != len(reader.data) or (sparse and rows[-1][0] != last):
        raise Bad("end")
    return rows


def _message(
    reader: _Bytes, rows: list[Row], index: int, count: int, span: tuple[int, int] | None, base: int
) -> Row:
    flags = reader.number(1)
    if flags > 7:
        raise Bad("message flags")
    number = base + index
    if span is not None:
        number = rows[-1][0] + 1 if rows else span[0]
        if rows and not flags & 4:
            if index == count - 1:
                number = max(span[1], number)
            else:
                number += reader.varint()
    if flags & 2 and not rows:
        raise Bad("no timestamp")
    timestamp = rows[-1][1] if flags & 2 else reader.number(8)
    key = reader.take(reader.number(1)) if flags & 1 else b""
    return number, timestamp, key or None, reader.take(reader.varint())
