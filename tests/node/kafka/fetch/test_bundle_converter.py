"""Bundles as record batches: what is kept for the next consumer, and what cannot be converted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.link import TopicAlteration
from tank_node.kafka.fetch.bundle_converter import BundleConverter, Unconvertible
from tank_node.metrics import Metrics
from tank_node.partition.partition import Partition
from tank_protos import bundle
from tank_protos.kafka import record_batch
from tests.support.clients.kafka_fetcher import records_of, values
from tests.support.nodes.bench_node import BenchNode

BUNDLES = [bundle.as_batch(bundle.encode([b"%d" % i * 100], timestamps=1)) for i in range(4)]


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a")
        yield node.broker.topics["a"].partitions[0]


def convert(
    converter: BundleConverter,
    partition: Partition,
    data: bytes,
    first: int = 1,
    most_bytes: int = 1 << 20,
    *,
    at_least_one: bool = True,
) -> list[bytes]:
    made, behind = converter.convert(partition, data, first, most_bytes, at_least_one=at_least_one)
    assert behind == (records_of(made[-1])[-1].offset + 2 if made else first)
    return made


def test_results_are_kept_for_the_next_consumer(partition: Partition) -> None:
    metrics = Metrics()
    converter = BundleConverter(1 << 20, metrics)
    made = convert(converter, partition, b"".join(BUNDLES))
    assert values(records_of(b"".join(made))) == [b"%d" % i * 100 for i in range(4)]
    assert metrics.converted["bundle"] == 4
    assert convert(converter, partition, b"".join(BUNDLES[1:]), first=2) == made[1:]
    assert (metrics.converted["bundle"], metrics.converted["kept"]) == (4, 3)
    assert metrics.converted_bytes["bundle"] == sum(map(len, made)) == converter.kept_bytes


def test_the_room_for_results_is_bounded_and_the_oldest_go(partition: Partition) -> None:
    metrics = Metrics()
    size = len(convert(BundleConverter(1 << 20, metrics), partition, BUNDLES[0])[0])
    metrics = Metrics()
    converter = BundleConverter(4 * size, metrics)
    for first in (1, 5, 9):
        convert(converter, partition, b"".join(BUNDLES), first)
        assert converter.kept_bytes <= 4 * size
    convert(converter, partition, b"".join(BUNDLES), 9)
    assert metrics.converted["kept"] == 4
    convert(converter, partition, BUNDLES[0], 1)
    assert metrics.converted["bundle"] == 13


def test_a_large_result_drives_out_no_others(partition: Partition) -> None:
    converter = BundleConverter(2000, Metrics())
    convert(converter, partition, BUNDLES[0])
    kept = converter.kept_bytes
    convert(converter, partition, bundle.as_batch(bundle.encode([b"x" * 600], timestamps=1)), 2)
    assert converter.kept_bytes == kept


def test_a_setting_that_changes_the_result_changes_what_is_kept(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 1, flush="replicated")
        batch = bundle.as_batch(bundle.encode([b""], timestamps=1, keys=[b"k"]))
        partition = node.broker.topics["a"].partitions[0]
        converter = BundleConverter(1 << 20, node.metrics)
        assert values(records_of(convert(converter, partition, batch)[0])) == [b""]
        node.controller.alter_topic(
            TopicAlteration("a", settings={"log.cleanup.policy": "cleanup"}), lambda outcome: None
        )
        assert values(records_of(convert(converter, partition, batch)[0])) == [None]


@pytest.mark.parametrize(("most_bytes", "count"), [(0, 1), (170, 1), (350, 2), (10_000, 4)])
def test_the_result_ends_before_the_limit(partition: Partition, most_bytes: int, count: int) -> None:
    converter = BundleConverter(1 << 20, Metrics())
    assert len(convert(converter, partition, b"".join(BUNDLES), most_bytes=most_bytes)) == count


def test_nothing_comes_where_one_is_too_many(partition: Partition) -> None:
    converter = BundleConverter(1 << 20, Metrics())
    assert convert(converter, partition, BUNDLES[0], most_bytes=10, at_least_one=False) == []


def test_sparse_bundles_set_the_offsets_behind_them(partition: Partition) -> None:
    sparse = bundle.as_batch(bundle.encode_sparse([5, 20], [b"a", b"b"], timestamps=1))
    converter = BundleConverter(1 << 20, Metrics())
    made = convert(converter, partition, sparse + BUNDLES[0], first=5)
    assert [record.offset for record in records_of(b"".join(made))] == [4, 19, 20]


def test_a_bundle_behind_a_hole_is_not_taken_for_the_one_that_compaction_removed(
    partition: Partition,
) -> None:
    sparse = [
        bundle.as_batch(bundle.encode_sparse(numbers, [value, value], timestamps=1))
        for numbers, value in (([1, 2], b"a"), ([3, 4], b"b"), ([5, 6], b"c"))
    ]
    converter = BundleConverter(1 << 20, Metrics())
    convert(converter, partition, b"".join(sparse))
    made = convert(converter, partition, sparse[0] + sparse[2])
    assert values(records_of(b"".join(made))) == [b"a", b"a", b"c", b"c"]


def test_a_bundle_behind_a_hole_has_its_own_leader_epoch(partition: Partition) -> None:
    partition.log.segments.epochs[:] = [(1, 1), (7, 5)]
    sparse = [bundle.as_batch(bundle.encode_sparse([number], [b"x"], timestamps=1)) for number in (1, 5)]
    made = convert(BundleConverter(1 << 20, Metrics()), partition, b"".join(sparse))
    assert [record_batch.read_header(batch).leader_epoch for batch in made] == [1, 7]


def test_a_damaged_bundle_ends_the_result_or_is_an_error(partition: Partition) -> None:
    damaged = bytes([len(BUNDLES[0]) - 1]) + b"\xff" * (len(BUNDLES[0]) - 1)
    converter = BundleConverter(1 << 20, Metrics())
    with pytest.raises(Unconvertible):
        convert(converter, partition, damaged)
    assert len(convert(converter, partition, BUNDLES[0] + damaged + BUNDLES[1])) == 1
