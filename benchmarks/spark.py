"""How many rows a second PySpark reads from and writes to a broker: `python -m benchmarks.spark --help`.

Everything runs on this machine: a broker in a process of its own, Spark in local mode on two cores. Each
figure is the best of the runs; the first one, which warms Java up, never is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from examples.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4
VALUE_BYTES = 100
BUNDLE_ROWS = 5_000
RUNS = 2
JSON_VALUE = (
    b'{"carrier":"UA","flight":%7d,"origin":"EWR","dest":"IAH","dep_delay":%3d.0,"at":"2013-01-01T10:17:00Z"}'
)
JSON_FIELDS = "carrier STRING, flight INT, origin STRING, dest STRING, dep_delay DOUBLE, at TIMESTAMP"


def main() -> None:
    parser = argparse.ArgumentParser(description="Rows a second through Spark and a broker on this machine.")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--output", choices=("text", "json"), default="text")
    given = parser.parse_args()
    figures = measure(given.rows)
    if given.output == "json":
        print(json.dumps(figures, indent=2))
        return
    for name, rows_per_s in figures.items():
        print(f"{name:<42} {rows_per_s:>12,.0f} rows/s")


def measure(rows: int) -> dict[str, float]:
    """Rows a second by what was done."""
    from pyspark.sql import SparkSession

    from pyspark_tank.java_home import use_java

    use_java()
    with tempfile.TemporaryDirectory(prefix="tank-spark-") as name, Broker(Path(name)) as broker:
        fill(broker.servers, rows)
        folder = Path(name)
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.driver.memory", "2g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        try:
            return {
                what: rows / best(lambda work=work: work(spark, broker.servers, folder))  # type: ignore[misc]
                for what, work in WORK.items()
            }
        finally:
            spark.stop()


def fill(servers: str, rows: int) -> None:
    """`rows` values of 100 bytes, and as many JSON objects of about that size."""
    from tank_client.sync import Client
    from tank_protos.bundle import encode

    with Client(servers) as client:
        client.admin.create_topic("plain", partitions=PARTITIONS)
        client.admin.create_topic("json", partitions=PARTITIONS)
        client.admin.create_topic("sink", partitions=PARTITIONS)
        for number, begin in enumerate(range(0, rows, BUNDLE_ROWS)):
            count = min(BUNDLE_ROWS, rows - begin)
            now = time.time_ns() // 1_000_000
            plain = [b"%0*d" % (VALUE_BYTES, row) for row in range(begin, begin + count)]
            objects = [JSON_VALUE % (row, row % 200) for row in range(begin, begin + count)]
            client.produce_bundle("plain", number % PARTITIONS, encode(plain, timestamps=now))
            client.produce_bundle("json", number % PARTITIONS, encode(objects, timestamps=now))


def best(work: Callable[[], None]) -> float:
    """Seconds of the fastest of the runs, without the first."""
    taken = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


def count(spark: SparkSession, servers: str, folder: Path) -> None:
    spark.read.format("tank").option("servers", servers).option("subscribe", "plain").load().count()


def to_parquet(spark: SparkSession, servers: str, folder: Path) -> None:
    rows = spark.read.format("tank").option("servers", servers).option("subscribe", "plain").load()
    rows.write.mode("overwrite").parquet(str(folder / "parquet"))


def json_in_reader(spark: SparkSession, servers: str, folder: Path) -> None:
    reader = spark.read.format("tank").option("servers", servers).option("subscribe", "json")
    rows = reader.option("valueFormat", "json").schema(JSON_FIELDS).load()
    rows.selectExpr("sum(dep_delay)", "count(distinct carrier)", "max(at)").collect()


def json_in_spark(spark: SparkSession, servers: str, folder: Path) -> None:
    rows = spark.read.format("tank").option("servers", servers).option("subscribe", "json").load()
    rows = rows.selectExpr(f"from_json(string(value), '{JSON_FIELDS}') AS v").select("v.*")
    rows.selectExpr("sum(dep_delay)", "count(distinct carrier)", "max(at)").collect()


def write(spark: SparkSession, servers: str, folder: Path) -> None:
    rows = spark.read.parquet(str(folder / "parquet")).select("value")
    rows.write.format("tank").mode("append").option("servers", servers).option("topic", "sink").save()


WORK: dict[str, Callable[[SparkSession, str, Path], None]] = {
    "read, count": count,
    "read, all columns to Parquet": to_parquet,
    "read, JSON decoded in the reader": json_in_reader,
    "read, JSON decoded by from_json": json_in_spark,
    "write, Parquet to a topic": write,
}


if __name__ == "__main__":
    main()
