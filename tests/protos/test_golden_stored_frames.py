"""The bytes of messages about stored batches, written by hand from docs/protocol/tank."""

from typing import Final

import pytest

from tank_protos.generated.tank import (
    AppendStoredRequest,
    AppendStoredResponse,
    FetchedBatch,
    FetchStoredRequest,
    FetchStoredResponse,
    PartitionControlRequest,
    PartitionControlResponse,
    PartitionSize,
    PartitionSizesRequest,
    PartitionSizesResponse,
    SizedPartition,
)
from tank_protos.wire.errors import OutOfRange, TrailingBytes, Truncated
from tank_protos.wire.framing import HEADER_BYTES, FrameReader, frame
from tank_protos.wire.message import Message

ID: Final = 0x11223344
GOLDEN: Final[dict[str, tuple[Message, str]]] = {
    "FetchStoredRequest": (
        FetchStoredRequest(0x101, ID, 9, 3, 2, 5_000_000, 7, 0x400000, 250),
        "56 25000000  0101 44332211 0900000000000000 0300 02 404b4c0000000000 07000000 00004000 fa000000",
    ),
    "FetchStoredResponse": (
        FetchStoredResponse(ID, 0, 1, 5, 8, 2, 9, [FetchedBatch(4, 5, 1_000, 2)], b"\1\2"),
        "56 44000000  44332211 00 01 0500000000000000 0800000000000000 0200000000000000 0900000000000000"
        "  01000000 0400000000000000 05000000 e803000000000000 02000000 0102",
    ),
    "AppendStoredRequest": (
        AppendStoredRequest(0x101, ID, 9, 3, 1, 250, b"\1\2"),
        "57 17000000  0101 44332211 0900000000000000 0300 01 fa000000 0102",
    ),
    "AppendStoredResponse": (
        AppendStoredResponse(ID, 0, 5, 6),
        "57 15000000  44332211 00 0500000000000000 0600000000000000",
    ),
    "PartitionControlRequest": (
        PartitionControlRequest(0x101, ID, 9, 3, 3, 2),
        "58 15000000  0101 44332211 0900000000000000 0300 03 02000000",
    ),
    "PartitionControlResponse": (PartitionControlResponse(ID, 3), "58 05000000  44332211 03"),
    "PartitionSizesRequest": (
        PartitionSizesRequest(0x101, ID, [SizedPartition(9, 3)]),
        "59 12000000  0101 44332211 0100 0900000000000000 0300",
    ),
    "PartitionSizesResponse": (
        PartitionSizesResponse(ID, [PartitionSize(0, 5, 8, 100, 2), PartitionSize(0xFD)]),
        "59 40000000  44332211 0200 00 0500000000000000 0800000000000000 6400000000000000 02000000"
        "  fd 0000000000000000 0000000000000000 0000000000000000 00000000",
    ),
}
"""What is said, and the frame: its id, its length, its payload field by field."""
FRAMES = [(message, bytes.fromhex(wire)) for message, wire in GOLDEN.values()]
_TO_THE_END = {FetchStoredResponse: 2, AppendStoredRequest: 2}
"""Messages that end with bytes of any length, and how many these have here."""


@pytest.mark.parametrize(("message", "wire"), FRAMES, ids=list(GOLDEN))
def test_the_message_is_these_bytes_and_the_bytes_are_this_message(message: Message, wire: bytes) -> None:
    assert b"".join(frame(message.ID, message.encode())) == wire
    [(message_id, payload)] = FrameReader().feed(wire)
    assert message_id == message.ID
    assert type(message).decode(payload) == message


@pytest.mark.parametrize(("message", "wire"), FRAMES, ids=list(GOLDEN))
def test_every_cut_is_truncated_and_every_byte_too_much_is_trailing(message: Message, wire: bytes) -> None:
    payload = wire[HEADER_BYTES:]
    free = _TO_THE_END.get(type(message), 0)
    for end in range(len(payload) - free):
        with pytest.raises(Truncated):
            type(message).decode(payload[:end])
    if not free:
        with pytest.raises(TrailingBytes):
            type(message).decode(payload + b"\0")


def test_a_count_that_lies_costs_nothing() -> None:
    for name, at, size in (("FetchStoredResponse", 38, 4), ("PartitionSizesResponse", 4, 2)):
        wire = GOLDEN[name][1]
        payload = bytearray(bytes.fromhex(wire)[HEADER_BYTES:])
        payload[at : at + size] = b"\xff" * size
        decode = FetchStoredResponse.decode if size == 4 else PartitionSizesResponse.decode
        with pytest.raises((Truncated, OutOfRange)):
            decode(bytes(payload))
