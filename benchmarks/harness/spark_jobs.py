"""The jobs of `benchmarks.spark`: one Spark session, a broker for each kernel, the sources and sinks.

Spark's Python workers import `tank_protos`, which chooses the kernel: so each kernel's data source is
registered with an environment of its own, which Spark gives to its workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from benchmarks.harness.servers import Kernel, ours, running
from pyspark_tank.columns import COLUMNS
from pyspark_tank.source import TankSource
from tank_protos import kernel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pyspark_tank.reader import TankReader
    from pyspark_tank.writer import TankWriter

MEMORY = "memory"
PARTITIONS = 4
# About the size of the bundles that the sink and the client write.
BUNDLE_BYTES = 512 * 1024
# With small segments a topic that is written again and again reuses memory and disk: see docs/performance.md,
# Traps.
SMALL_SEGMENTS = {"log.segment.bytes": str(64 << 20), "retention.segments.count": "2"}
JSON_BUNDLE = 5000
JSON_VALUE = (
    b'{"carrier":"UA","flight":%7d,"origin":"EWR","dest":"IAH","dep_delay":%3d.0,"at":"2013-01-01T10:17:00Z"}'
)
JSON_FIELDS = "carrier STRING, flight INT, origin STRING, dest STRING, dep_delay DOUBLE, at TIMESTAMP"


class CompiledTank(TankSource):
    """The source and sink with the compiled kernel."""

    KERNEL = Kernel.COMPILED

    @classmethod
    def name(cls) -> str:
        return f"tank_{cls.KERNEL}"

    def reader(self, schema: Any) -> TankReader:
        self._check()
        return super().reader(schema)

    def writer(self, schema: Any, overwrite: bool) -> TankWriter:
        self._check()
        return super().writer(schema, overwrite)

    def _check(self) -> None:
        if kernel.NAME != self.KERNEL:
            raise RuntimeError(f"a worker of Spark has the {kernel.NAME} kernel instead of {self.KERNEL}")


class PureTank(CompiledTank):
    """The same in plain Python."""

    KERNEL = Kernel.PURE


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


class DroppingWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Takes rows and drops them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class MemorySource(DataSource):  # type: ignore[misc]
    """A source of the topic's batches, made before and mapped into memory, and a sink that drops its rows:
    they measure Spark itself."""

    @classmethod
    def name(cls) -> str:
        return MEMORY

    def schema(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())

    def reader(self, schema: Any) -> MemoryReader:
        return MemoryReader(self.options["folder"])

    def writer(self, schema: Any, overwrite: bool) -> DroppingWriter:
        return DroppingWriter()


@dataclass(frozen=True, slots=True)
class Bench:
    """The session, folders and addresses. A source is MEMORY or the name of a kernel."""

    spark: SparkSession
    folder: Path
    rows: dict[int, int]
    """The number of rows, by the size of their values in bytes."""
    servers: dict[str, str] = field(default_factory=dict)
    """The address of each kernel's broker."""

    def frame(self, source: str, value_bytes: int) -> DataFrame:
        """All rows of one size, by one of the sources."""
        if source == MEMORY:
            return self.spark.read.format(MEMORY).option("folder", str(self.batches(value_bytes))).load()
        return self.topic(source, topic_of(value_bytes)).load()

    def topic(self, kernel_name: str, topic: str) -> Any:
        """Spark's reader of a topic."""
        read = self.spark.read.format(f"tank_{kernel_name}").option("servers", self.servers[kernel_name])
        return read.option("subscribe", topic)

    def batches(self, value_bytes: int) -> Path:
        """The folder with the in-memory source's batches."""
        return self.folder / f"batches-{value_bytes}"

    def values(self, value_bytes: int) -> Path:
        """The folder with the values as Parquet, for the sinks."""
        return self.folder / f"rows-{value_bytes}"


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
    """Makes the job that writes values from Parquet files to a topic with this `flush`."""

    def write(bench: Bench, source: str, value_bytes: int) -> None:
        rows = bench.spark.read.parquet(str(bench.values(value_bytes)))
        name = MEMORY if source == MEMORY else f"tank_{source}"
        target = rows.write.format(name).mode("append").option("topic", f"sink-{flush}")
        target.option("servers", bench.servers.get(source, "")).save()

    return write


