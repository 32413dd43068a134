"""Produce requests that come one after another: taken as runs, they end as they would one by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.limits import Limits
from tank_node.log.flush_work import FlushWork
from tank_node.log.log import PartitionLog
from tank_protos import bundle
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import ProducePartition, ProduceRequest, ProduceTopic
from tank_protos.wire.framing import frame
from tests.support.nodes.bench_node import BenchClient, BenchNode
from tests.support.storage.fault_disk import FaultDisk

pytestmark = pytest.mark.usefixtures("kernel")

BAD = b"\x03\x00\x00\x00"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 2, flush="replicated")
        node.controller.add("durable", 1, flush="disk")
        yield node


def batch_of(*values: bytes) -> bytes:
    return bundle.as_batch(bundle.encode(list(values), timestamps=7))


def request(
    batch: bytes, request_id: int, *, topic: str = "a", client: str = "c", timeout_ms: int = 0
) -> bytes:
    topics = [ProduceTopic(topic, [ProducePartition(0, batch)])]
    return b"".join(frame(1, ProduceRequest(2, request_id, client, 0, timeout_ms, topics).encode()))


def answered(client: BenchClient) -> list[tuple[int, int]]:
    """Request id and error of each answer."""
    return [(int.from_bytes(payload[:4], "little"), payload[4]) for _, payload in client.answers()]


def content(log: PartitionLog) -> tuple[list[bytes], list[bytes]]:
    """The bytes of all segments: logs, and indexes."""
    found: tuple[list[bytes], list[bytes]] = ([], [])
    for segment in log.segments:
        for part, end in zip(found, (segment.log_end, segment.index_end), strict=True):
            part.append(log.disk.read_at(log.segments.files.use(end.file), end.length, 0))
    return found


SIZES = [10, 10, 10, 300, 10, 5000, 20_000, 1, 90, 90, 90, 90, 3000, 15]


@pytest.mark.parametrize("segment_bytes", [1 << 30, 6000, 700, 1])
def test_a_run_is_stored_as_single_requests_are(tmp_path: Path, segment_bytes: int) -> None:
    stored = []
    batches = [batch_of(b"%02d" % n * size, b"") for n, size in enumerate(SIZES)]
    for cut in (1, 3, len(batches)):
        with BenchNode(tmp_path / str(cut)) as node:
            node.controller.add("a", 1, flush="replicated", log_segment_bytes=str(segment_bytes))
            client = node.client()
            for n in range(0, len(batches), cut):
                client.feed(b"".join(request(batch, n) for batch in batches[n : n + cut]))
            log = node.broker.topics["a"].partitions[0].log
            assert log.last == 2 * len(batches)
            stored.append(content(log))
    assert stored[0] == stored[1] == stored[2]
    assert b"".join(stored[0][0]) == b"".join(batches)


def test_what_is_refused_in_the_middle_keeps_nobody_out(node: BenchNode) -> None:
    client = node.client()
    batches = [batch_of(b"%d" % n) for n in range(6)]
    batches[3] = BAD
    client.feed(b"".join(request(batch, n) for n, batch in enumerate(batches)))
    results = answered(client)
    assert sorted(results) == [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, ErrorCode.INVALID_BUNDLE % 256),
        (4, 0),
        (5, 0),
    ] or (sorted(results) == [(0, 0), (1, 0), (2, 0), (3, 2), (4, 0), (5, 0)])
    assert [number for number, error in results if not error] == [0, 1, 2, 4, 5]
    assert client.session.in_flight == 0
    assert sum(node.metrics.refused.values()) == 1
    assert node.metrics.requests[1, "ok"] == 5
    assert node.broker.topics["a"].partitions[0].log.last == 5


def test_a_sparse_bundle_in_the_middle_of_a_run_gets_its_place(node: BenchNode) -> None:
    client = node.client()
    sparse = bundle.as_batch(bundle.encode_sparse([10], [b"ten"], timestamps=1))
    batches = [batch_of(b"one"), batch_of(b"two"), sparse, batch_of(b"eleven"), batch_of(b"twelve")]
    client.feed(b"".join(request(batch, n) for n, batch in enumerate(batches)))
    assert answered(client) == [(n, 0) for n in range(5)]
    log = node.broker.topics["a"].partitions[0].log
    assert [record.first for record in log.segments[0].index.records()] == [1, 2, 10, 11, 12]


def test_clients_that_share_a_tick_get_their_own_answers(node: BenchNode) -> None:
    clients = [node.client() for _ in range(4)]
    for client in clients:
        client.feed(request(batch_of(b"first"), 99))
        assert answered(client) == [(99, 0)]
    sessions = [client.session for client in clients]
    buffer = bytearray(10_000)
    view = memoryview(buffer)
    at = 0
    for n, session in enumerate(sessions):
        data = b"".join(request(batch_of(b"%d" % n * 50), 10 * n + i) for i in range(n + 1))
        buffer[at : at + len(data)] = data
        assert session.receive(buffer, view, at, at + len(data)) == at + len(data)
        at = session.kept
    assert [session.in_flight for session in sessions] == [1, 2, 3, 4]
    node.tick()
    for n, client in enumerate(clients):
        assert answered(client) == [(10 * n + i, 0) for i in range(n + 1)]
        assert client.session.in_flight == 0
    written, _ = content(node.broker.topics["a"].partitions[0].log)
    wanted = [batch_of(b"first")] * 4 + [batch_of(b"%d" % n * 50) for n in range(4) for _ in range(n + 1)]
    assert written == [b"".join(wanted)]


def test_a_run_waits_for_the_disk_where_the_topic_says_so(node: BenchNode) -> None:
    client = node.client()
    for _ in range(2):
        client.feed(b"".join(request(batch_of(b"x"), n, topic="durable") for n in range(5)))
        assert client.taken() == b""
        assert client.session.in_flight == 5
        assert node.broker.topics["durable"].partitions[0].acks.batches_waiting() == 5
        node.sync()
        assert answered(client) == [(n, 0) for n in range(5)]
        assert client.session.in_flight == 0


def test_requests_of_a_run_wait_for_their_own_time(node: BenchNode) -> None:
    """Two clients, one tick, two timeouts: each is told at its own that nobody knows."""
    partition = node.broker.topics["durable"].partitions[0]
    partition.log.flushing = FlushWork(partition.log.segments.files, 0, [], ())  # a round that never ends
    clients = [node.client(), node.client()]
    times = [300, 700]
    for client, timeout_ms in zip(clients, times, strict=True):
        client.feed(request(batch_of(b"x"), 1, topic="durable", timeout_ms=timeout_ms))
    buffer = bytearray(1000)
    view = memoryview(buffer)
    at = 0
    for client, timeout_ms in zip(clients, times, strict=True):
        data = request(batch_of(b"x"), 2, topic="durable", timeout_ms=timeout_ms)
        buffer[at : at + len(data)] = data
        client.session.receive(buffer, view, at, at + len(data))
        at += len(data)
    node.tick()
    node.pass_ms(300)
    node.broker.give_up_late()
    late = ErrorCode.NOT_ACKNOWLEDGED_IN_TIME
    assert [answered(client) for client in clients] == [[(1, late), (2, late)], []]
    node.pass_ms(400)
    node.broker.give_up_late()
    assert answered(clients[1]) == [(1, late), (2, late)]
    partition.log.flushing = None


def test_no_more_is_taken_than_may_be_under_way(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(in_flight=4)) as node:
        node.controller.add("durable", 1, flush="disk")
        client = node.client()
        client.feed(b"".join(request(batch_of(b"x"), n, topic="durable") for n in range(10)))
        for first, last in ((0, 4), (4, 8), (8, 10)):
            assert client.session.in_flight == last - first
            node.sync()
            assert answered(client) == [(n, 0) for n in range(first, last)]
            client.feed(b"")
        assert client.pending_bytes == 0


def test_a_run_that_the_disk_refuses_is_answered_so_and_leaves_nothing(tmp_path: Path) -> None:
    disk = FaultDisk()
    with BenchNode(tmp_path / "data", disk=disk) as node:
        node.controller.add("a", 1, flush="replicated")
        client = node.client()
        client.feed(request(batch_of(b"first"), 0))
        partition = node.broker.topics["a"].partitions[0]
        partition.log.fail("a test")
        client.feed(b"".join(request(batch_of(b"x"), n) for n in range(1, 4)))
        assert answered(client) == [(0, 0), (1, 2), (2, 2), (3, 2)]
        assert partition.log.last == 1
        assert (partition.found.batches.batches, partition.staged_batches) == (0, 0)


def test_a_partition_that_goes_before_the_tick_ends_stores_nothing_of_a_run(node: BenchNode) -> None:
    client = node.client()
    client.feed(request(batch_of(b"first"), 0))
    answered(client)
    data = b"".join(request(batch_of(b"x"), n) for n in range(3))
    buffer = bytearray(data)
    client.session.receive(buffer, memoryview(buffer), 0, len(buffer))
    partition = node.broker.topics["a"].partitions[0]
    node.controller.delete_topic("a", lambda _: None)
    node.tick()
    assert answered(client) == [(n, 1) for n in range(3)]
    assert partition.found.batches.batches == 0
    assert client.session.in_flight == 0
