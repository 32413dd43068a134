"""Frames of our messages about consumer groups, byte by byte: processes of other versions send them."""

import pytest

from tank_protos.generated.tank import (
    AssignedTopic,
    CommitPositionsRequest,
    CommitPositionsResponse,
    CommitResult,
    DeletedGroup,
    DeletedPosition,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeletePositionsRequest,
    DeletePositionsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    GroupMember,
    GroupRequest,
    GroupResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberTopic,
    OwnedTopic,
    PositionsOfTopic,
    PositionToCommit,
)
from tank_protos.wire.errors import TrailingBytes, Truncated
from tank_protos.wire.framing import HEADER_BYTES, FrameReader, frame
from tank_protos.wire.message import Message

ID = 0x11223344
POSITIONS = [PositionToCommit("gold", 1, 7, "n")]
MEMBER = GroupMember("m", "i", "c", "h", 3, ["gold"], [MemberTopic("gold", [0, 2])])
GOLDEN: dict[str, tuple[Message, int, str]] = {
    "CommitPositionsRequest 0": (
        CommitPositionsRequest(0, ID, "g", positions=POSITIONS),
        0,
        "48 1d000000  00 44332211 01 67  01000000  04 676f6c64 0100 0700000000000000 0100 6e",
    ),
    "CommitPositionsRequest 1": (
        CommitPositionsRequest(1, ID, "g", "m", 5, POSITIONS),
        1,
        "48 23000000  01 44332211 01 67 01 6d 05000000  01000000  04 676f6c64 0100 0700000000000000 0100 6e",
    ),
    "CommitPositionsResponse 1": (
        CommitPositionsResponse(ID, 0, "", [CommitResult(0), CommitResult(0x28)]),
        1,
        "48 0d000000  44332211 00 0000 02000000 00 28",
    ),
    "ListGroupsRequest 1": (ListGroupsRequest(1, ID), 1, "4a 05000000  01 44332211"),
    "ListGroupsResponse 0": (
        ListGroupsResponse(ID, 0, "", ["g"]),
        0,
        "4a 0d000000  44332211 00 0000 01000000 01 67",
    ),
    "ListGroupsResponse 1": (
        ListGroupsResponse(ID, 0, "", listed=[ListedGroup("g", "consumer", 4, 2)]),
        1,
        "4a 1d000000  44332211 00 0000 01000000  0100 67 0800 636f6e73756d6572 04 02000000",
    ),
    "GroupHeartbeatRequest that joins": (
        GroupHeartbeatRequest(0, ID, "g", "m", "i", 0, 5000, 1, ["gold"], "range", 1, [], "c"),
        0,
        "50 26000000  00 44332211 01 67 01 6d 01 69 00000000 88130000 01 0100 04 676f6c64"
        "  05 72616e6765 01 0000 01 63",
    ),
    "GroupHeartbeatRequest that goes on": (
        GroupHeartbeatRequest(0, ID, "g", "m", "", 5, 0, 0, [], "", 1, [OwnedTopic("gold", [1])], ""),
        0,
        "50 21000000  00 44332211 01 67 01 6d 00 05000000 00000000 00 00 01 0100 04 676f6c64 0100 0100 00",
    ),
    "GroupHeartbeatResponse": (
        GroupHeartbeatResponse(ID, 0, "", 6, 5000, 1, [AssignedTopic("gold", [0, 1])]),
        0,
        "50 1d000000  44332211 00 0000 06000000 88130000 01 0100 04 676f6c64 0200 0000 0100",
    ),
    "GroupHeartbeatResponse without a change": (
        GroupHeartbeatResponse(ID, 0, "", 6, 5000),
        0,
        "50 10000000  44332211 00 0000 06000000 88130000 00",
    ),
    "DescribeGroupsRequest": (
        DescribeGroupsRequest(0, ID, ["g", "h"]),
        0,
        "51 0d000000  00 44332211 0200 0100 67 0100 68",
    ),
    "DescribeGroupsResponse": (
        DescribeGroupsResponse(ID, [DescribedGroup(0, "", "g", 4, "consumer", "range", 3, [MEMBER])]),
        0,
        "51 48000000  44332211 0100  00 0000 0100 67 04 0800 636f6e73756d6572 0500 72616e6765 03000000 0100"
        "  0100 6d 0100 69 0100 63 0100 68 03000000 0100 04 676f6c64 0100 04 676f6c64 0200 0000 0200",
    ),
    "DeleteGroupsRequest": (DeleteGroupsRequest(0, ID, ["g"]), 0, "52 0a000000  00 44332211 0100 0100 67"),
    "DeleteGroupsResponse": (
        DeleteGroupsResponse(ID, [DeletedGroup(0x2D, "m")]),
        0,
        "52 0a000000  44332211 0100 2d 0100 6d",
    ),
    "DeletePositionsRequest": (
        DeletePositionsRequest(0, ID, "g", [PositionsOfTopic("gold", [1, 2])]),
        0,
        "53 15000000  00 44332211 0100 67 0100 04 676f6c64 0200 0100 0200",
    ),
    "DeletePositionsResponse": (
        DeletePositionsResponse(ID, 0, "", [DeletedPosition(0), DeletedPosition(0x2F)]),
        0,
        "53 0d000000  44332211 00 0000 02000000 00 2f",
    ),
    "GroupRequest": (
        GroupRequest(0x101, ID, 3, 9, 1, "h", 0x4A, bytes.fromhex("0100000000")),
        0,
        "54 19000000  0101 44332211 0300 0900000000000000 01 01 68 4a 0100000000",
    ),
    "GroupResponse": (
        GroupResponse(ID, 9, b"\1\2"),
        0,
        "54 0e000000  44332211 0900000000000000 0102",
    ),
}
"""What is said, in which version, and the frame: its id, its length, its payload field by field."""
FRAMES = [(message, version, bytes.fromhex(wire)) for message, version, wire in GOLDEN.values()]
_TO_THE_END = (GroupRequest, GroupResponse)
"""Messages that end with a payload of any length."""


@pytest.mark.parametrize(("message", "version", "wire"), FRAMES, ids=list(GOLDEN))
def test_the_message_is_these_bytes_and_the_bytes_are_this_message(
    message: Message, version: int, wire: bytes
) -> None:
    assert b"".join(frame(message.ID, message.encode(version))) == wire
    [(message_id, payload)] = FrameReader().feed(wire)
    assert message_id == message.ID
    assert type(message).decode(payload, version) == message


@pytest.mark.parametrize(("message", "version", "wire"), FRAMES, ids=list(GOLDEN))
def test_every_cut_is_truncated_and_every_byte_too_much_is_trailing(
    message: Message, version: int, wire: bytes
) -> None:
    if isinstance(message, _TO_THE_END):
        return
    payload = wire[HEADER_BYTES:]
    for end in range(len(payload)):
        with pytest.raises(Truncated):
            type(message).decode(payload[:end], version)
    with pytest.raises(TrailingBytes):
        type(message).decode(payload + b"\0", version)
