"""What clients see when the disk is full or fails: errors for their writes, and reads as before."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.log.flush_work import FlushWork
from tank_node.segment.errors import StorageError
from tank_node.segment.index import TAIL_RECORDS
from tank_protos.error_codes import ErrorCode
from tests.support.clients.produce import batch_of, idempotent, outcome, produce, read
from tests.support.nodes.bench_node import BenchNode
from tests.support.storage.fault_disk import FaultDisk


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def node(disk: FaultDisk) -> Iterator[BenchNode]:
    node = BenchNode(Path("/data"), disk=disk)
    node.controller.add("a", 1, flush="replicated")
    node.controller.add("durable", 1, flush="disk")
    yield node
    disk.capacity_bytes = None
    disk.fail_sync = lambda path: False
    node.close()


def test_a_full_disk_refuses_writes_until_there_is_room(node: BenchNode, disk: FaultDisk) -> None:
    client = node.client()
    assert produce(client, batch_of(b"kept")) == b"\0"
    disk.capacity_bytes = 1
    assert produce(client, batch_of(b"x" * 1000)) == b"\x02"
    idempotent(client, 0, b"y" * 1000)
    assert outcome(client)[0] == ErrorCode.STORAGE
    assert read(client) == [(1, b"kept")]
    disk.capacity_bytes = None
    idempotent(client, 0, b"again")
    assert outcome(client) == (0, 2, 2)
    assert read(client) == [(1, b"kept"), (2, b"again")]
    assert node.metrics.refused["disk_full"] == 2


def test_a_failed_fsync_ends_writes_to_that_partition_alone(node: BenchNode, disk: FaultDisk) -> None:
    client = node.client()
    disk.fail_sync = lambda path: True
    idempotent(client, 0, b"never safe", topic="durable")
    assert client.taken() == b""
    node.sync()
    assert outcome(client)[0] == ErrorCode.NOT_ACKNOWLEDGED_IN_TIME, "it is written, and may be stored"
    disk.fail_sync = lambda path: False
    idempotent(client, 0, b"again", topic="durable")
    assert outcome(client)[0] == ErrorCode.STORAGE
    assert produce(client, batch_of(b"elsewhere")) == b"\0"
    assert node.broker.topics["durable"].partitions[0].high_water_mark == 0


@pytest.mark.plain_node
def test_who_waits_hears_of_an_fsync_that_cannot_even_begin(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(work: FlushWork) -> None:
        raise StorageError("no file could be opened")

    client = node.client()
    monkeypatch.setattr(FlushWork, "pin", fails)
    idempotent(client, 0, b"never safe", topic="durable")
    assert not client.taken(), "it is told when the tick is over"
    node.sync()
    assert outcome(client)[0] == ErrorCode.NOT_ACKNOWLEDGED_IN_TIME


def test_no_descriptors_left_is_an_error_of_the_request(node: BenchNode, disk: FaultDisk) -> None:
    client = node.client()
    disk.max_open_files = 1
    assert produce(client, batch_of(b"x")) == b"\x02"
    disk.max_open_files = None
    assert produce(client, batch_of(b"y")) == b"\0"
    assert read(client) == [(1, b"y")]


def test_a_producers_memory_that_cannot_be_read_is_an_error_of_the_request(
    node: BenchNode, disk: FaultDisk
) -> None:
    client = node.client()
    many = 2 * TAIL_RECORDS + 1
    for sequence in range(many):
        idempotent(client, sequence, b"x")
        assert outcome(client) == (0, sequence + 1, sequence + 1)
    node.broker.topics["a"].partitions[0].log.producers.forget()
    disk.fail_read = lambda path: True
    idempotent(client, many, b"y")
    assert outcome(client)[0] == ErrorCode.STORAGE
    disk.fail_read = lambda path: False
    idempotent(client, many, b"y")
    assert outcome(client) == (0, many + 1, many + 1)
