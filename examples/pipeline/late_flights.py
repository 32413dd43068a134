"""A declarative pipeline: flights that left late, from a topic into a table, from there into another topic.

    tank topic create flights --if-not-exists && tank topic create late-flights
    TANK_SERVERS=127.0.0.1:11011 spark-pipelines run --conf spark.sql.catalogImplementation=hive

`spark-pipelines` runs it in this folder, once over what is there; each run goes on where the last one ended.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SERVERS = os.environ.get("TANK_SERVERS", "127.0.0.1:11011")
LATE_MINUTES = 60

spark = SparkSession.active()


@dp.table(comment="Flights that left an hour late, or later.")  # type: ignore[untyped-decorator]
def late_flights() -> DataFrame:
    flights = spark.readStream.format("tank").options(
        servers=SERVERS,
        subscribe="flights",
        startingOffsets="earliest",
        valueFormat="json",
        valueSchema="carrier STRING, flight INT, dep_delay DOUBLE",
    )
    return flights.load().select("value.*").where(f"dep_delay >= {LATE_MINUTES}")


dp.create_sink("late_topic", "tank", {"servers": SERVERS, "topic": "late-flights"})


@dp.append_flow(target="late_topic")  # type: ignore[untyped-decorator]
def tell_late_flights() -> DataFrame:
    """Each of them once: the flow has a checkpoint in the pipeline's storage, as a query has."""
    return spark.readStream.table("late_flights").selectExpr("carrier AS key", "to_json(struct(*)) AS value")
