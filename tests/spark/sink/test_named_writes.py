"""df.write under a name: written again, it is there once; and the example that counts in update mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from examples.running_counts import count_words
from tests.spark.sink.forgotten_commits import forget_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import NewTopic
    from tests.spark.topics import Topic

pytestmark = pytest.mark.spark


def write(spark: SparkSession, sink: Topic, begin: int, write_id: int) -> None:
    rows = spark.range(begin, begin + 10, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    writer = rows.write.format("tank").mode("append").options(servers=sink.servers, topic=sink.name)
    writer.options(writeName=f"{sink.name}-writer", writeId=write_id).save()


def test_a_named_write_that_is_called_again_writes_nothing(spark: SparkSession, new_topic: NewTopic) -> None:
    sink = new_topic()
    for write_id in (0, 0, 1, 1):
        write(spark, sink, 10 * write_id, write_id)
    assert sink.numbers() == list(range(20))
    with pytest.raises(Exception, match=f"writeId 0 of writeName '{sink.name}-writer'.* is older"):
        write(spark, sink, 0, 0)
    write(spark, sink, 20, 70_000)
    assert sink.numbers() == list(range(30)), "the number may leave some out"


def test_the_example_counts_each_word_once_per_change(
    spark: SparkSession, new_topic: NewTopic, checkpoint: str
) -> None:
    words, counts = new_topic(), new_topic()

    def run() -> list[tuple[bytes | None, bytes]]:
        count_words(spark, words.servers, words.name, counts.name, checkpoint).awaitTermination()
        return sorted((message.key, bytes(message.value)) for message in counts.messages())

    words.add([b"a", b"b", b"a"])
    first = [(b"a", b"2"), (b"b", b"1")]
    assert run() == first
    words.add([b"a", b"c"])
    both = sorted([*first, (b"a", b"3"), (b"c", b"1")])
    assert run() == both
    forget_commit(checkpoint, 1)
    assert run() == both, "the batch ran again, and the brokers knew it"
