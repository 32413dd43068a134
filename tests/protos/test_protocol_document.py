"""What `docs/protocol/README.md` shows byte by byte and lists in tables is what the code reads and means."""

import re
from enum import IntEnum
from pathlib import Path
from typing import TypeVar

import pytest

from tank_protos import error_codes
from tank_protos.bundle import bundles, decode
from tank_protos.generated.tank import ConsumeRequest, ConsumeResponse, ProduceRequest, ProduceResponse
from tank_protos.wire.framing import FrameReader, frame
from tank_protos.wire.message import Message

DOCUMENT = (Path(__file__).parents[2] / "docs" / "protocol" / "README.md").read_text()
M = TypeVar("M", bound=Message)
ENUMS = [
    kind
    for kind in vars(error_codes).values()
    if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum
]


def example(name: str) -> bytes:
    """The bytes of a fenced block: on each line, what stands before two spaces."""
    [block] = re.findall(rf"^```{name}\n(.*?)^```", DOCUMENT, re.M | re.S)
    return bytes.fromhex("".join(line.split("  ")[0] for line in block.splitlines()))


def read(name: str, codec: type[M]) -> M:
    [(message_id, payload)] = FrameReader().feed(example(name))
    assert message_id == codec.ID
    message = codec.decode(payload)
    assert b"".join(frame(message_id, message.encode())) == example(name)
    return message


def test_the_produce_is_what_the_text_says() -> None:
    request = read("produce-request", ProduceRequest)
    [topic] = request.topics
    [partition] = topic.partitions
    assert (request.client_version, request.request_id, request.client_id) == (3, 1, "doc")
    assert (request.required_acks, request.ack_timeout_ms) == (0, 0)
    assert (topic.name, partition.partition) == ("gold", 0)
    [bundle] = bundles(partition.bundle)
    assert [message.value for message in decode(bundle, base=1)] == [b"alpha", b"beta"]
    response = read("produce-response", ProduceResponse)
    assert (response.request_id, [result.error for result in response.results]) == (1, [0])


def test_the_consume_brings_what_was_produced() -> None:
    request = read("consume-request", ConsumeRequest)
    [asked] = request.topics[0].partitions
    assert (request.request_id, request.max_wait_ms, request.min_bytes, request.flags) == (2, 1000, 0, 0)
    assert (asked.partition, asked.sequence_number, asked.fetch_size) == (0, 1, 65536)
    response = read("consume-response", ConsumeResponse)
    [found] = response.topics[0].partitions
    assert (response.header_length, response.request_id, found.flag) == (34, 2, 0)
    assert (found.base_sequence_number, found.high_water_mark, found.chunk_length) == (1, 2, 23)
    produced = read("produce-request", ProduceRequest).topics[0].partitions[0].bundle
    assert response.chunks == produced


@pytest.mark.parametrize("kind", ENUMS)
def test_every_error_byte_is_explained(kind: type[IntEnum]) -> None:
    [section] = re.findall(rf"^### {kind.__name__}:.*?\n(.*?)(?=^##|\Z)", DOCUMENT, re.M | re.S)
    rows = re.findall(r"^\| (0x[0-9a-f]{2}) \| ([A-Z_]+) \| \S", section, re.M)
    assert rows == [(f"0x{member:02x}", member.name) for member in kind]


def test_all_kinds_of_error_bytes_are_here() -> None:
    assert len(ENUMS) == DOCUMENT.count("\n### ") == 9
