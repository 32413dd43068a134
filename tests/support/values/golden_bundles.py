"""The bundles inside the captured frames in `tests/golden/tank`, cut out by hand.

Written against the wire reference and not against the generated codecs, so that it is a second opinion.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[2] / "golden" / "tank"

PRODUCE, CONSUME, PRODUCE_WITH_NUMBER = 1, 2, 5
# Captures that are broken or refused on purpose, or that hold only part of a frame.
NOT_WHOLE = {"oversize.req", "truncated_consume.req"}


class Stretch(NamedTuple):
    """Batches (`varint length, bundle`) of one partition, as they were captured."""

    name: str
    base: int
    data: bytes


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def text(self) -> str:
        length = self.number(1)
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value


def captured() -> list[Stretch]:
    """Every batch of every captured produce, and every chunk of every captured consume answer."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        for frame in json.loads(path.read_text())["frames"]:
            data = bytes.fromhex(frame["hex"])
            if not data or frame["name"] in NOT_WHOLE:
                continue
            name = f"{path.stem}:{frame['name']}"
            to_broker = frame["direction"].startswith("client")
            if to_broker and data[0] in (PRODUCE, PRODUCE_WITH_NUMBER):
                found += _produced(name, data)
            elif not to_broker and data[0] == CONSUME:
                found += _consumed(name, data)
    return found


def _produced(name: str, frame: bytes) -> list[Stretch]:
    reader = _Reader(frame)
    reader.at = 5 + 2 + 4
    reader.text()
    reader.at += 5
    found = []
    for _ in range(reader.number(1)):
        reader.text()
        for _ in range(reader.number(1)):
            reader.number(2)
            begin = reader.at
            length = reader.varint()
            prefix = frame[begin : reader.at]
            base = reader.number(8) if frame[0] == PRODUCE_WITH_NUMBER else 1
            found.append(Stretch(name, base, prefix + frame[reader.at : reader.at + length]))
            reader.at += length
    assert reader.at == len(frame), name
    return found


def _consumed(name: str, frame: bytes) -> list[Stretch]:
    reader = _Reader(frame)
    reader.at = 5
    chunks_at = reader.number(4) + 9
    reader.number(4)
    chunks: list[tuple[int, int]] = []
    for _ in range(reader.number(1)):
        reader.text()
        for _ in range(reader.number(1)):
            if reader.number(2) == 0xFFFF:
                break
            flag = reader.number(1)
            if flag == 0:
                base, _, length = reader.number(8), reader.number(8), reader.number(4)
            elif flag == 0xFE:
                base, _, length = 0, reader.number(8), reader.number(4)
            elif flag == 1:
                reader.at += 28
                continue
            else:
                continue
            if length:
                chunks.append((base, length))
    found = []
    for base, length in chunks:
        found.append(Stretch(name, base, frame[chunks_at : chunks_at + length]))
        chunks_at += length
    return found
