"""spark.readStream: how far batches go, restarts, lost data, a broker that goes away."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.topics import Topic, run_to_end, write_stream
from tests.support.patience import patient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tank_client.sync import Client
    from tests.spark.conftest import NewTopic
    from tests.support.processes.broker_process import BrokerProcess

pytestmark = pytest.mark.spark

# Segments of a few bundles, of which two stay: everything older expires as soon as a segment is begun.
SHORT_LIVED = {"log.segment.bytes": "4096", "retention.segments.count": "2"}
STEP_S = patient(60)


def rows_read(query: Any) -> list[int]:
    """How many rows each batch had that had any."""
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def test_a_running_query_sees_what_comes(spark: SparkSession, new_topic: NewTopic, checkpoint: str) -> None:
    source, sink = new_topic(partitions=2), new_topic()
    source.add_numbers(0, 20)
    query = write_stream(source.stream(spark), sink, checkpoint).start()
    try:
        query.processAllAvailable()
        assert sink.numbers() == list(range(20))
        source.add_numbers(20, 40, partition=1)
        query.processAllAvailable()
        assert sink.numbers() == list(range(40))
    finally:
        query.stop()
    assert [message.key for message in sink.messages()] == [None] * 40


def test_a_restart_goes_on_where_the_checkpoint_says(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    source, sink = new_topic(partitions=2), new_topic()
    source.add_numbers(0, 30)
    run_to_end(write_stream(source.stream(spark), sink, checkpoint))
    source.add_numbers(30, 60, partition=1)
    again = run_to_end(write_stream(source.stream(spark), sink, checkpoint))
    assert rows_read(again) == [30]
    assert sink.numbers() == list(range(60))


def test_a_stream_begins_at_the_end_unless_told(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    source, sink = new_topic(), new_topic()
    source.add_numbers(0, 10)
    query = write_stream(source.stream(spark, startingOffsets="latest"), sink, checkpoint).start()
    try:
        query.processAllAvailable()
        source.add_numbers(10, 15)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sink.numbers() == list(range(10, 15))


def test_available_now_stops_at_the_end_in_batches_of_the_limit(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    source, sink = new_topic(partitions=2), new_topic()
    source.add_numbers(0, 50)
    source.add_numbers(50, 60, partition=1)
    query = run_to_end(write_stream(source.stream(spark, maxOffsetsPerTrigger="25"), sink, checkpoint))
    assert rows_read(query) == [25, 25, 10]
    assert sink.numbers() == list(range(60))


def test_batches_wait_for_the_least_number_of_rows(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    source, sink = new_topic(), new_topic()
    source.add_numbers(0, 10)
    rows = source.stream(spark, minOffsetsPerTrigger="15", maxTriggerDelay="1h", latestOffsetWaitMs="50")
    query = write_stream(rows, sink, checkpoint).start()
    try:
        query.processAllAvailable()
        assert sink.numbers() == list(range(10)), "the first batch waits for nothing"
        source.add_numbers(10, 20)
        query.processAllAvailable()
        assert rows_read(query) == [10]
        source.add_numbers(20, 30)
        query.processAllAvailable()
        assert rows_read(query) == [10, 20]
    finally:
        query.stop()
    run_to_end(write_stream(source.stream(spark, minOffsetsPerTrigger="15"), sink, checkpoint))
    assert sink.numbers() == list(range(30))


def test_partitions_that_are_added_are_read_from_their_beginning(
    spark: SparkSession, new_topic: NewTopic, client: Client, checkpoint: str
) -> None:
    source, sink = new_topic(), new_topic()
    source.add_numbers(0, 10)
    query = write_stream(source.stream(spark, minPartitions="4"), sink, checkpoint).start()
    try:
        query.processAllAvailable()
        client.admin.alter_topic(source.name, partitions=3)
        source.add_numbers(10, 20, partition=2)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sink.numbers() == list(range(20))


def test_json_streams(spark: SparkSession, new_topic: NewTopic, checkpoint: str) -> None:
    source, sink = new_topic(), new_topic()
    source.add([b'{"n":%d,"s":"x"}' % number for number in range(10)] + [b"bad"])
    rows = source.stream(spark, valueFormat="json", valueSchema="n INT, s STRING")
    wanted = rows.where("value.n IS NOT NULL").selectExpr("key", "string(value.n + offset) AS value")
    run_to_end(write_stream(wanted, sink, checkpoint))
    assert sink.numbers() == list(range(1, 21, 2))


def expire(topic: Topic, beyond: int) -> None:
    """Adds numbers (0, 1, 2, ...) until those up to `beyond` have expired."""
    number = topic.ends()[1]
    while topic.ends()[0] <= beyond:
        topic.add([b"%0100d" % value for value in range(number, number + 10)])
        number += 10
        assert number < 10_000, "the topic does not expire"


class Gate:
    """A foreachBatch function that stops in its first batch until it is let go."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.go = threading.Event()
        self.seen: list[int] = []

    def __call__(self, rows: DataFrame, batch: int) -> None:
        self.seen += [int(row.value) for row in rows.select("value").collect()]
        self.arrived.set()
        assert self.go.wait(STEP_S)


