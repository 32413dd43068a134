"""Counts that change, in update mode: each batch of a stream writes those that it changed into a topic, once.

Spark gives no Python sink its update mode, so `foreachBatch` writes them by `df.write`. `writeName` and
`writeId` make that as safe as the stream's own sink: brokers recognize a batch that Spark runs again.

    tank topic create words && tank topic create word-counts
    python examples/running_counts.py
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

# Tasks of the same number write under the same name in all batches: as many names as tasks, for good.
WRITE_NAME = "running-counts"


def count_words(
    spark: SparkSession, servers: str, words: str, counts: str, checkpoint: str
) -> StreamingQuery:
    """Starts the query: messages of the topic `words` are counted by content, into the topic `counts`."""

    def write_changes(changed: DataFrame, batch_id: int) -> None:
        # A batch that runs again has to give its tasks the same rows in the same order.
        rows = changed.repartition(2, "word").sortWithinPartitions("word")
        (
            rows.selectExpr("word AS key", "string(count) AS value")
            .write.format("tank")
            .mode("append")
            .options(servers=servers, topic=counts, writeName=WRITE_NAME, writeId=batch_id)
            .save()
        )

    read = spark.readStream.format("tank").options(
        servers=servers, subscribe=words, startingOffsets="earliest"
    )
    return (
        read.load()
        .groupBy("value")
        .count()
        .selectExpr("string(value) AS word", "count")
        .writeStream.outputMode("update")
        .foreachBatch(write_changes)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def main() -> None:
    """Counts the words that are there, and ends."""
    from pyspark.sql import SparkSession

    from pyspark_tank.java_home import use_java

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--servers", default="127.0.0.1:11011")
    parser.add_argument("--checkpoint", default="checkpoints/running-counts")
    given = parser.parse_args()
    use_java()
    spark = SparkSession.builder.appName("running-counts").getOrCreate()
    count_words(spark, given.servers, "words", "word-counts", given.checkpoint).awaitTermination()


if __name__ == "__main__":
    main()
