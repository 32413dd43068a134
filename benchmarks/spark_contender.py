"""One contender of `benchmarks.spark`: a Spark session and a broker with one kernel, told what to run.

A process of its own, for the kernel is chosen when `tank_protos` is imported. It takes one JSON object a line
on its input, `{"work": ..., "source": ..., "bytes": ...}`, and answers each with `{"seconds": ...}`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from examples.broker import Broker
from pyspark_tank.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
# A bundle of about what the sink and the client write: 512 KiB.
BUNDLE_BYTES = 512 * 1024
JSON_VALUE = (
    b'{"carrier":"UA","flight":%7d,"origin":"EWR","dest":"IAH","dep_delay":%3d.0,"at":"2013-01-01T10:17:00Z"}'
)
JSON_FIELDS = "carrier STRING, flight INT, origin STRING, dest STRING, dep_delay DOUBLE, at TIMESTAMP"


class MemoryPartition(InputPartition):  # type: ignore[misc]
    """A file of Arrow batches."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class MemoryReader(DataSourceReader):  # type: ignore[misc]
    """Yields the batches of the files in a folder, one file a task."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def partitions(self) -> list[InputPartition]:
        return [MemoryPartition(str(path)) for path in sorted(Path(self._folder).glob("*.arrow"))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MemoryPartition)
        with pa.ipc.open_file(pa.memory_map(partition.path)) as file:
            for number in range(file.num_record_batches):
                yield file.get_batch(number)


class MemorySource(DataSource):  # type: ignore[misc]
    """The same batches as the topic gives, made before and mapped into memory: what Spark itself costs."""

    @classmethod
    def name(cls) -> str:
        return "memory"

    def schema(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())

    def reader(self, schema: Any) -> MemoryReader:
        return MemoryReader(self.options["folder"])


@dataclass(frozen=True, slots=True)
class Bench:
    """Where everything is; `rows` by the size of their values, in bytes."""

    spark: SparkSession
    servers: str
    folder: Path
    rows: dict[int, int]

    def frame(self, source: str, value_bytes: int) -> DataFrame:
        """All rows of one size, by one of the two sources."""
        if source == "memory":
            return self.spark.read.format("memory").option("folder", str(self.batches(value_bytes))).load()
        return self._topic(topic_of(value_bytes)).load()

    def batches(self, value_bytes: int) -> Path:
        """The folder with the in-memory source's batches."""
        return self.folder / f"batches-{value_bytes}"

    def _topic(self, topic: str) -> Any:
        return self.spark.read.format("tank").option("servers", self.servers).option("subscribe", topic)

    def json_topic(self) -> Any:
        """A reader of the topic of JSON objects."""
        return self._topic("json")


def topic_of(value_bytes: int) -> str:
    return f"values-{value_bytes}"


def count(bench: Bench, source: str, value_bytes: int) -> None:
    counted = bench.frame(source, value_bytes).count()
    assert counted == bench.rows[value_bytes], counted


def sum_lengths(bench: Bench, source: str, value_bytes: int) -> None:
    [[summed]] = bench.frame(source, value_bytes).selectExpr("sum(length(value))").collect()
    assert summed == bench.rows[value_bytes] * value_bytes, summed


def parquet(bench: Bench, source: str, value_bytes: int) -> None:
    bench.frame(source, value_bytes).write.mode("overwrite").parquet(str(bench.folder / "parquet"))


def sink(flush: str) -> Callable[[Bench, str, int], None]:
    """Values out of Parquet files into a topic that acknowledges by `flush`."""

    def write(bench: Bench, source: str, value_bytes: int) -> None:
        rows = bench.spark.read.parquet(str(bench.folder / f"rows-{value_bytes}"))
        target = rows.write.format("tank").mode("append").option("servers", bench.servers)
        target.option("topic", f"sink-{flush}").save()

    return write


def json_in_reader(bench: Bench, source: str, value_bytes: int) -> None:
    rows = bench.json_topic().option("valueFormat", "json").schema(JSON_FIELDS).load()
    rows.selectExpr("sum(dep_delay)", "count(distinct carrier)", "max(at)").collect()


