"""What the broker does between requests: fsyncs that settings ask for, retention, the times it measures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.log.log import PartitionLog
from tank_node.partition.partition import Partition
from tank_node.store.meta import machine_boot_id
from tank_protos.generated.tank import ProducePartition, ProduceRequest, ProduceTopic
from tank_protos.wire.framing import frame
from tests.support.clients.produce import batch_of, idempotent, outcome, produce
from tests.support.nodes.bench_node import BenchNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def log_of(node: BenchNode, topic: str) -> PartitionLog:
    return node.broker.topics[topic].partitions[0].log


@pytest.mark.parametrize("flush", ["replicated", "disk"])
def test_a_log_that_rolled_is_looked_at_before_its_turn(node: BenchNode, flush: str) -> None:
    settings = {"log_segment_bytes": "1k", "retention_segments_count": "2"}
    node.controller.add("busy", 1, flush=flush, **settings)
    client = node.client()
    for sequence in range(20):
        idempotent(client, sequence, b"x" * 600, topic="busy")
        node.sync()
        assert outcome(client)[0] == 0
        node.maintenance.look_at_rolled()
    assert len(log_of(node, "busy").segments) <= 3


def test_flush_messages_bounds_what_is_not_synced(node: BenchNode) -> None:
    node.controller.add("counted", 1, flush="replicated", flush_messages="3")
    client = node.client()
    log = log_of(node, "counted")
    for _ in range(2):
        assert produce(client, batch_of(b"x"), topic="counted") == b"\0"
    node.sync()
    assert (log.written, log.synced) == (2, 0)
    assert produce(client, batch_of(b"x"), topic="counted") == b"\0"
    node.sync()
    assert (log.written, log.synced) == (3, 3)


@pytest.mark.parametrize(("settings", "seconds"), [({"flush_secs": "2"}, 2), ({}, 5)])
def test_flush_secs_bounds_how_long_something_is_not_synced(
    node: BenchNode, settings: dict[str, str], seconds: int
) -> None:
    node.controller.add("timed", 1, flush="replicated", **settings)
    client = node.client()
    log = log_of(node, "timed")

    def turn() -> None:
        for _ in range(3):  # one of them has the partition's turn
            node.maintenance.run()
        node.sync()

    turn()
    produce(client, batch_of(b"x"), topic="timed")
    turn()
    assert log.synced == 1, "the first one is due at once"
    produce(client, batch_of(b"x"), topic="timed")
    node.pass_ms(seconds * 1000 - 1)
    turn()
    assert (log.written, log.synced) == (2, 1)
    node.pass_ms(1)
    turn()
    assert log.synced == 2


def test_times_below_a_millisecond_are_told_apart(node: BenchNode) -> None:
    node.controller.add("durable", 1, flush="disk")
    client = node.client()
    idempotent(client, 0, b"x", topic="durable")
    node.clock.pass_us(300)
    node.sync()
    assert outcome(client)[0] == 0
    assert node.metrics.produce_latency.sum_s == pytest.approx(0.0003)


@pytest.mark.plain_node
@pytest.mark.parametrize("flush", ["replicated", "disk"])
def test_a_bug_that_one_partition_meets_does_not_hurt_another(
    node: BenchNode, flush: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Partition, mark: int) -> None:
        if self.number == 0:
            raise RuntimeError("a bug")
        advance(self, mark)

    advance = Partition.advance
    node.controller.add("a", 2, flush=flush)
    client = node.client()
    monkeypatch.setattr(Partition, "advance", fails)
    entries = [ProducePartition(number, memoryview(batch_of(b"x"))) for number in (0, 1)]
    requests = [ProduceRequest(2, e.partition, "", 0, 0, [ProduceTopic("a", [e])]) for e in entries]
    client.feed(b"".join(part for request in requests for part in frame(1, request.encode())))
    node.sync()
    assert [bytes(payload) for _, payload in client.answers()] == [b"\1\0\0\0\0"]


def test_a_committed_registration_makes_this_run_of_the_machine_count(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "folder") as node:
        assert node.data_folder.meta.boot_id == (machine_boot_id() or "unknown"), "the claims are told"
