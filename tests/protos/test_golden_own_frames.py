"""Frames of messages that TANK itself lacks, byte by byte: processes of other versions send them."""

import pytest

from tank_protos.generated.tank import (
    ControllerAddress,
    DescribeClusterRequest,
    DescribeClusterResponse,
    HostAddress,
    KnownHost,
)
from tank_protos.wire.errors import TrailingBytes, Truncated
from tank_protos.wire.framing import HEADER_BYTES, FrameReader, frame
from tank_protos.wire.message import Message

DESCRIBED = DescribeClusterResponse(
    request_id=0x11223344,
    cluster_id="gold",
    controllers=[ControllerAddress("c-0.c", 11012), ControllerAddress("fd00::1", 65535)],
    hosts=[
        KnownHost("b-1.b", [HostAddress("10.0.0.2"), HostAddress("fd00::2")]),
        KnownHost("é", [HostAddress("10.0.0.3")]),
    ],
)
GOLDEN: dict[str, tuple[Message, str]] = {
    "DescribeClusterRequest": (DescribeClusterRequest(0, 0x11223344), "4d 05000000  00 44332211"),
    "DescribeClusterResponse": (
        DESCRIBED,
        "4d 43000000  44332211  04 676f6c64"
        "02  05 632d302e63 042b  07 666430303a3a31 ffff"
        "0200"
        "05 622d312e62 02 08 31302e302e302e32 07 666430303a3a32"
        "02 c3a9 01 08 31302e302e302e33",
    ),
    "DescribeClusterResponse of a broker of its own": (
        DescribeClusterResponse(1, "c", [], []),
        "4d 09000000  01000000  01 63  00  0000",
    ),
}
"""What is said, and the frame: its id, its length, its payload field by field."""
FRAMES = [(message, bytes.fromhex(wire)) for message, wire in GOLDEN.values()]


@pytest.mark.parametrize(("message", "wire"), FRAMES, ids=list(GOLDEN))
def test_the_message_is_these_bytes_and_the_bytes_are_this_message(message: Message, wire: bytes) -> None:
    assert b"".join(frame(message.ID, message.encode())) == wire
    [(message_id, payload)] = FrameReader().feed(wire)
    assert message_id == message.ID
    assert type(message).decode(payload) == message


@pytest.mark.parametrize(("message", "wire"), FRAMES, ids=list(GOLDEN))
def test_every_cut_is_truncated_and_every_byte_too_much_is_trailing(message: Message, wire: bytes) -> None:
    payload = wire[HEADER_BYTES:]
    for end in range(len(payload)):
        with pytest.raises(Truncated):
            type(message).decode(payload[:end])
    with pytest.raises(TrailingBytes):
        type(message).decode(payload + b"\0")
