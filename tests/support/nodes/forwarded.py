"""Clients of a broker that forwards: their requests and answers."""

from pathlib import Path

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.peers.forward_session import ForwardSession
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tests.support.clients.produce import batch_of
from tests.support.nodes.bench_node import BenchClient
from tests.support.nodes.broker_cell import BrokerCell, CellNode

OLD, NEW = 0, 2
"""Client versions: of the old document, and one that knows leaders."""


def three_leaders(folder: Path) -> BrokerCell:
    """Three brokers that forward; partition n of "a" is led by broker n + 1."""
    cell = BrokerCell(folder, 3, forwarding=ForwardingPolicy.AUTO)
    cell.create(partitions=3, flush="replicated")
    cell.change(1, leader=2)
    cell.change(2, leader=3)
    cell.run(300)
    return cell


def produce_request(
    *bundles: tuple[int, bytes], version: int = OLD, request_id: int = 1, ack_timeout_ms: int = 0
) -> ProduceRequest:
    entries = [ProducePartition(number, memoryview(batch_of(value))) for number, value in bundles]
    return ProduceRequest(version, request_id, "me", 0, ack_timeout_ms, [ProduceTopic("a", entries)])


def results(client: BenchClient) -> list[tuple[int, bytes]]:
    """(request id, result bytes) of each answer."""
    found = []
    for message_id, payload in client.answers():
        assert message_id == 1
        found.append((int.from_bytes(payload[:4], "little"), bytes(payload[4:])))
    return found


def consume_request(
    *wanted: tuple[int, int],
    wait_ms: int = 0,
    version: int = OLD,
    min_bytes: int = 0,
    request_id: int = 7,
    size: int = 1 << 20,
) -> ConsumeRequest:
    topics = [ConsumeTopic("a", [ConsumePartition(number, first, size) for number, first in wanted])]
    return ConsumeRequest(version, request_id, "", wait_ms, min_bytes, 0, topics)


def fetched(client: BenchClient) -> list[ConsumeResponse]:
    found = []
    for message_id, payload in client.answers():
        assert message_id == 2
        found.append(ConsumeResponse.decode(payload))
    return found


def values(answer: ConsumeResponse) -> dict[int, list[bytes]]:
    """What each partition of an answer has."""
    found, at = {}, 0
    for told in answer.topics[0].partitions:
        chunk = memoryview(answer.chunks)[at : at + told.chunk_length]
        at += told.chunk_length
        batches = bundle.bundles(chunk)
        found[told.partition] = [m.value for batch in batches for m in bundle.decode(batch, 1)]
    assert at == len(answer.chunks)
    return found


def flags(answer: ConsumeResponse) -> list[int]:
    return [told.flag for told in answer.topics[0].partitions]


def stored(node: CellNode, number: int) -> list[bytes]:
    """Everything in a partition's log."""
    log = node.log("a", number)
    found: list[bytes] = []
    while len(found) < log.last:
        stretch = log.read(len(found) + 1, 1 << 20, log.last)
        assert stretch is not None
        data = log.disk.read_at(stretch.file.fd, stretch.length, stretch.position)
        stretch.file.release()
        found += [m.value for batch in bundle.bundles(memoryview(data)) for m in bundle.decode(batch, 1)]
    return found


def lead(cell: BrokerCell, client: BenchClient, number: int, *written: bytes) -> None:
    """These are acknowledged, one by one."""
    for value in written:
        client.send(produce_request((number, value)))
    cell.run(400)
    assert [told for _, told in results(client)] == [b"\0"] * len(written)


def line_to(node: CellNode, leader: int) -> ForwardSession:
    """The connection on which this broker forwards requests to that one."""
    (session,) = [
        near.session
        for one, other, near, _ in node.cell.pipes
        if (one, other) == (node.broker_id, leader)
        and isinstance(near.session, ForwardSession)
        and not near.closed
    ]
    return session
