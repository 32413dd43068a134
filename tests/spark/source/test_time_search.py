"""Where a read by time begins on topics of Kafka's format: the driver's search at a broker, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_tank.driver import resolve
from pyspark_tank.options import parse_source_options
from pyspark_tank.positions import Offsets
from tank_client.sync import Client
from tank_protos.kafka import record_batch
from tank_protos.kafka.records import KafkaRecord
from tests.support.nodes.broker_cell import Told
from tests.support.nodes.served_node import ServedNode

pytestmark = pytest.mark.integration

BEHIND_ONE_FETCH = 900_000
"""The bytes of a value that leaves little room beside it in one fetch of the search."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    with ServedNode(tmp_path / "data") as node:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated", log_format="kafka"))
        yield node


def store(node: ServedNode, *times_ms: int, value: bytes = b"x", span: int = 0, newest_ms: int = 0) -> None:
    """Stores one batch with records of these times; -1: without one. Compaction has left no other of its
    `span` + 1 offsets, if that is given, and has removed one of the time `newest_ms`."""
    records = [KafkaRecord(b"k", value, at, stamp - times_ms[0]) for at, stamp in enumerate(times_ms)]
    batch = record_batch.encode(records, base_timestamp_ms=times_ms[0])
    if span:
        header = record_batch.read_header(batch)._replace(last_offset_delta=span)
        batch = record_batch.seal(header, batch[record_batch.HEADER_BYTES :])

    def append() -> None:
        node.broker.begin_tick()
        partition = node.broker.topics["a"].partitions[0]
        partition.append(memoryview(bytearray(batch)), Told(), 0, max_timestamp_ms=max(*times_ms, newest_ms))
        node.broker.end_tick()

    node.on_loop(append)


def start_at(node: ServedNode, time_ms: int) -> int:
    """The offset at which a read with this startingTimestamp begins."""
    options = parse_source_options(
        {
            "servers": f"127.0.0.1:{node.port}",
            "subscribe": "a",
            "startingTimestamp": str(time_ms),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        streaming=False,
    )
    with Client(f"127.0.0.1:{node.port}") as client:
        found: Offsets = resolve(client, options.starting, {"a": (0,)}, options, starting=True)
    return found["a"][0]


def test_a_read_begins_at_the_first_record_at_or_after_the_time(node: ServedNode) -> None:
    store(node, 1000, 2000, 1500)
    store(node, 3000)
    assert [start_at(node, each) for each in (1, 1000, 1001, 2001, 3000, 3001)] == [1, 1, 2, 4, 4, 5]


def test_a_record_without_a_time_is_at_no_time(node: ServedNode) -> None:
    store(node, -1)
    store(node, 1000)
    assert start_at(node, 500) == 2, "the time of its append is not that of the record"


def test_a_search_goes_on_behind_what_compaction_has_removed(node: ServedNode) -> None:
    store(node, 1000, value=bytes(BEHIND_ONE_FETCH), span=9, newest_ms=1800)
    store(node, 2000, value=bytes(BEHIND_ONE_FETCH))
    assert [start_at(node, each) for each in (1000, 1500, 2001)] == [1, 11, 12]
