"""spark.read and df.write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import pyspark_tank
from pyspark_tank import RegistrationError, registration
from tests.spark.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.conftest import NewTopic

pytestmark = pytest.mark.spark


def numbers(rows: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in rows.select("value").collect())


def test_the_columns_are_those_of_the_kafka_source(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    topic.add([b"a", b""], keys=[b"k", None], timestamps=[1_700_000_000_123, 1_700_000_000_456])
    topic.add([b"c"], partition=1)
    rows = topic.read(spark)
    assert rows.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    first, second, third = sorted(rows.collect(), key=lambda row: (row.partition, row.offset))
    assert first.asDict() == {
        "key": bytearray(b"k"), "value": bytearray(b"a"), "topic": topic.name, "partition": 0, "offset": 1,
        "timestamp": first.timestamp, "timestampType": 0,
    }  # fmt: skip
    assert spark.createDataFrame([first]).selectExpr("unix_millis(timestamp)").first()[0] == 1_700_000_000_123
    assert (second.key, second.value, second.offset) == (None, b"", 2)
    assert (third.partition, third.offset, third.value) == (1, 1, b"c")


def test_a_large_topic_is_read_whole_by_more_tasks_than_partitions(
    spark: SparkSession, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    for partition in range(2):
        for begin in range(0, 60_000, 10_000):
            topic.add([b"%0100d" % number for number in range(begin, begin + 10_000)], partition=partition)
    rows = topic.read(spark, minPartitions="5")
    assert rows.rdd.getNumPartitions() == 5
    found = rows.selectExpr(
        "count(*)", "count(distinct partition, offset)", "sum(cast(string(value) as bigint))"
    )
    assert tuple(found.first()) == (120_000, 120_000, 2 * sum(range(60_000)))


def test_an_empty_topic_has_no_rows(spark: SparkSession, new_topic: NewTopic) -> None:
    assert new_topic(partitions=3).read(spark).count() == 0


def test_ranges_by_offset_begin_with_the_first_and_end_before_the_second(
    spark: SparkSession, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    topic.add_numbers(1, 31)
    topic.add_numbers(101, 111, partition=1)
    rows = topic.read(
        spark,
        startingOffsets=f'{{"{topic.name}": {{"0": 4, "1": -2}}}}',
        endingOffsets=f'{{"{topic.name}": {{"0": 29, "1": -1}}}}',
    )
    assert numbers(rows) == [*range(4, 29), *range(101, 111)]


def test_ranges_by_time_find_the_very_message(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic()
    for begin in (0, 10, 20):
        topic.add([b"%d" % number for number in range(begin, begin + 10)],
                  timestamps=[1000 + number for number in range(begin, begin + 10)])  # fmt: skip
    assert numbers(topic.read(spark, startingTimestamp="1013", endingTimestamp="1025")) == list(range(13, 25))
    assert numbers(topic.read(spark, endingTimestamp="5000")) == list(range(30))
    with pytest.raises(Exception, match="no message at or after 5000 ms"):
        topic.read(spark, startingTimestamp="5000").collect()
    late = topic.read(spark, startingTimestamp="5000", startingOffsetsByTimestampStrategy="latest")
    assert late.count() == 0


def test_topics_by_pattern_and_partitions_by_number(spark: SparkSession, new_topic: NewTopic) -> None:
    one, two = new_topic(partitions=2), new_topic()
    one.add_numbers(0, 5)
    one.add_numbers(5, 9, partition=1)
    two.add_numbers(100, 103)
    reader = spark.read.format("tank").option("servers", one.servers)
    both = reader.option("subscribePattern", f"({one.name}|{two.name})").load()
    assert numbers(both) == [*range(9), 100, 101, 102]
    reader = spark.read.format("tank").option("servers", one.servers)
    assert numbers(reader.option("assign", f'{{"{one.name}": [1]}}').load()) == [5, 6, 7, 8]


def test_fewer_columns_are_read_when_the_schema_names_fewer(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.add([b"v"], keys=[b"k"])
    reader = spark.read.format("tank").options(servers=topic.servers, subscribe=topic.name)
    (row,) = reader.schema("offset BIGINT, value BINARY").load().collect()
    assert row.asDict() == {"offset": 1, "value": b"v"}
    with pytest.raises(Exception, match="no column `value string`"):
        reader.schema("value STRING").load().collect()


FLIGHT = "carrier STRING, delay DOUBLE, at TIMESTAMP, legs ARRAY<STRUCT<dest: STRING>>"


@pytest.fixture
def json_topic(new_topic: NewTopic) -> Topic:
    topic = new_topic()
    topic.add(
        [
            b'{"carrier":"UA","delay":2,"at":"2013-01-01T10:17:00Z","legs":[{"dest":"IAH"}]}',
            b"not json",
            b'{"carrier":"DL","delay":null,"more":1}',
        ]
    )
    return topic


def test_json_is_decoded_in_the_reader_beside_the_other_columns(
    spark: SparkSession, json_topic: Topic
) -> None:
    rows = json_topic.read(spark, valueFormat="json", valueSchema=FLIGHT)
    first, second, third = (
        rows.orderBy("offset").selectExpr("offset", "value", "unix_seconds(value.at) AS at").collect()
    )
    assert (first.offset, first.value.carrier, first.value.delay) == (1, "UA", 2.0)
    assert first.at == int(datetime(2013, 1, 1, 10, 17, tzinfo=UTC).timestamp())
    assert first.value.legs[0].dest == "IAH"
    assert second.value.asDict() == dict.fromkeys(("carrier", "delay", "at", "legs"))
    assert (third.value.carrier, third.value.delay, third.value.legs) == ("DL", None, None)


def test_json_fields_can_be_the_columns(spark: SparkSession, json_topic: Topic) -> None:
    reader = spark.read.format("tank").options(
        servers=json_topic.servers, subscribe=json_topic.name, valueFormat="json"
    )
    rows = reader.schema("carrier STRING, delay DOUBLE").load()
    assert [tuple(row) for row in rows.collect()] == [("UA", 2.0), (None, None), ("DL", None)]
    with pytest.raises(Exception, match="not json"):
        reader.option("mode", "FAILFAST").schema("carrier STRING").load().collect()
    with pytest.raises(Exception, match="valueSchema"):
        json_topic.read(spark, valueFormat="json")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"startingOffset": "earliest"}, "nearest is 'startingOffsets'"),
        ({"includeHeaders": "perhaps"}, "includeHeaders"),
        ({"startingOffsets": "latest"}, "nothing to read"),
        ({"startingOffsets": '{"other": {"0": 1}}'}, "which is not read"),
        ({"subscribe": "no-such-topic"}, "tank topic create no-such-topic"),
    ],
)
def test_the_user_sees_what_to_change(
    spark: SparkSession, new_topic: NewTopic, options: dict[str, Any], says: str
) -> None:
    topic = new_topic()
    reader = spark.read.format("tank").options(servers=topic.servers, **{"subscribe": topic.name, **options})
    with pytest.raises(Exception, match=says):
        reader.load().collect()


def test_rows_come_back_as_they_were_written(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    rows = spark.range(25_000).selectExpr("string(id % 100) AS key", "string(id) AS value")
    rows.write.format("tank").mode("append").options(servers=topic.servers, topic=topic.name).save()
    back = topic.read(spark).selectExpr("string(key) AS key", "string(value) AS value", "partition").cache()
    assert back.exceptAll(rows.selectExpr("key", "value", "0 AS partition").limit(0)).count() == 25_000
    assert back.select("key", "value").exceptAll(rows).count() == 0
    spread = (
        back.groupBy("key")
        .agg({"partition": "min"})
        .join(back.groupBy("key").agg({"partition": "max"}), "key")
    )
    assert spread.where("`min(partition)` <> `max(partition)`").count() == 0, "a key stays in its partition"


def test_rows_choose_their_topic_and_partition(spark: SparkSession, new_topic: NewTopic) -> None:
    one, two = new_topic(partitions=2), new_topic()
    rows = spark.createDataFrame(
        [(one.name, 1, "a"), (two.name, 0, "b"), (one.name, 0, "c")],
        "topic STRING, partition INT, value STRING",
    )
    rows.write.format("tank").mode("append").option("servers", one.servers).save()
    assert [message.value for message in one.messages(1)] == [b"a"]
    assert [message.value for message in two.messages(0)] == [b"b"]
    assert [message.value for message in one.messages(0)] == [b"c"]


@pytest.mark.parametrize(
    ("columns", "mode", "says"),
    [
        ("1 AS value", "append", "use to_json"),
        ("'a' AS content", "append", "no column `value`"),
        ("'a' AS value, array('h') AS headers", "append", "column `headers` is array<string>"),
        ("'a' AS value", "overwrite", "a log, which only grows"),
    ],
)
def test_what_cannot_be_written_is_refused(
    spark: SparkSession, new_topic: NewTopic, columns: str, mode: str, says: str
) -> None:
    topic = new_topic()
    writer = spark.range(1).selectExpr(*columns.split(", ")).write.format("tank").mode(mode)
    with pytest.raises(Exception, match=says):
        writer.options(servers=topic.servers, topic=topic.name).save()
    assert topic.ends()[1] == 0


class OverConnect:
    """A session as Spark Connect gives it: without a context."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        if name in ("sparkContext", "_jvm", "_jsparkSession"):
            raise AttributeError(f"{name} is not supported in Spark Connect")
        return getattr(self._spark, name)


