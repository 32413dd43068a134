"""New York's flights, hour by hour: an ordinary PySpark pipeline over a Tank topic, to copy and change.

    python examples/flights.py --servers 127.0.0.1:11011 --topic flights --out out

It reads flights (JSON) while they arrive, and keeps two queries running until you stop it by Ctrl-C; started
again with the same `--out`, they go on where they were:

- `hourly`: departures and mean delay per airport and hour, with the weather joined in, to a result topic;
- `routes`: flights and delays per route and day, to Parquet.

Event time is the time of departure, in UTC. A watermark of 7 days lets late flights in; when it has passed an
hour's end, the hour's row is written, once. With `--until 2014-01-03` it ends when all before that day is
closed, and says what it wrote. Needs `tank-cluster[spark]` in its Python, and Java 17 or newer.
"""

import argparse
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

# The fields of a flight that the pipeline needs; the reader decodes them from the JSON.
FLIGHT = """
    event_time TIMESTAMP, time_hour TIMESTAMP, carrier STRING, origin STRING, dest STRING,
    dep_delay DOUBLE, distance INT, marker BOOLEAN
"""

# The fields of a row of the result topic.
HOUR = """
    origin STRING, hour TIMESTAMP, flights BIGINT, departures BIGINT, mean_delay DOUBLE,
    without_weather BIGINT, wind_mph DOUBLE, rain_inches DOUBLE, visibility_miles DOUBLE
"""

WATERMARK = "7 days"


def flights(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """The stream of flights, from the topic's beginning."""
    messages = (
        spark.readStream.format("tank")
        .option("servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("valueFormat", "json")
        .option("valueSchema", FLIGHT)
        .load()
    )
    return without_markers(messages.select("value.*"))


def without_markers(messages: DataFrame) -> DataFrame:
    """Sets the watermark and then drops the markers, messages of a later date that end each partition.

    They have to pass the watermark first, so that it moves on and every hour is closed. The condition names
    event_time on purpose: Spark moves conditions that don't to before the watermark.
    """
    is_flight = F.when(F.col("marker").isNull(), F.col("event_time")).isNotNull()
    return messages.withWatermark("event_time", WATERMARK).where(is_flight)


def hourly(flown: DataFrame, weather: DataFrame) -> DataFrame:
    """Departures, mean delay and weather per airport and hour. Flights without weather are counted too."""
    return (
        flown.join(F.broadcast(weather), ["origin", "time_hour"], "left")
        .groupBy(F.window("event_time", "1 hour"), "origin")
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_delay").alias("departures"),
            F.avg("dep_delay").alias("mean_delay"),
            F.count(F.when(F.col("observed").isNull(), 1)).alias("without_weather"),
            F.avg("wind_speed").alias("wind_mph"),
            F.avg("precip").alias("rain_inches"),
            F.avg("visib").alias("visibility_miles"),
        )
        .select("origin", F.col("window.start").alias("hour"), "flights", "departures", "mean_delay",
                "without_weather", "wind_mph", "rain_inches", "visibility_miles")
    )  # fmt: skip


def routes(flown: DataFrame) -> DataFrame:
    """Flights and delays per route and day."""
    return (
        flown.groupBy(F.window("event_time", "1 day"), "origin", "dest")
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_delay").alias("departures"),
            F.sum("dep_delay").alias("total_delay"),
            F.first("distance").alias("miles"),
        )
        .select(F.col("window.start").alias("day"), "origin", "dest", "flights", "departures",
                "total_delay", "miles")
    )  # fmt: skip


def read_weather(spark: SparkSession, path: str) -> DataFrame:
    """The weather at the airports, hour by hour: a small table, read once."""
    table = spark.read.csv(path, header=True, inferSchema=True, nullValue="NA")
    return table.select(
        "origin",
        F.to_timestamp("time_hour").alias("time_hour"),
        "wind_speed",
        "precip",
        "visib",
        F.lit(True).alias("observed"),
    )


