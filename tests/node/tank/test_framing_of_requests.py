"""Frames out of a stream of bytes: whole, in pieces, too large, unknown, and more of them than may be
under way."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tank_node.limits import Limits
from tank_node.tank.produce_templates import ProducePaths
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeTopic,
    DescribeTopicsRequest,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    StatusRequest,
)
from tank_protos.storage.produce_run import ProduceRun
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import frame
from tests.support.examples import examples
from tests.support.nodes.bench_node import BenchNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 2, flush="replicated")
        yield node


def produce_frame(
    values: list[bytes], *, client_id: str = "c++", request_id: int = 1, partition: int = 0
) -> bytes:
    batch = memoryview(bundle.as_batch(bundle.encode(values, timestamps=1)))
    entry = ProducePartition(partition, batch)
    request = ProduceRequest(2, request_id, client_id, 0, 0, [ProduceTopic("a", [entry])])
    return b"".join(frame(request.ID, request.encode()))


@given(
    values=st.lists(st.binary(max_size=300), min_size=1, max_size=40),
    at=st.integers(0, 2000),
    byte=st.integers(0, 255),
)
@settings(examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_short_way_finds_what_the_full_decoder_finds(
    node: BenchNode, values: list[bytes], at: int, byte: int
) -> None:
    taught = produce_frame([b"first"])
    request = ProduceRequest.decode(taught[5:])
    paths = ProducePaths(1)
    learnt = request.topics[0].partitions[0].bundle
    paths.learn(memoryview(taught)[5:], memoryview(learnt), node.broker.topics["a"].partitions[0], 0)
    path = paths.last
    assert path is not None
    changed = bytearray(produce_frame(values, request_id=77))
    if 5 <= at < len(changed):
        changed[at] = byte
    buffer = bytearray(b"before") + changed + b"behind"
    run = ProduceRun()
    view = memoryview(buffer)
    looked_up = paths.find(buffer, 6, 6 + len(changed))
    answers = run.find(buffer, view, 6, 6 + len(changed), path.prefix, 1, len(buffer))
    try:
        decoded = ProduceRequest.decode(bytes(changed[5:]))
    except WireError:
        assert not answers
        return
    entries = [(topic.name, entry) for topic in decoded.topics for entry in topic.partitions]
    if answers:
        assert looked_up is path
        ((name, entry),) = entries
        assert (name, entry.partition) == ("a", 0)
        assert (decoded.client_id, decoded.required_acks, decoded.ack_timeout_ms) == ("c++", 0, 0)
        assert (run.batches, run.batch_bytes) == (1, len(entry.bundle))
        assert b"".join(run.slices(0, 1)) == entry.bundle
        assert answers == b"\1\5\0\0\0" + decoded.request_id.to_bytes(4, "little") + b"\0"
    elif at < 5 or at >= len(changed):
        raise AssertionError("an ordinary request went the long way")


def test_the_long_and_the_short_way_store_the_same(node: BenchNode) -> None:
    client = node.client()
    for i, size in enumerate([1, 110, 127, 128, 130, 16_300, 16_400, 70_000, 3]):
        client.feed(produce_frame([b"x" * size], request_id=i))
        client.feed(produce_frame([b"x" * size], request_id=i, client_id=f"other{i}"))
    assert [p[4:] for _, p in client.answers()] == [b"\0"] * 18
    assert node.metrics.requests[1, "ok"] == 18
    assert node.broker.topics["a"].partitions[0].high_water_mark == 18


def test_a_topic_made_again_gets_what_is_produced_to_it(node: BenchNode) -> None:
    client = node.client()
    client.feed(produce_frame([b"old"]))
    client.feed(produce_frame([b"old"]))
    node.controller.delete_topic("a", lambda _: None)
    client.feed(produce_frame([b"nowhere"]))
    assert client.answers()[-1][1][-1] == 0xFF
    node.controller.add("a", 1, flush="replicated")
    client.feed(produce_frame([b"new"]))
    assert client.answers()[-1][1][-1] == 0
    assert node.broker.topics["a"].partitions[0].high_water_mark == 1


@given(cuts=st.lists(st.integers(1, 400), max_size=30))
@settings(examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_frames_may_be_cut_anywhere(node: BenchNode, cuts: list[int]) -> None:
    client = node.client()
    status = b"".join(frame(StatusRequest.ID, StatusRequest(3).encode()))
    stream = (
        produce_frame([b"a"], request_id=1) + b"\3\0\0\0\0" + status + produce_frame([b"b"], request_id=2)
    )
    at = 0
    for size in [*cuts, len(stream)]:
        client.feed(stream[at : at + size])
        at += size
    assert sorted(message_id for message_id, _ in client.answers()) == [1, 1, 10]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"\x01\xff\xff\xff\xff", "frame_too_large"),
        (b"\x0a\xff\xff\xff\x00", "frame_too_large"),
        (b"\x09\0\0\0\0", "unknown_message"),
        (b"\x04\x02\0\0\0\0\1", "old_peer"),
        (b"\x99\0\0\0\0", "unknown_message"),
        (b"\x0a\x03\0\0\0\1\2\3", "truncated"),
        (b"\x0a\x05\0\0\0\1\2\3\4\5", "trailing_bytes"),
        (b"\x03\x01\0\0\0\0", "malformed"),
        (b"\x42\x03\0\0\0\0\0\0", "truncated"),
    ],
)
def test_what_cannot_be_taken_closes_the_connection_with_a_reason(
    node: BenchNode, sent: bytes, reason: str
) -> None:
    with pytest.raises(WireError) as raised:
        node.client().feed(sent)
    assert raised.value.reason == reason


def test_too_many_requests_under_way_wait_in_the_clients_bytes(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(in_flight=3)) as node:
        node.controller.add("a", 1, flush="replicated")
        client = node.client()
        wait = ConsumeRequest(2, 1, "", 10_000, 0, 0, [ConsumeTopic("a", [ConsumePartition(0, 1, 100)])])
        for _ in range(5):
            client.send(wait)
        assert client.session.in_flight == 3
        node.pass_ms(10_001)
        assert len(client.answers()) == 3
        client.feed(b"")
        assert client.session.in_flight == 2


def test_small_requests_with_large_answers_are_taken_only_as_fast_as_those_leave(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(unsent_bytes=50_000)) as node:
        node.controller.add("large", 500)
        client = node.client()
        ask = b"".join(frame(68, DescribeTopicsRequest(0, 1, ["large"]).encode()))
        client.feed(ask * 20)
        first = len(client.taken())
        assert 50_000 <= first < 100_000
        client.session.out_bytes = 0  # as the server does when it has sent them
        client.feed(b"")
        assert len(client.taken()) == first


def test_waits_that_name_many_partitions_are_bounded(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(wait_entries=20)) as node:
        node.controller.add("a", 8)
        client = node.client()
        wanted = [ConsumePartition(n, 1, 100) for n in range(8)]
        for request_id in (1, 2, 3):
            client.send(ConsumeRequest(2, request_id, "", 1000, 0, 0, [ConsumeTopic("a", wanted)]))
        assert [payload[4] for _, payload in client.answers()] == [3]
        client.session.close()
        assert node.broker.deadlines.entries == 0


def test_a_request_of_ours_cannot_name_more_bundles_than_the_bound(tmp_path: Path) -> None:
    entry = b"\0\0" + bytes(12) + b"\0"
    payload = bytearray(b"\0\1\0\0\0\0") + bytes(15) + b"\x01\0" + b"\x01a" + (2000).to_bytes(2, "little")
    payload += entry * 2000
    with BenchNode(tmp_path / "data", Limits(produce_entries=1000)) as node:
        with pytest.raises(WireError) as raised:
            node.client().feed(b"\x42" + len(payload).to_bytes(4, "little") + payload)
        assert raised.value.reason == "out_of_range"
