"""The generated codecs: round trips, cuts at every byte, bytes too many, lengths and counts that lie."""

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tank_compiler.schema.loading import load_protocol
from tank_compiler.schema.schema import Kind, Message
from tank_compiler.tools import corpus
from tank_compiler.tools.interpreter import lay_out
from tank_protos.generated.tank import (
    NOTICES,
    REQUESTS,
    RESPONSES,
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
from tests.support.schema_values import as_values, takes_the_rest, values

ROOT = Path(__file__).parents[2]
PROTOCOL = load_protocol(
    "tank", [(path.name, path.read_text()) for path in (ROOT / "protos/tank").glob("*.json")]
)
CODECS = {Kind.REQUEST: REQUESTS, Kind.RESPONSE: RESPONSES, Kind.DATA: NOTICES}
MESSAGES = {message.root.name: message for message in PROTOCOL.messages}
SEEDS = {f"{name}-{seed}": payload for name in MESSAGES for seed, payload in corpus.seeds(MESSAGES[name])}

by_name = pytest.mark.parametrize("name", MESSAGES)


def _codec(name: str) -> type[WireMessage]:
    message = MESSAGES[name]
    assert message.id is not None
    codec = CODECS[message.kind][message.id]
    assert codec.__name__ == name
    return codec


def _seeds(name: str) -> Iterator[bytes]:
    for _, payload in corpus.seeds(MESSAGES[name]):
        yield payload


def _versions(message: Message) -> st.SearchStrategy[int]:
    low, high = message.versions.low, message.versions.high_end
    return st.sampled_from(sorted({low, 2, 3, 0x101, high})) if high > low else st.just(low)


@by_name
def test_a_message_round_trips(name: str) -> None:
    message, codec = MESSAGES[name], _codec(name)

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def round_trip(data: st.DataObject) -> None:
        version = data.draw(_versions(message))
        chosen = data.draw(values(message, version))
        payload = lay_out(message, chosen, version)
        decoded = codec.decode(payload, version if message.version_field is None else 0)
        assert as_values(decoded, message.root) == chosen
        assert b"".join(decoded.encode()) == payload

    round_trip()


@by_name
def test_what_is_cut_anywhere_is_truncated(name: str) -> None:
    message, codec = MESSAGES[name], _codec(name)
    for payload in _seeds(name):
        for end in range(len(payload)):
            cut = payload[:end]
            if not takes_the_rest(message):
                with pytest.raises(Truncated):
                    codec.decode(cut)
                continue
            try:
                decoded = codec.decode(cut)
            except Truncated:
                continue
            assert b"".join(decoded.encode()) == cut


@pytest.mark.parametrize("name", [name for name in MESSAGES if not takes_the_rest(MESSAGES[name])])
def test_a_byte_too_many_is_refused(name: str) -> None:
    codec = _codec(name)
    for payload in _seeds(name):
        with pytest.raises(TrailingBytes):
            codec.decode(payload + b"\0")


@by_name
def test_a_message_reads_at_an_offset(name: str) -> None:
    codec = _codec(name)
    for payload in _seeds(name):
        tail = b"" if takes_the_rest(MESSAGES[name]) else b"\xff" * 9
        found, end = codec.read(memoryview(b"\xee" * 3 + payload + tail), 3)
        assert (found, end) == (codec.decode(payload), 3 + len(payload))


@by_name
def test_lies_cost_no_more_memory_than_the_frame_holds(name: str) -> None:
    """Each byte, and each run of four, becomes as large as it can be."""
    codec = _codec(name)
    tracemalloc.start()
    try:
        for payload in _seeds(name):
            allowed = 16 * 1024 + 200 * len(payload)
            # The long seeds repeat themselves: 150 places of each are enough.
            for at in range(0, len(payload), 1 + len(payload) // 150):
                for width in (1, 4):
                    lie = payload[:at] + b"\xff" * width + payload[at + width :]
                    before = tracemalloc.get_traced_memory()[0]
                    tracemalloc.reset_peak()
                    with suppress(WireError):
                        codec.decode(lie)
                    assert tracemalloc.get_traced_memory()[1] - before < allowed
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (CommitPositionsRequest, bytes(5) + b"\0" + b"\xff" * 4 + bytes(100_000)),
        (ListGroupsResponse, bytes(7) + b"\xff" * 4 + bytes(100_000)),
        (DescribeTopicsResponse, bytes(6) + b"\xff" * 4 + bytes(100_000)),
        (ConsumeResponse, b"\xff" * 4 + bytes(100_000)),
    ],
)
def test_a_count_of_four_billion_is_refused_before_a_list_is_built(
    codec: type[WireMessage], payload: bytes
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Truncated):
            codec.decode(payload)
        assert tracemalloc.get_traced_memory()[1] < 32 * 1024
    finally:
        tracemalloc.stop()


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
    with pytest.raises(WireError, match="Topics has a length of 5; its place is for 6"):
        ConsumeResponse.decode(payload)


def test_what_follows_a_marker_that_is_left_out_must_not_look_like_it() -> None:
    known = FetchedTopic("a", 1, False, [FetchedPartition(partition=7, flag=255)])
    taken_for_it = FetchedTopic("b", 1, False, [FetchedPartition(partition=65535, flag=255)])
    ConsumeResponse(0, 1, [known]).encode()
    with pytest.raises(OutOfRange, match=r"follows FetchedTopic.Unknown begins with ffff"):
        ConsumeResponse(0, 1, [known, taken_for_it]).encode()
    # The next topic's name stands there when a topic has no partitions.
    with pytest.raises(OutOfRange):
        ConsumeResponse(0, 1, [FetchedTopic("c"), FetchedTopic("\udcff" * 255)]).encode()


def test_a_condition_on_a_field_that_is_not_there_does_not_hold() -> None:
    led_elsewhere = DiscoveredPartition(5, 9, reason=0xFC, leader_ipv4=bytes(4), leader_port=1)
    wire = b"".join(DiscoverPartitionsResponse(1, "t", [led_elsewhere]).encode())
    assert DiscoverPartitionsResponse.decode(wire).partitions == [DiscoveredPartition(5, 9)]


def test_every_seed_is_valid() -> None:
    assert len(SEEDS) > 3 * len(MESSAGES) - 10
    for name in MESSAGES:
        for payload in _seeds(name):
            assert b"".join(_codec(name).decode(payload).encode()) == payload