def start(
    spark: SparkSession, servers: str, topic: str, result_topic: str, weather: DataFrame, out: Path
) -> list[StreamingQuery]:
    """Starts both queries. Their checkpoints and the Parquet files go to `out`."""
    flown = flights(spark, servers, topic)
    by_hour = (
        hourly(flown, weather)
        .select(F.col("origin").alias("key"), F.to_json(F.struct("*")).alias("value"))
        .writeStream.queryName("hourly")
        .format("tank")
        .option("servers", servers)
        .option("topic", result_topic)
        .option("checkpointLocation", str(out / "checkpoints" / "hourly"))
        .outputMode("append")
        .start()
    )
    by_route = (
        routes(flown)
        .writeStream.queryName("routes")
        .format("parquet")
        .option("path", str(out / "routes"))
        .option("checkpointLocation", str(out / "checkpoints" / "routes"))
        .outputMode("append")
        .start()
    )
    return [by_hour, by_route]


def hours_written(spark: SparkSession, servers: str, result_topic: str) -> DataFrame:
    """The result topic, read as a table."""
    return (
        spark.read.format("tank")
        .option("servers", servers)
        .option("subscribe", result_topic)
        .option("valueFormat", "json")
        .schema(HOUR)
        .load()
    )


def watch(queries: list[StreamingQuery], until: str | None = None) -> None:
    """Prints a line for each batch until all queries have closed what is before the day `until` (2014-01-03).
    Raises what ended one before."""
    printed: dict[str, int] = {}
    closed = dict.fromkeys((query.id for query in queries), "")
    while all(query.isActive for query in queries):
        for query in queries:
            progress = query.lastProgress
            if progress is not None and printed.get(query.id) != progress["batchId"]:
                printed[query.id] = progress["batchId"]
                closed[query.id] = progress["eventTime"].get("watermark", "1970")
                before = closed[query.id]
                what = "nothing" if before.startswith("1970") else f"what was before {before}"
                print(f"{query.name}: batch {progress['batchId']}, {progress['numInputRows']:,} messages, "
                      f"{what} is closed", flush=True)  # fmt: skip
        if until is not None and min(closed.values()) >= until:
            return
        time.sleep(1)
    for query in queries:
        if query.exception() is not None:
            query.awaitTermination()


def report(spark: SparkSession, servers: str, result_topic: str, out: Path) -> None:
    """Reads back what both queries have written since they first began, and prints how much it is."""
    every = [F.count("*"), F.coalesce(F.sum("flights"), F.lit(0))]
    (hours, in_hours) = hours_written(spark, servers, result_topic).agg(*every).first()
    (rows, on_routes) = spark.read.parquet(str(out / "routes")).agg(*every).first()
    print(f"{in_hours:,} flights in {hours:,} hours in topic {result_topic!r}", flush=True)
    print(f"{on_routes:,} flights in {rows:,} rows in {out / 'routes'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Flights by hour and by route, from a Tank topic.")
    parser.add_argument("--servers", default="127.0.0.1:11011", help="brokers, HOST:PORT,HOST:PORT")
    parser.add_argument("--topic", default="flights", help="topic with the flights")
    parser.add_argument(
        "--result-topic", default="flights-by-hour", help="topic for the hours (create it first)"
    )
    parser.add_argument("--weather", required=True, help="CSV file with the weather")
    parser.add_argument("--out", default="out", type=Path, help="folder for Parquet files and checkpoints")
    parser.add_argument("--until", metavar="DAY", help="end when what is before it is closed: 2014-01-03")
    given = parser.parse_args()

    spark = (
        SparkSession.builder.appName("flights")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    weather = read_weather(spark, given.weather)
    queries = start(spark, given.servers, given.topic, given.result_topic, weather, given.out)
    print(f"reading {given.topic!r}", flush=True)
    try:
        watch(queries, given.until)
        if given.until is not None:
            report(spark, given.servers, given.result_topic, given.out)
    except KeyboardInterrupt:
        print("stopping")
    finally:
        for query in queries:
            query.stop()
        spark.stop()


if __name__ == "__main__":
    main()
