"""Spark's own Kafka source and sink, and `format("tank")` on the same topic.

    spark_kafka.py KAFKA_SERVERS TANK_SERVERS TOPIC COPY FOLDER JARS

Writes rows into TOPIC by Spark's Kafka sink, and reads them by both sources: in a batch, in a stream that
ends with `availableNow`, and in one of micro-batches that copies them into COPY while more are written.
Prints for each step a list in JSON: its name, and what is wrong (empty: nothing). Kafka counts offsets from 0
on, TANK from 1 on.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

ROWS, MORE = 2_000, 500
PARTITIONS = 2
PATIENCE_S = 60
Rows = list[tuple[int, int, str | None, str]]
"""Partition, offset as Kafka counts, key, value: sorted."""

kafka_servers, tank_servers, topic, copy, folder, jars = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", jars)
    .config("spark.driver.memory", "1g")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")
KAFKA = {"kafka.bootstrap.servers": kafka_servers}
TANK = {"servers": tank_servers}
SUBSCRIBE = {"subscribe": topic, "startingOffsets": "earliest"}
ASSIGN = {"assign": json.dumps({topic: list(range(PARTITIONS))}), "startingOffsets": "earliest"}


def numbered(first: int, count: int) -> DataFrame:
    """Rows with these numbers; every fifth without a key."""
    name = f.col("id").cast("string")
    return spark.range(first, first + count, 1, 2).select(
        f.when(f.col("id") % 5 != 0, f.concat(f.lit("key-"), name)).alias("key"),
        f.concat(f.lit("value-"), name).alias("value"),
    )


def write(rows: DataFrame) -> None:
    """By Spark's Kafka sink."""
    rows.write.format("kafka").options(**KAFKA).option("topic", topic).save()


def rows_of(found: DataFrame, first_offset: int) -> Rows:
    """What a source of messages gave."""
    columns = ("partition", f.col("offset") - first_offset, f.expr("string(key)"), f.expr("string(value)"))
    return sorted((r[0], r[1], r[2], r[3]) for r in found.select(*columns).collect())


def batch(name: str, options: dict[str, str]) -> Rows:
    first = 1 if name == "tank" else 0
    return rows_of(spark.read.format(name).options(**options).load(), first)


def available_now(name: str, options: dict[str, str]) -> Rows:
    """What a stream reads that ends where the topic ends."""
    out = f"{folder}/{name}-{len(list(Path(folder).iterdir()))}"
    query = (
        spark.readStream.format(name)
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("path", out)
        .option("checkpointLocation", f"{out}-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(PATIENCE_S):
        query.stop()
        raise TimeoutError(f"the query has no end after {PATIENCE_S} s")
    return rows_of(spark.read.parquet(out), 1 if name == "tank" else 0)


def micro_batches() -> str:
    """A stream from Kafka's source into Kafka's sink, while more rows are written."""
    query = (
        spark.readStream.format("kafka")
        .options(**KAFKA, **SUBSCRIBE)
        .load()
        .select("key", "value")
        .writeStream.format("kafka")
        .options(**KAFKA)
        .option("topic", copy)
        .option("checkpointLocation", f"{folder}/copy-checkpoint")
        .trigger(processingTime="0 seconds")
        .start()
    )
    deadline = time.monotonic() + PATIENCE_S

    def await_rows(count: int) -> None:
        while sum(p.numInputRows for p in query.recentProgress) < count:
            if query.exception() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"the stream did not copy {count} rows: {query.exception()}")
            time.sleep(0.2)

    try:
        await_rows(ROWS)
        write(numbered(ROWS, MORE))
        await_rows(ROWS + MORE)
    finally:
        query.stop()
    copied = spark.read.format("kafka").options(**KAFKA).option("subscribe", copy).load()
    copies = sorted(row[3] for row in rows_of(copied, 0))
    wanted = sorted(f"value-{number}" for number in range(ROWS + MORE))
    return "" if copies == wanted else f"{len(copies)} rows were copied, where {len(wanted)} are"


def same(found: Rows, wanted: Rows) -> str:
    if found == wanted:
        return ""
    return f"{len(found)} rows, first {found[:1]}, where {len(wanted)} are, first {wanted[:1]}"


def step(name: str, work: Callable[[], str]) -> None:
    try:
        problem = work()
    except Exception as error:  # whatever Spark raises is the step's outcome
        problem = f"{type(error).__name__}: {str(error)[:400]}"
    print(json.dumps([name, problem]), flush=True)


def written() -> str:
    write(numbered(0, ROWS))
    found = batch("kafka", KAFKA | SUBSCRIBE)
    values = sorted((row[2] or "", row[3]) for row in found)
    wanted = sorted(("" if n % 5 == 0 else f"key-{n}", f"value-{n}") for n in range(ROWS))
    return "" if values == wanted else f"{len(values)} rows came back, where {len(wanted)} were written"


def all_read_the_same() -> None:
    """Each way of reading, beside the first."""
    wanted = batch("kafka", KAFKA | SUBSCRIBE)
    step("kafka, batch, assign", lambda: same(batch("kafka", KAFKA | ASSIGN), wanted))
    step("tank, batch, subscribe", lambda: same(batch("tank", TANK | SUBSCRIBE), wanted))
    step("tank, batch, assign", lambda: same(batch("tank", TANK | ASSIGN), wanted))
    step("kafka, availableNow, subscribe", lambda: same(available_now("kafka", KAFKA | SUBSCRIBE), wanted))
    step("kafka, availableNow, assign", lambda: same(available_now("kafka", KAFKA | ASSIGN), wanted))
    step("tank, availableNow, subscribe", lambda: same(available_now("tank", TANK | SUBSCRIBE), wanted))


step("kafka sink, batch, and kafka, batch, subscribe", written)
all_read_the_same()
step("kafka, micro-batches, into kafka's sink", micro_batches)
step(
    "tank, batch, behind the stream",
    lambda: same(batch("tank", TANK | SUBSCRIBE), batch("kafka", KAFKA | SUBSCRIBE)),
)
spark.stop()
