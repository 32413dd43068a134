"""df.writeStream: what is written once although Spark writes it twice."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.sink.forgotten_commits import forget_commit
from tests.spark.topics import run_to_end, write_stream
from tests.support.clients.scripted_broker import Kind
from tests.support.nodes.threaded_broker import ThreadedBroker
from tests.support.patience import patient

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

    from tank_client.sync import Client
    from tests.spark.conftest import NewTopic
    from tests.support.processes.broker_process import BrokerProcess

pytestmark = pytest.mark.spark


# Spark sends rows on in pieces of 64 KiB: of rows so long the sink gets some before the last are made.
FAR_MORE_THAN_PIPES_HOLD = 4000


def test_a_batch_that_spark_runs_again_is_not_written_again(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    source, sink = new_topic(partitions=3), new_topic(partitions=2)
    for partition in range(3):
        source.add_numbers(partition * 100, partition * 100 + 100, partition=partition)
    rows = source.stream(spark, maxOffsetsPerTrigger="150").selectExpr("value AS key", "value")
    run_to_end(write_stream(rows, sink, checkpoint, bundleRows="7"))
    assert sink.numbers(2) == list(range(300))
    written = [sink.messages(0), sink.messages(1)]
    forget_commit(checkpoint, 1)
    source.add_numbers(300, 310)
    again = run_to_end(write_stream(rows, sink, checkpoint, bundleRows="7"))
    assert [progress["batchId"] for progress in again.recentProgress][:2] == [1, 2]
    assert [sink.messages(0)[: len(written[0])], sink.messages(1)[: len(written[1])]] == written
    assert sink.numbers(2) == list(range(310))


def failing_once(servers: str, sink: str, after: int) -> Any:
    """A function for mapInArrow: a task's first attempt fails as soon as the broker has some of its rows."""

    def pass_through(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        from pyspark import TaskContext

        from tank_client.sync import Client

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == after and context.attemptNumber() == 0:
                with Client(servers) as client:
                    deadline = time.monotonic() + patient(60)
                    while client.admin.await_ends({(sink, 0): 0}, 1000)[sink, 0].high_water_mark == 0:
                        if time.monotonic() > deadline:
                            return  # rows are missing then, and the test fails
                raise RuntimeError("the first attempt fails")
            yield batch

    pass_through.__module__ = "__main__"  # Spark sends it whole: the workers can't import the tests
    return pass_through


def test_a_task_that_fails_in_mid_write_and_runs_again_repeats_nothing(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    source, sink = new_topic(), new_topic()
    source.add_numbers(0, 500, digits=FAR_MORE_THAN_PIPES_HOLD)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    try:
        rows = source.stream(spark).select("key", "value")
        rows = rows.mapInArrow(failing_once(source.servers, sink.name, after=30), "key binary, value binary")
        run_to_end(write_stream(rows, sink, checkpoint, bundleRows="4"))
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert [int(message.value) for message in sink.messages()] == list(range(500))


def test_a_batch_write_whose_task_fails_repeats_nothing(spark: SparkSession, new_topic: NewTopic) -> None:
    sink = new_topic()
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    try:
        rows = (
            spark.range(500)
            .coalesce(1)
            .selectExpr(f"CAST(lpad(string(id), {FAR_MORE_THAN_PIPES_HOLD}, '0') AS binary) AS value")
        )
        rows = rows.mapInArrow(failing_once(sink.servers, sink.name, after=30), "value binary")
        writer = rows.write.format("tank").mode("append")
        writer.options(servers=sink.servers, topic=sink.name, bundleRows="4").save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert [int(message.value) for message in sink.messages()] == list(range(500))


def requests(broker: BrokerProcess, name: str) -> float:
    """So many of one kind the broker has answered well."""
    asked = re.findall(rf'^tank_requests_total{{.*kind="{name}".*}} (.+)$', broker.metrics(), re.MULTILINE)
    return sum(map(float, asked))


def test_a_batch_write_without_a_name_leaves_no_name_in_the_cluster(
    spark: SparkSession, new_topic: NewTopic, broker: BrokerProcess
) -> None:
    sink = new_topic()
    names, blocks = requests(broker, "init_producer"), requests(broker, "reserve_producer_ids")
    for begin in (0, 30):
        rows = spark.range(begin, begin + 30, 1, 3).selectExpr("CAST(id AS STRING) AS value")
        rows.write.format("tank").mode("append").options(servers=sink.servers, topic=sink.name).save()
    assert sink.numbers() == list(range(60))
    assert requests(broker, "reserve_producer_ids") == blocks + 2, "once for all tasks of a write"
    assert requests(broker, "init_producer") == names


def test_a_checkpoint_put_back_to_an_older_state_is_noticed(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    source, sink = new_topic(), new_topic()
    source.add_numbers(0, 10)
    run_to_end(write_stream(source.stream(spark), sink, checkpoint))
    older = f"{checkpoint}-older"
    shutil.copytree(checkpoint, older)
    for begin in (10, 20):
        source.add_numbers(begin, begin + 10)
        run_to_end(write_stream(source.stream(spark), sink, checkpoint))
    query = write_stream(source.stream(spark), sink, older).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="put back to an older state"):
        query.awaitTermination()
    assert sink.numbers() == list(range(30))


def test_two_queries_write_to_one_topic(spark: SparkSession, new_topic: NewTopic, checkpoint: str) -> None:
    source, sink = new_topic(), new_topic()
    source.add_numbers(0, 10)
    for number in range(2):
        run_to_end(write_stream(source.stream(spark), sink, f"{checkpoint}-{number}"))
    assert sink.numbers() == sorted([*range(10), *range(10)])


def to_topic_t(rows: DataFrame, servers: str) -> DataFrameWriter:
    return rows.write.format("tank").mode("append").options(servers=servers, topic="t")


@pytest.mark.parametrize("kind", [Kind.CPP, Kind.OLD])
def test_a_broker_without_idempotence_is_refused_before_any_task_runs(
    spark: SparkSession, kind: Kind, checkpoint: str
) -> None:
    rows = spark.sql("SELECT 'x' AS value")
    stream = spark.readStream.format("rate").load().selectExpr("string(value) AS value")
    with ThreadedBroker(kind) as broker:
        with pytest.raises(Exception, match=r"can't recognize a repeat.*option.*servers") as of_batch:
            to_topic_t(rows, broker.address).save()
        options = {"servers": broker.address, "topic": "t", "checkpointLocation": checkpoint}
        query = stream.writeStream.format("tank").options(**options).trigger(availableNow=True).start()
        with pytest.raises(Exception, match=r"can't recognize a repeat.*option.*servers") as of_stream:
            query.awaitTermination()
        assert broker.values(0) == broker.values(1) == []
    for error in of_batch, of_stream:
        assert f"version {kind.value}" in str(error.value)
        assert "stage failure" not in str(error.value), "a task has run"


def test_servers_where_nothing_answers_are_told_before_any_task_runs(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"no broker answers at 127\.0\.0\.1:1 .*option.*servers") as error:
        to_topic_t(spark.sql("SELECT 'x' AS value"), "127.0.0.1:1").save()
    assert "stage failure" not in str(error.value), "a task has run"


def test_a_topic_that_is_not_there_is_named_with_the_command(
    spark: SparkSession, new_topic: NewTopic, client: Client, checkpoint: str
) -> None:
    source, sink = new_topic(), new_topic()
    source.add_numbers(0, 1)
    client.admin.delete_topic(sink.name)
    query = write_stream(source.stream(spark), sink, checkpoint).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=f"tank topic create {sink.name}"):
        query.awaitTermination()
