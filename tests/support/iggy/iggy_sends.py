"""Sends of Iggy clients, as their eras write them."""

from struct import pack

import xxhash

from tank_protos.generated.iggy import Identifier
from tank_protos.iggy import send
from tank_protos.iggy.eras import Era, MessageLayout
from tank_protos.iggy.partitioning import Partitioning


def send_payload(
    era: Era, stream: Identifier, topic: Identifier, chosen: Partitioning, payloads: list[bytes]
) -> bytes:
    """Returns the payload of a send of these messages, without ids, times and headers."""
    head = send.request(stream, topic, chosen, len(payloads), era)
    return head + _messages(era, payloads)


def _messages(era: Era, payloads: list[bytes]) -> bytes:
    if era.layout is MessageLayout.SEED:
        return b"".join(bytes(16) + pack("<II", 0, len(each)) + each for each in payloads)
    if era.layout is MessageLayout.BATCH:
        return _batch(payloads)
    reserved = 8 if era.layout is MessageLayout.HEADER_64 else 0
    messages = [bytes(48) + pack("<II", 0, len(each)) + bytes(reserved) + each for each in payloads]
    index, end = b"", 0
    for message in messages:
        end += len(message)
        index += pack("<IIQ", 0, end, 0)
    return index + b"".join(messages)


def _batch(payloads: list[bytes]) -> bytes:
    framed = []
    for number, each in enumerate(payloads):
        rest = bytes(16) + pack("<IIIIQ", number, 0, 0, len(each), 0) + each
        framed.append(pack("<Q", xxhash.xxh3_64_intdigest(rest)) + rest)
    blob = b"".join(framed)
    length = 256 + len(blob)
    numbers = pack("<QQQQQ", 0, 0, 0, 0, length)
    summed = numbers + pack("<I", len(payloads)) + b"".join(each[:8] for each in framed)
    header = numbers + pack("<QI", xxhash.xxh3_64_intdigest(summed), len(payloads))
    return header.ljust(256, b"\0") + blob
