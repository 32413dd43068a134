"""The scrub's steps: everything has its turn, as much as an hour may read and no more, in short pieces."""

import contextlib
import errno
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.log.log import LogState, PartitionLog
from tank_node.segment.scrub import Scrubbed
from tests.support.clients.produce import batch_of, produce
from tests.support.nodes.bench_node import BenchNode
from tests.support.storage.fault_disk import FaultDisk


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def node(disk: FaultDisk) -> Iterator[BenchNode]:
    with BenchNode(Path("/data"), disk=disk) as node:
        yield node


def fill(node: BenchNode, partition: int, batches: int, value_bytes: int, topic: str = "a") -> None:
    client, chance = node.client(), random.Random(1)
    for _ in range(batches):
        batch = batch_of(chance.randbytes(value_bytes))
        assert produce(client, batch, topic, partition) == b"\0"
    node.sync()


def log_of(node: BenchNode, partition: int) -> PartitionLog:
    return node.broker.topics["a"].partitions[partition].log


def scrub(node: BenchNode, steps: int) -> None:
    for _ in range(steps):
        node.maintenance.scrub()


def spoil(disk: FaultDisk, log: PartitionLog, at: int = -1) -> None:
    """A byte of its newest segment becomes another one."""
    path = log.segments[-1].path(".log")
    content = bytearray(disk.content(path))
    content[at] ^= 1
    disk.overwrite(path, bytes(content))


def state_of(node: BenchNode, partition: int) -> LogState:
    return log_of(node, partition).state


def test_damage_is_found_behind_many_empty_partitions(node: BenchNode, disk: FaultDisk) -> None:
    node.controller.add("a", 250, flush="replicated")
    fill(node, 249, 3, 100)
    spoil(disk, log_of(node, 249))
    scrub(node, 5)  # one to begin a round, then a hundred partitions each
    assert state_of(node, 249) is LogState.DAMAGED
    assert node.metrics.refused["damaged_batch"] == 1


def test_short_batches_are_checked_a_few_at_a_time(node: BenchNode, disk: FaultDisk) -> None:
    node.controller.add("a", 1, flush="replicated")
    fill(node, 0, 1000, 100)
    for segment in log_of(node, 0).segments:
        segment.index.drop_memory()
    step = node.broker.limits.scrub_bytes
    scrub(node, 1)
    for _ in range(10):
        read = disk.bytes_read
        scrub(node, 1)
        assert 0 < disk.bytes_read - read < 6 * step, "the batches, their records, and the search for them"


def test_long_batches_make_it_read_no_more_in_an_hour(node: BenchNode, disk: FaultDisk) -> None:
    node.controller.add("a", 1, flush="replicated")
    fill(node, 0, 20, 50_000)
    read, steps = disk.bytes_read, 200
    scrub(node, steps)
    records = 4096
    assert disk.bytes_read - read < steps * node.broker.limits.scrub_bytes + 50_100 + 20 * records


def test_a_partition_that_never_ends_leaves_the_others_their_turns(node: BenchNode, disk: FaultDisk) -> None:
    node.controller.add("a", 2, flush="replicated")
    fill(node, 0, 40, 50_000)
    fill(node, 1, 3, 50)
    spoil(disk, log_of(node, 1))
    limits = node.broker.limits
    assert log_of(node, 0).size_bytes > limits.scrub_turn_bytes + 500_000
    scrub(node, limits.scrub_turn_bytes // limits.scrub_bytes + 50)
    assert state_of(node, 1) is LogState.DAMAGED


def test_it_goes_on_where_a_partition_s_last_turn_ended(node: BenchNode, disk: FaultDisk) -> None:
    node.controller.add("a", 2, flush="replicated")
    fill(node, 0, 40, 50_000)
    fill(node, 1, 3, 50)
    limits, log = node.broker.limits, log_of(node, 0)
    assert log.size_bytes < 2 * limits.scrub_turn_bytes
    spoil(disk, log)
    scrub(node, 2 * limits.scrub_turn_bytes // limits.scrub_bytes + 10)
    assert state_of(node, 0) is LogState.DAMAGED


def test_a_topic_that_is_deleted_in_its_turn_leaves_it_to_the_next(node: BenchNode, disk: FaultDisk) -> None:
    node.controller.add("b", 1, flush="replicated")
    node.controller.add("a", 1, flush="replicated")
    fill(node, 0, 1, 50_000, topic="b")
    scrub(node, 2)
    fill(node, 0, 3, 50)
    node.controller.delete_topic("b", lambda _: None)
    spoil(disk, log_of(node, 0))
    scrub(node, 20)
    assert state_of(node, 0) is LogState.DAMAGED


@pytest.mark.plain_node
def test_a_fault_of_ours_in_one_partition_leaves_the_others_their_turns(
    node: BenchNode, disk: FaultDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.controller.add("a", 2, flush="replicated")
    for partition in (0, 1):
        fill(node, partition, 3, 50)
    spoil(disk, log_of(node, 1))
    plain, faulty = PartitionLog.scrub, log_of(node, 0)

    def scrub_with_a_bug(log: PartitionLog, max_bytes: int) -> Scrubbed:
        if log is faulty:
            raise RuntimeError("a bug")
        return plain(log, max_bytes)

    monkeypatch.setattr(PartitionLog, "scrub", scrub_with_a_bug)
    for _ in range(5):
        with contextlib.suppress(RuntimeError):
            node.maintenance.scrub()
    assert state_of(node, 1) is LogState.DAMAGED


def test_a_disk_that_fails_is_told_of_now_and_then(node: BenchNode, disk: FaultDisk) -> None:
    node.controller.add("a", 1, flush="replicated")
    fill(node, 0, 3, 50)
    plain = disk.read_at

    def fail(fd: int, length: int, position: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    disk.read_at = fail  # type: ignore[method-assign]
    scrub(node, 600)
    disk.read_at = plain  # type: ignore[method-assign]
    assert 0 < node.metrics.storage_errors < 10
    assert state_of(node, 0) is LogState.ACTIVE
