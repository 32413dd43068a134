"""What a client of each era writes into a send, and reads in the answer to a poll.

Nothing here is the product's but the era's name: layouts are written down a second time, from the clients'
side.
"""

import struct
import zlib
from dataclasses import dataclass, field

import xxhash

Header = tuple[bytes, int, bytes, int]
"""Key, its kind, value, its kind."""

OLD = ("S", "A1", "A2", "A3")
KEY_KINDS = ("B3", "V11")


@dataclass(frozen=True)
class ClientMessage:
    """A message that a client sends."""

    payload: bytes
    id: int = 0
    origin_us: int = 0
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True)
class ReceivedMessage:
    """A message that a client got."""

    offset: int
    id: int
    timestamp_us: int
    payload: bytes
    origin_us: int | None = None
    """None: the era has none."""
    headers: tuple[Header, ...] = ()


@dataclass
class Received:
    """The answer to a poll."""

    partition: int
    current_offset: int
    messages: list[ReceivedMessage] = field(default_factory=list)
    batches: int = 0


def header_bytes(headers: tuple[Header, ...], era: str) -> bytes:
    """A header map."""
    out = b""
    for key, key_kind, value, value_kind in headers:
        out += bytes([key_kind]) if era in KEY_KINDS else b""
        out += struct.pack("<I", len(key)) + key + struct.pack("<BI", value_kind, len(value)) + value
    return out


def headers_in(data: bytes, era: str) -> tuple[Header, ...]:
    """The headers of a map."""
    found, at = [], 0
    while at < len(data):
        key_kind = 2
        if era in KEY_KINDS:
            key_kind, at = data[at], at + 1
        (size,) = struct.unpack_from("<I", data, at)
        key, at = data[at + 4 : at + 4 + size], at + 4 + size
        value_kind, size = struct.unpack_from("<BI", data, at)
        value, at = data[at + 5 : at + 5 + size], at + 5 + size
        assert len(value) == size
        found.append((key, key_kind, value, value_kind))
    return tuple(found)


def sent(messages: list[ClientMessage], era: str, *, is_sealed: bool = True) -> bytes:
    """The message area of a send. `is_sealed`: with the batch's checksum, in V11."""
    if era in OLD:
        return b"".join(_seed(message, era) for message in messages)
    if era == "V11":
        return _batch(messages, is_sealed)
    bodies = [_headed(message, era) for message in messages]
    indexes, end = b"", 0
    for body in bodies:
        end += len(body)
        indexes += struct.pack("<IIQ", 0, end, 0)
    return indexes + b"".join(bodies)


def _seed(message: ClientMessage, era: str) -> bytes:
    headers = header_bytes(message.headers, era)
    return (
        message.id.to_bytes(16, "little")
        + struct.pack("<I", len(headers))
        + headers
        + struct.pack("<I", len(message.payload))
        + message.payload
    )


def _headed(message: ClientMessage, era: str) -> bytes:
    headers = header_bytes(message.headers, era)
    head = bytes(8) + message.id.to_bytes(16, "little") + bytes(16)
    head += struct.pack("<QII", message.origin_us, len(headers), len(message.payload))
    return head + (bytes(8) if era == "B3" else b"") + message.payload + headers


def _batch(messages: list[ClientMessage], is_sealed: bool) -> bytes:
    origin = min(message.origin_us for message in messages)
    blob, sums = b"", b""
    for place, message in enumerate(messages):
        headers = header_bytes(message.headers, "V11")
        rest = message.id.to_bytes(16, "little")
        rest += struct.pack("<IIII", place, message.origin_us - origin, len(headers), len(message.payload))
        rest += bytes(8) + message.payload + headers
        checksum = struct.pack("<Q", xxhash.xxh3_64_intdigest(rest))
        sums += checksum
        blob += checksum + rest
    length = 256 + len(blob)
    covered = struct.pack("<QQQQQI", 0, 0, 0, origin, length, len(messages)) + sums
    checksum_of_all = xxhash.xxh3_64_intdigest(covered) if is_sealed else 0
    head = struct.pack("<QQQQQQI", 0, 0, 0, origin, length, checksum_of_all, len(messages))
    return head.ljust(256, b"\0") + blob


def received(payload: bytes, era: str) -> Received:
    """What a client reads in an answer; it verifies every checksum."""
    partition, current_offset, count = struct.unpack_from("<IQI", payload)
    found = Received(partition, current_offset)
    data = payload[16:]
    if era in OLD:
        _read_seed(data, era, found)
    elif era == "V11":
        _read_batches(data, found)
    else:
        _read_headed(data, era, found)
    assert len(found.messages) == count
    return found


def _read_seed(data: bytes, era: str, found: Received) -> None:
    at = 0
    while at < len(data):
        offset, state, timestamp_us = struct.unpack_from("<QBQ", data, at)
        assert state == 1
        message_id = int.from_bytes(data[at + 17 : at + 33], "little")
        crc, size = struct.unpack_from("<II", data, at + 33)
        at += 41
        headers, at = headers_in(data[at : at + size], era), at + size
        (size,) = struct.unpack_from("<I", data, at)
        payload, at = data[at + 4 : at + 4 + size], at + 4 + size
        assert len(payload) == size
        assert zlib.crc32(payload) == crc
        found.messages.append(ReceivedMessage(offset, message_id, timestamp_us, payload, None, headers))


def _read_headed(data: bytes, era: str, found: Received) -> None:
    at, head = 0, 64 if era == "B3" else 56
    while at < len(data):
        (checksum,) = struct.unpack_from("<Q", data, at)
        message_id = int.from_bytes(data[at + 8 : at + 24], "little")
        offset, timestamp_us, origin_us, headers_size, size = struct.unpack_from("<QQQII", data, at + 24)
        end = at + head + size + headers_size
        covered = data[at + 8 : end]
        assert len(data) >= end
        assert checksum == (zlib.crc32(covered) if era == "B1" else xxhash.xxh3_64_intdigest(covered))
        payload = data[at + head : at + head + size]
        headers = headers_in(data[at + head + size : end], era)
        found.messages.append(ReceivedMessage(offset, message_id, timestamp_us, payload, origin_us, headers))
        at = end


def _read_batches(data: bytes, found: Received) -> None:
    at = 0
    while at < len(data):
        partition, base, timestamp_us, origin_us, length, checksum, count = struct.unpack_from(
            "<QQQQQQI", data, at
        )
        assert partition == found.partition
        assert not any(data[at + 52 : at + 256])
        end, sums = at + length, b""
        assert len(data) >= end
        at += 256
        for _ in range(count):
            message_id = int.from_bytes(data[at + 8 : at + 24], "little")
            delta, delta_us, headers_size, size = struct.unpack_from("<IIII", data, at + 24)
            stop = at + 48 + size + headers_size
            sums += data[at : at + 8]
            assert struct.unpack_from("<Q", data, at)[0] == xxhash.xxh3_64_intdigest(data[at + 8 : stop])
            payload = data[at + 48 : at + 48 + size]
            headers = headers_in(data[at + 48 + size : stop], "V11")
            found.messages.append(
                ReceivedMessage(
                    base + delta, message_id, timestamp_us, payload, origin_us + delta_us, headers
                )
            )
            at = stop
        assert at == end
        covered = struct.pack("<QQQQQI", partition, base, timestamp_us, origin_us, length, count) + sums
        assert checksum == xxhash.xxh3_64_intdigest(covered)
        found.batches += 1
