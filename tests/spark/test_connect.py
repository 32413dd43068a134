"""Jobs that run over Spark Connect: the client has no JVM, and the server's Python loads the source."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.connect_server import ConnectServer
from tests.support.patience import patient

if TYPE_CHECKING:
    from tests.spark.conftest import NewTopic
    from tests.spark.topics import Topic

ROOT = Path(__file__).resolve().parents[2]

JOB = """
import sys
from pyspark.sql import SparkSession

servers, source, sink, streamed, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
assert type(spark).__module__ == "pyspark.sql.connect.session", "SPARK_REMOTE makes it one of Connect"

rows = spark.read.format("tank").options(servers=servers, subscribe=source).load()
print("columns", rows.columns)
print("read", sorted(int(row.value) for row in rows.select("value").collect()))

upper = rows.selectExpr("key", "string(int(string(value)) + 1000) AS value")
upper.write.format("tank").mode("append").options(servers=servers, topic=sink).save()

stream = spark.readStream.format("tank").options(
    servers=servers, subscribe=sink, startingOffsets="earliest", maxOffsetsPerTrigger=60
)
query = (
    stream.load().selectExpr("key", "string(int(string(value)) + 1000) AS value")
    .writeStream.format("tank").options(servers=servers, topic=streamed, checkpointLocation=checkpoint)
    .trigger(availableNow=True).start()
)
query.awaitTermination()
assert query.exception() is None, query.exception()
print("batches", query.lastProgress["batchId"] + 1)

import pyspark_tank
pyspark_tank.register(spark)
print("registered", spark.read.format("tank").options(servers=servers, subscribe=streamed).load().count())
try:
    wrong = spark.read.format("tank").options(servers=servers, subscribe=source, startingOfsets="latest")
    wrong.load().count()
except Exception as error:
    print("refused", "startingOffsets" in str(error))
spark.stop()
"""
CHANGES = """
import sys
from pyspark.sql import SparkSession

servers, source, changed, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
stream = spark.readStream.format("tank").options(
    servers=servers, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=30
)

def write_changes(batch, batch_id):
    counts = batch.coalesce(1).sortWithinPartitions("rest").selectExpr("string(count) AS value")
    writer = counts.write.format("tank").mode("append").options(servers=servers, topic=changed)
    writer.options(writeName=changed, writeId=batch_id).save()

rests = stream.load().selectExpr("int(string(value)) % 3 AS rest").groupBy("rest").count()
updates = rests.writeStream.outputMode("update").foreachBatch(write_changes)
updates.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""


@pytest.fixture(scope="module")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.fixture
def source(new_topic: NewTopic) -> Topic:
    """A hundred numbers in two partitions."""
    topic = new_topic(partitions=2)
    topic.add_numbers(0, 50)
    topic.add_numbers(50, 100, partition=1)
    return topic


def job(server: ConnectServer, program: str, *arguments: str) -> str:
    """What the job prints; it runs in a process of its own, which knows the server by SPARK_REMOTE alone."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**environment, "SPARK_REMOTE": server.remote},
        capture_output=True, text=True, timeout=patient(200), check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:] + server.output()[-3000:]
    return ran.stdout


@pytest.mark.spark
def test_batches_and_streams_run_over_connect(
    connect_server: ConnectServer, source: Topic, new_topic: NewTopic, checkpoint: str
) -> None:
    sink, streamed = new_topic(partitions=2), new_topic()
    said = job(connect_server, JOB, source.servers, source.name, sink.name, streamed.name, checkpoint)
    assert "columns ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'timestampType']" in said
    assert f"read {list(range(100))}" in said
    assert sink.numbers(2) == list(range(1000, 1100)), "each row once, from a batch"
    assert streamed.numbers() == list(range(2000, 2100)), "each row once, from a stream"
    assert "batches 2" in said, "100 messages, 60 a batch"
    assert "registered 100" in said
    assert "refused True" in said, "errors of options reach the client in their words"


@pytest.mark.spark
@pytest.mark.long
def test_counts_in_update_mode_run_over_connect(
    connect_server: ConnectServer, source: Topic, new_topic: NewTopic, checkpoint: str
) -> None:
    changed = new_topic()
    job(connect_server, CHANGES, source.servers, source.name, changed.name, checkpoint)
    assert changed.numbers()[-3:] == [33, 33, 34], "counts in update mode, by foreachBatch"


def test_the_extra_brings_what_the_installed_pyspark_asks_of_a_client_of_connect() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "pyspark[connect,pipelines]>=4.2,<5" in extras["connect"]
    assert any("connect" in entry for entry in extras["dev"]), "the tests of this file need it"
    offered = importlib.metadata.metadata("pyspark").get_all("Provides-Extra") or []
    assert {"connect", "pipelines"} <= set(offered), "names that pip would pass over with a warning"