def json_in_reader(bench: Bench, source: str, value_bytes: int) -> None:
    rows = bench.topic(source, "json").option("valueFormat", "json").schema(JSON_FIELDS).load()
    rows.selectExpr("sum(dep_delay)", "count(distinct carrier)", "max(at)").collect()


def json_in_spark(bench: Bench, source: str, value_bytes: int) -> None:
    rows = bench.topic(source, "json").load().selectExpr(f"from_json(string(value), '{JSON_FIELDS}') AS v")
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


def session(folder: Path) -> SparkSession:
    """A Spark session on two cores, with all its files in the folder."""
    from pyspark.sql import SparkSession

    from pyspark_tank.java_home import use_java

    use_java()
    root = str(Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "3g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.log.level", "ERROR").config("spark.local.dir", str(folder / "local"))
    return builder.config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate()


def start(bench: Bench, names: Sequence[Kernel], stack: ExitStack) -> None:
    """Starts a broker for each of the kernels, and registers its source."""
    environment: dict[str, str] = bench.spark.sparkContext.environment
    for source in (CompiledTank, PureTank):
        if source.KERNEL not in names:
            continue
        environment["TANK_KERNEL"] = source.KERNEL
        bench.spark.dataSource.register(source)
        broker = stack.enter_context(running(ours(source.KERNEL), folder=str(bench.folder)))
        bench.servers[source.KERNEL] = f"127.0.0.1:{broker.port}"
    bench.spark.dataSource.register(MemorySource)


def fill(bench: Bench, json_rows: int) -> Iterator[str]:
    """Fills topics with random values, which don't compress, and one with JSON objects, the same on all
    brokers. Yields the name of each next step.
    """
    from tank_client.sync import Client
    from tank_protos.bundle import Codec, encode

    with ExitStack() as stack:
        clients = [stack.enter_context(Client(servers)) for servers in bench.servers.values()]

        def make(topic: str, settings: dict[str, str]) -> None:
            for client in clients:
                client.admin.create_topic(topic, partitions=PARTITIONS, settings=settings)

        def put(topic: str, number: int, values: Sequence[bytes], codec: Codec | None) -> None:
            bundle = encode(values, timestamps=time.time_ns() // 1_000_000, codec=codec)
            for client in clients:
                client.produce_bundle(topic, number % PARTITIONS, bundle)

        for flush in ("replicated", "disk"):
            make(f"sink-{flush}", {"flush": flush, **SMALL_SEGMENTS})
        for value_bytes, rows in bench.rows.items():
            yield f"filling {topic_of(value_bytes)}"
            make(topic_of(value_bytes), {})
            portion = BUNDLE_BYTES // value_bytes
            for number, begin in enumerate(range(0, rows, portion)):
                size = min(portion, rows - begin) * value_bytes
                content = os.urandom(size)
                values = [content[at : at + value_bytes] for at in range(0, size, value_bytes)]
                put(topic_of(value_bytes), number, values, Codec.NONE)
        if json_rows:
            yield "filling json"
            make("json", {})
        for number, begin in enumerate(range(0, json_rows, JSON_BUNDLE)):
            objects = range(begin, min(begin + JSON_BUNDLE, json_rows))
            put("json", number, [JSON_VALUE % (row, row % 200) for row in objects], None)


def keep_batches(bench: Bench, value_bytes: int, written: int) -> None:
    """Writes the batches of the tank source to files; and `written` of the values to Parquet files, for the
    sinks.
    """
    from pyspark.sql.types import StructType

    servers = next(iter(bench.servers.values()))
    source = TankSource({"servers": servers, "subscribe": topic_of(value_bytes)})
    reader = source.reader(StructType.fromDDL(source.schema()))
    bench.batches(value_bytes).mkdir()
    bench.values(value_bytes).mkdir()
    for number, partition in enumerate(reader.partitions()):
        first, *more = reader.read(partition)
        path = bench.batches(value_bytes) / f"{number}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
            for batch in (first, *more):
                writer.write_batch(batch)
        values = pa.Table.from_batches([first, *more]).select(["value"]).slice(0, written // PARTITIONS)
        pq.write_table(values, bench.values(value_bytes) / f"{number}.parquet", compression="snappy")