def start_and_expire(spark: SparkSession, topic: Topic, checkpoint: str, **options: str) -> tuple[Any, Gate]:
    """A query in whose first batch everything that was there expires."""
    topic.add([b"%d" % number for number in range(10)])
    gate = Gate()
    rows = topic.stream(spark, maxOffsetsPerTrigger="5", **options)
    query = rows.writeStream.foreachBatch(gate).option("checkpointLocation", checkpoint).start()
    assert gate.arrived.wait(STEP_S)
    expire(topic, beyond=30)
    gate.go.set()
    return query, gate


def test_data_that_expires_under_a_query_stops_it(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    query, gate = start_and_expire(spark, new_topic(settings=SHORT_LIVED), checkpoint)
    with pytest.raises(Exception, match="failOnDataLoss"):
        query.awaitTermination(STEP_S)
    assert gate.seen == list(range(5))


def test_data_that_expires_under_a_query_is_skipped_when_it_may(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    topic = new_topic(settings=SHORT_LIVED)
    query, gate = start_and_expire(spark, topic, checkpoint, failOnDataLoss="false")
    query.stop()
    first, last = topic.ends()
    again = topic.stream(spark, failOnDataLoss="false")
    seen: list[int] = []
    run_to_end(
        again.writeStream.foreachBatch(
            lambda rows, _: seen.extend(int(row.value) for row in rows.collect())
        ).option("checkpointLocation", checkpoint)
    )
    assert gate.seen[:5] == list(range(5))
    assert sorted(set(gate.seen + seen) - set(range(5)))[-1] == last - 1
    assert set(range(first - 1, last)) <= set(gate.seen + seen), "all that is left is read"


def test_a_topic_made_anew_is_lost_data(
    spark: SparkSession, new_topic: NewTopic, client: Client, checkpoint: str
) -> None:
    source, sink = new_topic(), new_topic()
    source.add_numbers(0, 20)
    run_to_end(write_stream(source.stream(spark), sink, checkpoint))
    client.admin.delete_topic(source.name)
    client.admin.create_topic(source.name)
    source.add_numbers(100, 105)
    query = write_stream(source.stream(spark), sink, checkpoint).start()
    with pytest.raises(Exception, match="deleted and created again"):
        query.awaitTermination(STEP_S)
    assert sink.numbers() == list(range(20))


@pytest.mark.parametrize("stop", ["restart", "kill"])
def test_a_broker_restarted_in_mid_query(
    spark: SparkSession, new_topic: NewTopic, broker: BrokerProcess, checkpoint: str, stop: str
) -> None:
    source, sink = new_topic(partitions=2), new_topic()
    source.add_numbers(0, 100)
    source.add_numbers(100, 200, partition=1)
    query = write_stream(source.stream(spark, maxOffsetsPerTrigger="20"), sink, checkpoint).start()
    try:
        until(lambda: sink.ends()[1] >= 40)
        if stop == "kill":
            broker.kill()
            broker.start()
        else:
            broker.restart()
        source.add_numbers(200, 230)
        query.processAllAvailable()
        assert sink.numbers() == list(range(230))
    finally:
        query.stop()


def test_the_driver_waits_in_the_broker_and_wakes_at_a_message(
    new_topic: NewTopic, broker: BrokerProcess
) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable
    from pyspark.sql.types import BinaryType, StructType

    from pyspark_tank.columns import layout_of
    from pyspark_tank.options import parse_source_options
    from pyspark_tank.stream_reader import TankStreamReader

    topic = new_topic()
    # Far longer than a test may take: only a wake-up ends the wait.
    given = {"servers": broker.address, "subscribe": topic.name, "latestOffsetWaitMs": "60000"}
    options = parse_source_options({**given, "startingOffsets": "earliest"}, streaming=True)
    schema = StructType().add("value", BinaryType())
    reader = TankStreamReader(options, schema, layout_of(schema, options))
    start = reader.initialOffset()
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(reader.latestOffset(start, ReadAllAvailable())), daemon=True
    )
    waiting.start()
    topic.add_numbers(0, 1)
    waiting.join(STEP_S)
    assert [offset[topic.name]["0"] for offset in found] == [2]
    reader.stop()
    reader.stop()


def until(condition: Callable[[], bool]) -> None:
    """Waits for it, for as long as a step may take."""
    deadline = time.monotonic() + STEP_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def test_the_checkpoint_holds_the_next_number_of_each_partition(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    source, sink = new_topic(partitions=2), new_topic()
    source.add_numbers(0, 7)
    run_to_end(write_stream(source.stream(spark), sink, checkpoint))
    last = (Path(checkpoint) / "offsets" / "0").read_text().splitlines()[-1]
    (offsets,) = json.loads(last).values()
    assert {"0": 8, "1": 1, "topicId": offsets["topicId"]} == offsets