def test_registering_checks_the_workers(
    spark: SparkSession, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark_tank.register(OverConnect(spark))
    assert new_topic().read(spark).count() == 0
    monkeypatch.setattr(registration, "NEEDED", (*registration.NEEDED, "a_package_that_nobody_has"))
    with pytest.raises(
        RegistrationError, match=r"can't find a_package_that_nobody_has: install .*PYSPARK_PYTHON"
    ):
        pyspark_tank.register(spark)


def test_a_dataframe_that_is_used_again_reads_the_same_messages(
    spark: SparkSession, new_topic: NewTopic
) -> None:
    """Spark plans a Python source once for each load()."""
    topic = new_topic()
    topic.add_numbers(0, 3)
    rows = topic.read(spark)
    assert numbers(rows) == [0, 1, 2]
    topic.add_numbers(3, 5)
    assert numbers(rows) == [0, 1, 2]
    assert numbers(topic.read(spark)) == [0, 1, 2, 3, 4]


def test_a_time_that_spark_does_not_hold_is_named(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.add([b"1", b"2", b"3"], timestamps=[5, 2**62, 7])
    with pytest.raises(Exception, match=f"{topic.name}/0: the message at offset 2 has a time of"):
        topic.read(spark).selectExpr("unix_millis(timestamp)").collect()
    by_schema = spark.read.format("tank").options(servers=topic.servers, subscribe=topic.name)
    assert numbers(by_schema.schema("value BINARY").load()) == [1, 2, 3]


def test_a_start_behind_the_end_is_an_error(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.add_numbers(0, 3)
    behind = {"startingOffsets": f'{{"{topic.name}": {{"0": 5}}}}'}
    with pytest.raises(Exception, match=f"{topic.name}/0: the read would begin at offset 5, .* which is 4"):
        topic.read(spark, **behind).collect()
    at_the_end = {"startingOffsets": f'{{"{topic.name}": {{"0": 4}}}}'}
    assert numbers(topic.read(spark, **at_the_end)) == []


def test_one_word_for_a_whole_topic(spark: SparkSession, new_topic: NewTopic) -> None:
    topic, other = new_topic(partitions=2), new_topic()
    topic.add_numbers(0, 3, partition=1)
    other.add_numbers(3, 6)
    both = {
        "subscribe": f"{topic.name},{other.name}",
        "startingOffsets": f'{{"{topic.name}": "earliest", "{other.name}": {{"0": 2}}}}',
        "endingOffsets": f'{{"{topic.name}": "latest", "{other.name}": {{"0": 3}}}}',
    }
    assert numbers(topic.read(spark, **both)) == [0, 1, 2, 4]


def test_sql_reads_a_topic(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.add_numbers(0, 3)
    options = f"OPTIONS (servers '{topic.servers}', subscribe '{topic.name}')"
    spark.sql(f"CREATE TEMPORARY VIEW a_view USING tank {options}")
    try:
        assert numbers(spark.sql("SELECT value FROM a_view WHERE offset > 1")) == [1, 2]
    finally:
        spark.sql("DROP VIEW a_view")
    spark.sql(f"CREATE TABLE a_table USING tank {options} COMMENT 'numbers'")
    try:
        with pytest.raises(Exception, match="hands the options of a table"):
            spark.sql("SELECT value FROM a_table").collect()
        given = f"WITH (servers = '{topic.servers}', subscribe = '{topic.name}')"
        assert numbers(spark.sql(f"SELECT value FROM a_table {given} WHERE offset > 1")) == [1, 2]
    finally:
        spark.sql("DROP TABLE a_table")
