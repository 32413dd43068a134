"""Every frame captured from the original's broker and client decodes, and encodes back to the same bytes."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tank_protos.generated.tank import (
    ConsumePeerRequest,
    ConsumePeerResponse,
    ConsumeRequest,
    ConsumeResponse,
    CreateTopicRequest,
    CreateTopicResponse,
    DiscoverPartitionsRequest,
    DiscoverPartitionsResponse,
    DiscoverTopicsRequest,
    DiscoverTopicsResponse,
    DiscoverTopologyRequest,
    DiscoverTopologyResponse,
    Ping,
    ProduceRequest,
    ProduceResponse,
    ProduceWithBaseSeqNumRequest,
    ReloadConfRequest,
    ReloadConfResponse,
    StatusRequest,
    StatusResponse,
)
from tank_protos.wire.errors import Truncated, WireError
from tank_protos.wire.framing import HEADER_BYTES, MAX_FRAME_BYTES, FrameReader
from tank_protos.wire.message import Message

GOLDEN = Path(__file__).parents[1] / "golden" / "tank"

# What a frame of each id is, by who sent it.
FROM_CLIENT: dict[int, type[Message]] = {
    1: ProduceRequest,
    2: ConsumeRequest,
    5: ProduceWithBaseSeqNumRequest,
    6: DiscoverPartitionsRequest,
    7: CreateTopicRequest,
    8: ReloadConfRequest,
    9: ConsumePeerRequest,
    10: StatusRequest,
    11: DiscoverTopicsRequest,
    12: DiscoverTopologyRequest,
}
FROM_BROKER: dict[int, type[Message]] = {
    1: ProduceResponse,
    2: ConsumeResponse,
    3: Ping,
    6: DiscoverPartitionsResponse,
    7: CreateTopicResponse,
    8: ReloadConfResponse,
    9: ConsumePeerResponse,
    10: StatusResponse,
    11: DiscoverTopicsResponse,
    12: DiscoverTopologyResponse,
}

WRONG_BY_INTENT = {"unknown_msg.req", "oversize.req", "truncated_consume.req"}
OLD_PEERS = {"regreplica.req"}
"""The bare id of an old broker: ours says more, see test_stretch."""
NOT_ANSWERED = {"unknown_msg.resp", "oversize.resp", "truncated_consume.resp", "regreplica.resp"}
LEFT_OUT = WRONG_BY_INTENT | OLD_PEERS | NOT_ANSWERED


def _frames() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(GOLDEN.glob("*.json")):
        for frame in json.loads(path.read_text())["frames"]:
            name = f"{path.stem}/{frame['name']}"
            again = sum(known.split("#")[0] == name for known in found)
            found[f"{name}#{again + 1}" if again else name] = frame
    return found


FRAMES = _frames()
VALID = [name for name in FRAMES if name.split("/")[1].split("#")[0] not in LEFT_OUT]


def _frame(name: str) -> bytes:
    return bytes.fromhex(FRAMES[name]["hex"])


def _class(name: str) -> type[Message]:
    sender = FROM_CLIENT if FRAMES[name]["direction"].startswith("client") else FROM_BROKER
    return sender[_frame(name)[0]]


def test_all_captures_are_here() -> None:
    assert len(FRAMES) == 145
    assert len(VALID) == 145 - len(LEFT_OUT)
    assert {_class(name) for name in VALID} == set(FROM_CLIENT.values()) | set(FROM_BROKER.values())


@pytest.mark.parametrize("name", VALID)
def test_a_captured_frame_round_trips(name: str) -> None:
    frame = _frame(name)
    [(message_id, payload)] = FrameReader().feed(frame)
    message = _class(name).decode(payload)
    assert message_id == message.ID
    assert b"".join(message.encode()) == frame[HEADER_BYTES:]


@pytest.mark.parametrize("name", VALID)
def test_a_captured_payload_can_stand_inside_a_buffer(name: str) -> None:
    if _class(name) in (ProduceResponse, ConsumeResponse, ConsumePeerResponse, DiscoverPartitionsRequest):
        return  # they take the rest of the buffer
    payload = _frame(name)[HEADER_BYTES:]
    message, end = _class(name).read(memoryview(b"\xaa\xbb" + payload + b"\xcc"), 2)
    assert end == 2 + len(payload)
    assert message == _class(name).decode(payload)


@pytest.mark.parametrize("name", [name for name in VALID if "decoded" in FRAMES[name]])
def test_a_consume_answer_says_what_the_capture_says(name: str) -> None:
    message = ConsumeResponse.decode(_frame(name)[HEADER_BYTES:])
    request_id, topics = ast.literal_eval(FRAMES[name]["decoded"])
    assert message.request_id == request_id
    partitions = [(topic, partition) for topic in message.topics for partition in topic.partitions]
    unknown = [(topic.name, None) for topic in message.topics if topic.unknown]
    assert len(partitions) + len(unknown) == len(topics)
    stated = [(topic, facts) for topic, facts, *_ in topics if isinstance(facts, dict)]
    for (topic, partition), (expected_name, facts) in zip(partitions, stated, strict=True):
        assert topic.name == expected_name
        assert (partition.partition, hex(partition.flag)) == (facts["pid"], facts["flag"])
        assert partition.high_water_mark == facts.get("hw", 0)
        assert partition.base_sequence_number == facts.get("base", 0)
        assert partition.chunk_length == facts.get("len", 0)


def test_an_unknown_message_has_no_class() -> None:
    assert _frame("04_errors/unknown_msg.req")[0] not in FROM_CLIENT


def test_a_frame_over_the_limit_is_refused_by_its_header() -> None:
    frame = _frame("04_errors/oversize.req")
    assert int.from_bytes(frame[1:], "little") > MAX_FRAME_BYTES
    with pytest.raises(WireError):
        FrameReader().feed(frame)


def test_a_payload_shorter_than_its_fixed_fields_is_truncated() -> None:
    with pytest.raises(Truncated, match="ConsumeRequest ends too early"):
        ConsumeRequest.decode(_frame("04_errors/truncated_consume.req")[HEADER_BYTES:])


def test_a_produce_request_is_read_in_full() -> None:
    request = ProduceRequest.decode(_frame("02_produce_plain/produce_one.req")[HEADER_BYTES:])
    assert (request.client_version, request.request_id, request.client_id) == (2, 0x11223344, "c++")
    [topic] = request.topics
    [partition] = topic.partitions
    assert (topic.name, partition.partition) == ("gold", 0)
    assert partition.bundle[0] == len(partition.bundle) - 1
    assert isinstance(partition.bundle, memoryview)
