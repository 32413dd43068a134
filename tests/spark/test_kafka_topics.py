"""Topics of Kafka's format in Spark: headers, nulls, and what is left of them in JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tank_client.sync import Client
from tests.spark.conftest import NewTopic
from tests.spark.topics import Topic

pytestmark = pytest.mark.spark

HEADERS = "array<struct<key:string,value:binary>>"


@pytest.fixture
def topic(new_topic: NewTopic) -> Topic:
    return new_topic(settings={"log.format": "kafka"})


def rows(frame: Any) -> list[Any]:
    return sorted(frame.collect(), key=lambda row: row.offset)


def test_keys_values_and_headers_are_read_as_they_are(
    spark: SparkSession, topic: Topic, client: Client
) -> None:
    with client.producer() as producer:
        headers = [("h", b"1"), ("h", None)]
        producer.send(topic.name, None, key=b"", partition=0, headers=headers, timestamp_ms=5)
        producer.send(topic.name, b"", partition=0, timestamp_ms=6)
        producer.flush()
        producer.send(topic.name, b"x", key=b"k" * 300, partition=0, timestamp_ms=7)
    first, second, third = rows(topic.read(spark, includeHeaders="true"))
    assert (first.key, first.value, first.offset, first.partition, first.topic) == (
        b"",
        None,
        1,
        0,
        topic.name,
    )
    assert [(each.key, each.value) for each in first.headers] == [("h", b"1"), ("h", None)]
    assert (second.key, second.value, second.headers) == (None, b"", None)
    assert (third.key, third.value) == (b"k" * 300, b"x")
    assert third.timestamp.timestamp() == 0.007
    frame = topic.read(spark, includeHeaders="true")
    assert frame.schema["headers"].dataType.simpleString() == HEADERS
    assert "headers" not in topic.read(spark).columns
    assert frame.where("value IS NULL").count() == 1
    assert rows(topic.read(spark, startingOffsets=json.dumps({topic.name: {"0": 2}})))[0].offset == 2


def test_a_topic_of_bundles_has_no_headers_and_no_nulls(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.add([b"x", b""])
    found = rows(topic.read(spark, includeHeaders="true"))
    assert [(row.value, row.headers) for row in found] == [(b"x", None), (b"", None)]


def test_json_of_a_null_value_is_a_null_struct(spark: SparkSession, topic: Topic, client: Client) -> None:
    with client.producer() as producer:
        producer.send_many(topic.name, [b'{"a": 1}', None], partition=0)
    found = rows(topic.read(spark, valueFormat="json", valueSchema="a INT"))
    assert [row.value and row.value.a for row in found] == [1, None]


def test_headers_and_nulls_are_written(spark: SparkSession, topic: Topic, client: Client) -> None:
    made = spark.createDataFrame(
        [
            (b"k", b"v", [("h", b"1"), ("n", None)]),
            (b"gone", None, None),
            (b"", b"", []),
        ],
        f"key binary, value binary, headers {HEADERS}",
    ).coalesce(1)
    made.write.format("tank").mode("append").options(servers=topic.servers, topic=topic.name).save()
    found = list(client.consumer(topic.name, stop_at_end=True).messages())
    assert [(message.key, message.value, message.headers) for message in found] == [
        (b"k", b"v", (("h", b"1"), ("n", None))),
        (b"gone", None, ()),
        (b"", b"", ()),
    ]
    again = topic.read(spark, includeHeaders="true").select("key", "value", "headers").coalesce(1)
    again.write.format("tank").mode("append").options(servers=topic.servers, topic=topic.name).save()
    twice = list(client.consumer(topic.name, stop_at_end=True).messages())
    assert [each[2:4] + each[6:] for each in twice[3:]] == [each[2:4] + each[6:] for each in twice[:3]]


def test_headers_to_a_topic_of_bundles_are_refused_with_advice(
    spark: SparkSession, new_topic: NewTopic
) -> None:
    topic = new_topic()
    made = spark.createDataFrame([(b"v", [("h", b"1")])], f"value binary, headers {HEADERS}")
    writer = made.write.format("tank").mode("append").options(servers=topic.servers, topic=topic.name)
    with pytest.raises(Exception, match="--format kafka"):
        writer.save()
    assert topic.ends()[1] == 0
