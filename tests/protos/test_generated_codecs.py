"""The generated codecs: round trips, cuts at every byte, bytes too many, lengths and counts that lie."""

import tracemalloc
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tank_compiler.emit.module import module_name
from tank_compiler.schema import definition_files
from tank_compiler.schema.schema import Kind, Message
from tank_compiler.tools.interpreter import lay_out
from tank_protos.generated.kafka import FetchResponse, MetadataResponse
from tank_protos.generated.kafka.fetch_response import FetchableTopicResponse, PartitionData
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    ConsumeResponse,
    DescribeTopicsResponse,
    DiscoverPartitionsRequest,
    DiscoverPartitionsResponse,
    ListGroupsResponse,
)
from tank_protos.generated.tank.consume_response import FetchedPartition, FetchedTopic
from tank_protos.generated.tank.discover_partitions_response import DiscoveredPartition
from tank_protos.wire.errors import OutOfRange, TrailingBytes, Truncated, WireError
from tank_protos.wire.message import Message as WireMessage
from tests.support.values.corpus_seeds import corpus_seeds
from tests.support.values.schema_values import as_values, takes_the_rest, values

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried of each message of a protocol."""

    examples: int
    places: int
    """In a payload, where it is cut. The long ones repeat themselves."""
    lies: int
    """Places in which a payload lies."""
    liars: int
    """Payloads that lie."""


EFFORTS = {
    "tank": Effort(examples=40, places=1000, lies=150, liars=1000),
    "kafka": Effort(examples=6, places=60, lies=30, liars=3),
    "iggy": Effort(examples=16, places=200, lies=60, liars=8),
}
"""Kafka's and Iggy's messages are more, in more versions, and all of one kind."""

PROTOCOLS = {name: definition_files.load(ROOT / "protos" / name) for name in EFFORTS}
MESSAGES = {
    f"{protocol.name}.{message.root.name}": message
    for protocol in PROTOCOLS.values()
    for message in protocol.messages
}
TABLES = {Kind.REQUEST: "REQUESTS", Kind.RESPONSE: "RESPONSES", Kind.DATA: "NOTICES"}

by_name = pytest.mark.parametrize("name", MESSAGES)


def _protocol(name: str) -> str:
    return name.split(".")[0]


def _codec(name: str) -> type[WireMessage]:
    module = import_module(f"tank_protos.generated.{_protocol(name)}.{module_name(MESSAGES[name])}")
    codec: type[WireMessage] = getattr(module, MESSAGES[name].root.name)
    return codec


def _versions(message: Message) -> st.SearchStrategy[int]:
    low, high = message.versions.low, message.versions.high_end
    if message.version_field is None:
        return st.integers(low, high)
    return st.sampled_from(sorted({low, high, *(each for each in (2, 3, 0x101) if low <= each <= high)}))


def test_every_definition_of_the_repository_is_tried() -> None:
    assert {path.parent.name for path in (ROOT / "protos").glob("*/*.json")} == set(PROTOCOLS)


@by_name
def test_a_message_with_a_number_is_found_by_it(name: str) -> None:
    message = MESSAGES[name]
    tables = import_module(f"tank_protos.generated.{_protocol(name)}.by_id")
    found = getattr(tables, TABLES[message.kind]) if message.kind in TABLES else {}
    if message.id is None:
        assert _codec(name) not in found.values()
    else:
        assert found[message.id] is _codec(name)
        assert message.id == _codec(name).ID


@by_name
def test_a_message_round_trips(name: str) -> None:
    message, codec = MESSAGES[name], _codec(name)
    kept = {"keep_unknown": True} if message.root.keeps_tags else {}

    @settings(
        max_examples=EFFORTS[_protocol(name)].examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(st.data())
    def round_trip(data: st.DataObject) -> None:
        version = data.draw(_versions(message))
        chosen = data.draw(values(message, version))
        payload = lay_out(message, chosen, version)
        stated = version if message.version_field is None else 0
        decoded = codec.decode(payload, stated, **kept)
        assert as_values(decoded, message.root) == chosen
        assert b"".join(decoded.encode(stated)) == payload

    round_trip()


@by_name
def test_what_is_cut_anywhere_is_truncated(name: str) -> None:
    message, codec = MESSAGES[name], _codec(name)
    for payload, version in corpus_seeds(message):
        for end in _places(payload, EFFORTS[_protocol(name)].places):
            cut = payload[:end]
            if not takes_the_rest(message):
                with pytest.raises(Truncated):
                    codec.decode(cut, version)
                continue
            try:
                decoded = codec.decode(cut, version)
            except Truncated:
                continue
            assert b"".join(decoded.encode(version)) == cut


def _places(payload: bytes, most: int) -> range:
    """Where to touch a payload: everywhere, or at so many places that lie evenly."""
    return range(0, len(payload), 1 + len(payload) // most)


@pytest.mark.parametrize("name", [name for name in MESSAGES if not takes_the_rest(MESSAGES[name])])
def test_a_byte_too_many_is_refused(name: str) -> None:
    codec = _codec(name)
    for payload, version in corpus_seeds(MESSAGES[name]):
        with pytest.raises(TrailingBytes):
            codec.decode(payload + b"\0", version)


@by_name
def test_a_message_reads_at_an_offset(name: str) -> None:
    codec = _codec(name)
    for payload, version in corpus_seeds(MESSAGES[name]):
        tail = b"" if takes_the_rest(MESSAGES[name]) else b"\xff" * 9
        found, end = codec.read(memoryview(b"\xee" * 3 + payload + tail), 3, version)
        assert (found, end) == (codec.decode(payload, version), 3 + len(payload))


@by_name
def test_lies_cost_no_more_memory_than_the_frame_holds(name: str) -> None:
    """Each byte, and each run of four, becomes as large as it can be."""
    codec = _codec(name)
    effort, seeds = EFFORTS[_protocol(name)], list(corpus_seeds(MESSAGES[name]))
    tracemalloc.start()
    try:
        for payload, version in seeds[:: 1 + len(seeds) // effort.liars]:
            allowed = 16 * 1024 + 200 * len(payload)
            for at in _places(payload, effort.lies):
                for width in (1, 4):
                    lie = payload[:at] + b"\xff" * width + payload[at + width :]
                    before = tracemalloc.get_traced_memory()[0]
                    tracemalloc.reset_peak()
                    with suppress(WireError):
                        codec.decode(lie, version)
                    assert tracemalloc.get_traced_memory()[1] - before < allowed
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("codec", "version", "payload"),
    [
        (CommitPositionsRequest, 0, bytes(5) + b"\0" + b"\xff" * 4 + bytes(100_000)),
        (ListGroupsResponse, 0, bytes(7) + b"\xff" * 4 + bytes(100_000)),
        (DescribeTopicsResponse, 0, bytes(6) + b"\xff" * 4 + bytes(100_000)),
        (ConsumeResponse, 0, b"\xff" * 4 + bytes(100_000)),
        (MetadataResponse, 8, bytes(4) + b"\x7f\xff\xff\xff" + bytes(100_000)),
        (MetadataResponse, 13, bytes(4) + b"\xff\xff\xff\xff\x07" + bytes(100_000)),
    ],
)
def test_a_count_of_billions_is_refused_before_a_list_is_built(
    codec: type[WireMessage], version: int, payload: bytes
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Truncated):
            codec.decode(payload, version)
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_are_not_copied(version: int) -> None:
    """Neither before flexible versions nor in them, where tags follow."""
    partition = PartitionData(3, records=bytes(1 << 20))
    payload = b"".join(
        FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])]).encode(version)
    )
    tracemalloc.start()
    try:
        decoded = FetchResponse.decode(payload, version)
        pieces = decoded.encode(version)
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024
    finally:
        tracemalloc.stop()
    records = decoded.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert any(piece is records for piece in pieces)
    assert b"".join(pieces) == payload


def test_a_payload_is_not_copied() -> None:
    chunk = bytes(1 << 20)
    payload = b"".join(ConsumeResponse(chunks=chunk).encode())
    tracemalloc.start()
    try:
        decoded = ConsumeResponse.decode(payload)
        pieces = decoded.encode()
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024
    finally:
        tracemalloc.stop()
    assert isinstance(decoded.chunks, memoryview)
    assert pieces[-1] is decoded.chunks


def test_a_list_that_takes_the_rest_must_end_with_an_element() -> None:
    payload = b"".join(DiscoverPartitionsRequest(topic="gold", partitions=[1, 2]).encode())
    with pytest.raises(Truncated, match=r"ends in DiscoverPartitionsRequest.Partitions"):
        DiscoverPartitionsRequest.decode(payload[:-1])


def test_the_header_length_of_a_consume_answer_must_be_right() -> None:
    payload = bytearray(b"".join(ConsumeResponse(chunks=b"abc").encode()))
    payload[0] += 1
    with pytest.raises(WireError, match="Topics has a length of 5; the field holds 6"):
        ConsumeResponse.decode(payload)


def test_what_follows_a_marker_that_is_left_out_must_not_look_like_it() -> None:
    known = FetchedTopic("a", 1, False, [FetchedPartition(partition=7, flag=255)])
    taken_for_it = FetchedTopic("b", 1, False, [FetchedPartition(partition=65535, flag=255)])
    ConsumeResponse(0, 1, [known]).encode()
    with pytest.raises(OutOfRange, match=r"behind FetchedTopic.Unknown begin with ffff"):
        ConsumeResponse(0, 1, [known, taken_for_it]).encode()
    # The next topic's name stands there when a topic has no partitions.
    with pytest.raises(OutOfRange):
        ConsumeResponse(0, 1, [FetchedTopic("c"), FetchedTopic("\udcff" * 255)]).encode()


def test_a_condition_on_a_field_that_is_not_there_does_not_hold() -> None:
    led_elsewhere = DiscoveredPartition(5, 9, reason=0xFC, leader_ipv4=bytes(4), leader_port=1)
    wire = b"".join(DiscoverPartitionsResponse(1, "t", [led_elsewhere]).encode())
    assert DiscoverPartitionsResponse.decode(wire).partitions == [DiscoveredPartition(5, 9)]


@by_name
def test_every_seed_is_valid(name: str) -> None:
    found = list(corpus_seeds(MESSAGES[name]))
    assert found
    for payload, version in found:
        assert b"".join(_codec(name).decode(payload, version).encode(version)) == payload


COUNTED = {"tank.IdempotentProduceRequest": "Partitions", "tank.ProduceRecordBatchesRequest": "Partitions"}
"""The messages with a list that is counted, and its name."""


def _counted(name: str, payload: bytes, most: int) -> int:
    method = getattr(_codec(name), f"count_{COUNTED[name].lower()}")
    found: int = method(memoryview(payload), most)
    return found


def test_the_lists_that_are_counted_are_known() -> None:
    assert {
        name: field.name
        for name, message in MESSAGES.items()
        for struct in message.structs
        for field in struct.fields
        if field.is_counted
    } == COUNTED


@pytest.mark.parametrize("name", COUNTED)
def test_elements_are_counted_as_they_are_decoded(name: str) -> None:
    message = MESSAGES[name]

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def counted(data: st.DataObject) -> None:
        payload = lay_out(message, data.draw(values(message, 0)), 0)
        topics: list[Any] = _codec(name).decode(payload).topics  # type: ignore[attr-defined]
        whole = sum(len(topic.partitions) for topic in topics)
        assert _counted(name, payload, 1 << 40) == whole
        assert whole == 0 or _counted(name, payload, whole - 1) == whole
        for end in range(len(payload)):
            assert _counted(name, payload[:end], 1 << 40) <= whole

    counted()
