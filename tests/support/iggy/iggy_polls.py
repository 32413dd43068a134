"""Answers to polls of Iggy clients, read as their eras do."""

from struct import unpack_from
from typing import NamedTuple

from tank_protos.iggy.eras import Era, MessageLayout


class Polled(NamedTuple):
    """An answer to a poll."""

    partition: int
    current_offset: int
    messages: list[tuple[int, bytes]]
    """Offset and payload of each."""


def read_poll(era: Era, payload: bytes) -> Polled:
    """Reads an answer, which must end where its last message does."""
    partition, current, count = unpack_from("<IQI", payload)
    messages: list[tuple[int, bytes]] = []
    at = 16
    while at < len(payload):
        if era.layout is MessageLayout.BATCH:
            found, at = _read_batch(payload, at)
            messages += found
        else:
            message, at = _read_message(era, payload, at)
            messages.append(message)
    assert at == len(payload)
    assert len(messages) == count
    return Polled(partition, current, messages)


def _read_message(era: Era, payload: bytes, at: int) -> tuple[tuple[int, bytes], int]:
    if era.layout is MessageLayout.SEED:
        (offset,) = unpack_from("<Q", payload, at)
        (headers,) = unpack_from("<I", payload, at + 37)
        at += 41 + headers
        (size,) = unpack_from("<I", payload, at)
        return (offset, payload[at + 4 : at + 4 + size]), at + 4 + size
    (offset,) = unpack_from("<Q", payload, at + 24)
    headers, size = unpack_from("<II", payload, at + 48)
    start = at + (64 if era.layout is MessageLayout.HEADER_64 else 56)
    return (offset, payload[start : start + size]), start + size + headers


def _read_batch(payload: bytes, at: int) -> tuple[list[tuple[int, bytes]], int]:
    _, base = unpack_from("<QQ", payload, at)
    length, _, count = unpack_from("<QQI", payload, at + 32)
    end, at = at + length, at + 256
    found = []
    for _ in range(count):
        (delta,) = unpack_from("<I", payload, at + 24)
        headers, size = unpack_from("<II", payload, at + 32)
        found.append((base + delta, payload[at + 48 : at + 48 + size]))
        at += 48 + size + headers
    assert at == end
    return found, at