def json_in_spark(bench: Bench, source: str, value_bytes: int) -> None:
    rows = bench.json_topic().load().selectExpr(f"from_json(string(value), '{JSON_FIELDS}') AS v")
    rows.select("v.*").selectExpr("sum(dep_delay)", "count(distinct carrier)", "max(at)").collect()


WORK: dict[str, Callable[[Bench, str, int], None]] = {
    "count": count,
    "sum(length(value))": sum_lengths,
    "Parquet": parquet,
    "sink, flush=replicated": sink("replicated"),
    "sink, flush=disk": sink("disk"),
    "JSON decoded in the reader": json_in_reader,
    "JSON decoded by from_json": json_in_spark,
}


def fill(servers: str, rows: dict[int, int], json_rows: int) -> None:
    """Topics of random values, which no compression makes smaller, and one of JSON objects."""
    from tank_client.sync import Client
    from tank_protos.bundle import encode

    with Client(servers) as client:
        for flush in ("replicated", "disk"):
            client.admin.create_topic(f"sink-{flush}", partitions=PARTITIONS, settings={"flush": flush})
        for value_bytes, count in rows.items():
            client.admin.create_topic(topic_of(value_bytes), partitions=PARTITIONS)
            portion = BUNDLE_BYTES // value_bytes
            for number, begin in enumerate(range(0, count, portion)):
                size = min(portion, count - begin) * value_bytes
                content = os.urandom(size)
                values = [content[at : at + value_bytes] for at in range(0, size, value_bytes)]
                now_ms = time.time_ns() // 1_000_000
                bundle = encode(values, timestamps=now_ms)
                client.produce_bundle(topic_of(value_bytes), number % PARTITIONS, bundle)
        client.admin.create_topic("json", partitions=PARTITIONS)
        for number, begin in enumerate(range(0, json_rows, 5000)):
            objects = [JSON_VALUE % (row, row % 200) for row in range(begin, min(begin + 5000, json_rows))]
            bundle = encode(objects, timestamps=time.time_ns() // 1_000_000)
            client.produce_bundle("json", number % PARTITIONS, bundle)


def keep_batches(bench: Bench) -> None:
    """What the tank source gives to Spark, batch by batch, into files; and the values as Parquet."""
    from pyspark_tank.source import TankSource

    for value_bytes in bench.rows:
        bench.batches(value_bytes).mkdir()
        source = TankSource({"servers": bench.servers, "subscribe": topic_of(value_bytes)})
        schema = bench.frame("tank", value_bytes).schema
        reader = source.reader(schema)
        for number, partition in enumerate(reader.partitions()):
            first, *more = reader.read(partition)
            path = bench.batches(value_bytes) / f"{number}.arrow"
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
                for batch in (first, *more):
                    writer.write_batch(batch)
        rows = bench.frame("memory", value_bytes).select("value")
        rows.write.parquet(str(bench.folder / f"rows-{value_bytes}"))


def main() -> None:
    from pyspark.sql import SparkSession

    from pyspark_tank.java_home import use_java

    # As an exception: its broker has to end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    use_java()
    given = json.loads(sys.stdin.readline())
    rows = {int(value_bytes): count for value_bytes, count in given["rows"].items()}
    with tempfile.TemporaryDirectory(prefix="tank-spark-") as name, Broker(Path(name)) as broker:
        folder = Path(name)
        fill(broker.servers, rows, given["json_rows"])
        builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g")
        builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.local.dir", str(folder / "local"))
        spark = builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(MemorySource)
        bench = Bench(spark, broker.servers, folder, rows)
        try:
            keep_batches(bench)
            print(json.dumps({"ready": True}), flush=True)
            for line in sys.stdin:
                asked = json.loads(line)
                began = time.perf_counter()
                WORK[asked["work"]](bench, asked["source"], asked["bytes"])
                print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
