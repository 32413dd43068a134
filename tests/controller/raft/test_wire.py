"""Raft's messages as bytes: each comes back as it was, and what is no message is refused by its own type."""

import random

import pytest

from tank_controller.raft.errors import MalformedMessageError
from tank_controller.raft.messages import (
    Append,
    AppendAnswer,
    Body,
    Configuration,
    EndAnswer,
    EndRequest,
    EntryKind,
    Heartbeat,
    HeartbeatAnswer,
    LogEntry,
    NodeId,
    RaftMessage,
    ReadAnswer,
    ReadRequest,
    SnapshotAnswer,
    SnapshotChunk,
    SnapshotMeta,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from tank_controller.raft.settings import MESSAGE_BYTES, Settings
from tank_controller.raft_node import wire as raft_wire
from tank_protos.generated import control_pb2 as pb

ONE, TWO = NodeId(1, b"\1" * 16), NodeId(2, b"\2" * 16)
META = SnapshotMeta(9, 2, Configuration((ONE, TWO), (NodeId(3, b"x"),)), 100, 0xFFFFFFFF)
ENTRIES = (
    LogEntry(4, 2, EntryKind.NO_OP, b""),
    LogEntry(5, 2, EntryKind.COMMAND, b"data"),
    LogEntry(6, 2, EntryKind.CONFIGURATION, META.configuration.encode()),
)
BODIES: list[Body] = [
    VoteRequest(7, 3, True, False),
    VoteRequest(7, 3, False, True),
    VoteAnswer(True, True),
    VoteAnswer(False),
    Append(3, 2, ENTRIES, 3),
    Append(0, 0, (), 0),
    AppendAnswer(5),
    AppendAnswer(5, True, 4, 1),
    AppendAnswer(0),
    AppendAnswer(5, start=3),
    EndRequest(1 << 61),
    EndAnswer(1 << 61, 7, 3),
    Heartbeat(1 << 40, 9),
    Heartbeat(0, 0),
    HeartbeatAnswer(0),
    HeartbeatAnswer(7, 2),
    HeartbeatAnswer(7, 2, 1 << 61),
    SnapshotChunk(META, 50, b"chunk"),
    SnapshotAnswer(9, 2, 55),
    TimeoutNow(),
    ReadRequest((1 << 62) + 1),
    ReadAnswer(7, 0),
    ReadAnswer(7, None),
]


def message(body: Body) -> RaftMessage:
    return RaftMessage("cluster", ONE, TWO, 8, body)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_every_message_comes_back_as_it_was(body: Body) -> None:
    assert raft_wire.decode(raft_wire.encode(message(body)).SerializeToString()) == message(body)
    assert raft_wire.decode(raft_wire.encode(message(body))) == message(body)


def test_every_body_of_the_wire_has_its_test() -> None:
    tested = {raft_wire.encode(message(body)).WhichOneof("body") for body in BODIES}
    assert tested == {field.name for field in pb.RaftMessage.DESCRIPTOR.oneofs_by_name["body"].fields}


@pytest.mark.parametrize(
    "wire",
    [
        pb.RaftMessage(),
        pb.RaftMessage(append=pb.RaftAppend(entries=[pb.RaftEntry(kind=9)])),
        pb.RaftMessage(snapshot_chunk=pb.RaftSnapshotChunk(configuration=b"\1")),
    ],
)
def test_what_has_no_meaning_is_refused(wire: pb.RaftMessage) -> None:
    with pytest.raises(MalformedMessageError):
        raft_wire.decode(wire)


def test_bytes_of_chance_are_read_or_refused_and_nothing_else_happens() -> None:
    chance = random.Random(4)
    read = 0
    for _ in range(3000):
        data = bytearray(raft_wire.encode(message(chance.choice(BODIES))).SerializeToString())
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            raft_wire.decode(bytes(data[: chance.randint(1, len(data))]))
            read += 1
        except MalformedMessageError:
            pass
    assert read < 3000


def test_the_largest_message_is_below_grpcs_bound() -> None:
    settings = Settings()
    great = 1 << 60
    many = settings.max_append_bytes // 33
    bodies: list[Body] = [
        Append(
            great, great, (LogEntry(great, great, EntryKind.COMMAND, b"x" * settings.max_entry_bytes),), 0
        ),
        Append(great, great, tuple(LogEntry(n, great, EntryKind.COMMAND, b"x") for n in range(many)), 0),
        SnapshotChunk(META, 0, b"x" * settings.chunk_bytes),
    ]
    for body in bodies:
        assert raft_wire.encode(message(body)).ByteSize() < MESSAGE_BYTES
