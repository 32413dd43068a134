"""Every request captured from the C++ broker gets the captured answer, byte for byte, except where
listed here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumeRequest,
    ConsumeResponse,
    DiscoverTopicsResponse,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    StatusResponse,
)
from tank_protos.wire.errors import WireError
from tests.support.nodes.bench_node import BenchClient, BenchNode
from tests.support.values.golden_conversations import CLOSED, LARGER_CHUNK_THERE, frames, pairs

SETS = ("02_produce_plain", "03_snappy", "04_errors", "05_consume", "06_tail", "07_sparse", "08_pipelining")


NOT_COMPARABLE = {"status"}
"""Holds times."""

UNORDERED = {"discover_topics"}
"""The original's hash order; ours is by name."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        for topic in ("gold", "multi", "tail", "sparse"):
            node.controller.add(topic, 4, flush="replicated")
        yield node


def produce(client: BenchClient, topic: str, partition: int, batch: bytes) -> None:
    entry = ProducePartition(partition, memoryview(batch))
    client.ask(ProduceRequest(2, 1, "", 0, 0, [ProduceTopic(topic, [entry])]))


def replay(node: BenchNode, name: str) -> None:
    client = node.client()
    for key, request, expected in pairs(name):
        if key in CLOSED:
            with pytest.raises(WireError):
                node.client().feed(request)
            continue
        client.feed(request)
        answer = client.taken()
        if not answer:
            answer = wake(node, client, key, expected)
        if key in LARGER_CHUNK_THERE:
            assert ConsumeResponse.decode(answer[5:]).chunks == expected[5 + 38 :][:17]
        else:
            assert answer.hex() == expected.hex(), f"{name} {key}"


def wake(node: BenchNode, client: BenchClient, key: str, expected: bytes) -> bytes:
    """Lets happen what the captured wait was answered for: the bundles of the answer arrive, or time
    passes."""
    answer = ConsumeResponse.decode(expected[5:])
    chunks = memoryview(answer.chunks)
    other = node.client()
    if key == "tail_minbytes_timeout":
        produce(other, "tail", 1, bundle.as_batch(bundle.encode([b"too little"], timestamps=0)))
    for topic in answer.topics:
        for partition in topic.partitions:
            for stored in bundle.bundles(chunks[: partition.chunk_length]):
                assert client.taken() == b""
                produce(other, topic.name, partition.partition, bundle.as_batch(stored))
            chunks = chunks[partition.chunk_length :]
    woken = client.taken()
    if not woken:
        node.pass_ms(6_000)
        woken = client.taken()
    return woken


def test_all_captured_answers_come_byte_for_byte(node: BenchNode) -> None:
    for name in SETS[:-1]:
        replay(node, name)


def test_a_waiting_consume_is_overtaken_and_answered_before_the_produce_that_wakes_it(
    node: BenchNode,
) -> None:
    replay(node, "02_produce_plain")
    captured = {frame["name"]: bytes.fromhex(frame["hex"]) for frame in frames("08_pipelining")}
    client = node.client()
    client.feed(captured["pipe.req1"])
    client.feed(captured["pipe.req2"])
    overtaking = ConsumeResponse.decode(client.taken()[5:])
    assert overtaking.request_id == 2
    assert bytes(overtaking.chunks) == captured["pipe.resp_first"][5 + 38 :][:17]  # fetch_size 1: one bundle
    client.feed(captured["pipe.req3"])
    assert client.taken() == captured["pipe.resp_second"] + captured["pipe.resp_third"]


def test_admin_answers_come_byte_for_byte(node: BenchNode) -> None:
    replay(node, "02_produce_plain")
    replay(node, "04_errors")
    produce(node.client(), "gold", 0, bundle.as_batch(bundle.encode([b"pp"], timestamps=1)))
    client = node.client()
    for key, request, expected in pairs("09_admin_and_peer"):
        if key in CLOSED:
            with pytest.raises(WireError):
                node.client().feed(request)
            continue
        client.feed(request)
        answer = client.taken()
        if key in NOT_COMPARABLE:
            assert StatusResponse.decode(answer[5:]).version == 1000
            assert len(answer) == len(expected)
        elif key in UNORDERED:
            ours, theirs = (
                DiscoverTopicsResponse.decode(answer[5:]),
                DiscoverTopicsResponse.decode(expected[5:]),
            )
            assert ours.topics == sorted(theirs.topics, key=lambda topic: topic.name)
        elif key in ("discover_partitions",):
            assert answer[:14] == expected[:14]
            assert len(answer) == len(expected)
        else:
            assert answer.hex() == expected.hex(), key


def test_what_the_original_command_line_compressed_comes_back(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("golden", 2, flush="replicated")
        client = node.client()
        exchanged = [f for f in frames("03_snappy") if f["name"].startswith("cli_")]
        for request, answer in zip(exchanged[::2], exchanged[1::2], strict=True):
            client.feed(bytes.fromhex(request["hex"]))
            taken = client.taken()
            if not taken:
                node.pass_ms(60_000)
                taken = client.taken()
            assert taken.hex() == answer["hex"]


def test_the_first_thing_on_a_connection_is_a_ping(node: BenchNode) -> None:
    client = node.client()
    client.session.ping()
    assert client.taken().hex() == frames("01_ping")[0]["hex"]


@pytest.mark.parametrize("name", SETS)
def test_answers_are_the_same_when_requests_come_byte_by_byte(node: BenchNode, name: str) -> None:
    whole, slow = node.client(), node.client()
    for key, request, _ in pairs(name):
        if key in CLOSED or not isinstance_of_read(request):
            continue
        whole.feed(request)
        for i in range(len(request)):
            slow.feed(request[i : i + 1])
        assert slow.taken() == whole.taken(), key


def isinstance_of_read(request: bytes) -> bool:
    """Whether asking twice gives the same answer: a consume that does not wait."""
    return request[0] == ConsumeRequest.ID and not ConsumeRequest.decode(request[5:]).max_wait_ms
