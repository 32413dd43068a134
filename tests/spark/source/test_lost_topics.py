"""Topics that go away under a query: the driver's side of a stream at a real broker, without Spark."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_tank import connecting
from pyspark_tank.columns import layout_of
from pyspark_tank.errors import DataLossError, OptionError, ServersError
from pyspark_tank.options import parse_source_options
from pyspark_tank.stream_reader import TankStreamReader
from tank_client.errors import UnknownTopic
from tests.support.patience import patient

if TYPE_CHECKING:
    from tank_client.sync import Client
    from tests.spark.conftest import NewTopic
    from tests.spark.topics import Topic

pytestmark = pytest.mark.integration

STEP_S = patient(60)
NewReader = Callable[..., TankStreamReader]
ANYTHING: dict[str, Any] = {"latestOffsetWaitMs": "0", "startingOffsets": "earliest"}


def reader_of(topic: Topic, **options: str) -> TankStreamReader:
    from pyspark.sql.types import BinaryType, StructType

    given = {"servers": topic.servers, **ANYTHING, **options}
    parsed = parse_source_options(given, streaming=True)
    schema = StructType().add("value", BinaryType())
    return TankStreamReader(parsed, schema, layout_of(schema, parsed))


def numbers_of(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset without the topics' ids."""
    return {
        topic: {partition: number for partition, number in numbers.items() if partition != "topicId"}
        for topic, numbers in offset.items()
    }


def next_offset(reader: TankStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return reader.latestOffset(start, ReadAllAvailable())


@pytest.fixture
def two(new_topic: NewTopic) -> tuple[Topic, Topic]:
    """A topic that stays and one that a test deletes, three messages in each."""
    kept, doomed = new_topic(), new_topic()
    kept.add_numbers(0, 3)
    doomed.add_numbers(0, 3)
    return kept, doomed


def subscriptions(kept: Topic, doomed: Topic) -> list[dict[str, str]]:
    return [
        {"subscribe": f"{kept.name},{doomed.name}"},
        {"subscribePattern": f"{kept.name}|{doomed.name}"},
        {"assign": f'{{"{kept.name}": [0], "{doomed.name}": [0]}}'},
    ]


@pytest.mark.parametrize("way", range(3))
def test_a_deleted_topic_stops_the_query(two: tuple[Topic, Topic], client: Client, way: int) -> None:
    kept, doomed = two
    reader = reader_of(kept, **subscriptions(kept, doomed)[way])
    start = next_offset(reader, reader.initialOffset())
    assert numbers_of(start) == {kept.name: {"0": 4}, doomed.name: {"0": 4}}
    client.admin.delete_topic(doomed.name)
    with pytest.raises(DataLossError, match=f"{doomed.name}/0: deleted.*failOnDataLoss"):
        next_offset(reader, start)
    reader.stop()


@pytest.mark.parametrize("way", range(3))
def test_a_deleted_topic_is_left_out_when_it_may(
    two: tuple[Topic, Topic], client: Client, caplog: pytest.LogCaptureFixture, way: int
) -> None:
    kept, doomed = two
    reader = reader_of(kept, failOnDataLoss="false", **subscriptions(kept, doomed)[way])
    start = next_offset(reader, reader.initialOffset())
    client.admin.delete_topic(doomed.name)
    kept.add_numbers(3, 5)
    with caplog.at_level(logging.WARNING, "pyspark_tank"):
        end = next_offset(reader, start)
        assert numbers_of(end) == {kept.name: {"0": 6}}
        assert next_offset(reader, end) == end
    assert len(caplog.records) == 1, "it is told once"
    assert f"{doomed.name}/0" in caplog.text
    client.admin.create_topic(doomed.name)
    doomed.add_numbers(0, 1)
    again = next_offset(reader, end)
    assert numbers_of(again) == {kept.name: {"0": 6}, doomed.name: {"0": 2}}, (
        "made anew, it is read from its beginning"
    )
    assert [part.messages.start for part in reader.partitions(end, again)] == [1]
    reader.stop()


def test_a_topic_deleted_while_the_driver_waits_in_the_broker(new_topic: NewTopic, client: Client) -> None:
    doomed = new_topic()
    reader = reader_of(doomed, subscribe=doomed.name, failOnDataLoss="false", latestOffsetWaitMs="400")
    start = reader.initialOffset()
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(next_offset(reader, start)), daemon=True)
    waiting.start()
    client.admin.delete_topic(doomed.name)
    waiting.join(STEP_S)
    assert found == [start], "an empty offset would say that nothing was ever read"
    assert next_offset(reader, start) == start, "no topic is left, and the query goes on waiting"
    reader.stop()


def test_a_topic_that_never_was_is_an_error_either_way(new_topic: NewTopic) -> None:
    there = new_topic()
    for fail in ("true", "false"):
        reader = reader_of(there, subscribe=f"{there.name},no-such-topic", failOnDataLoss=fail)
        with pytest.raises(UnknownTopic, match="tank topic create no-such-topic"):
            reader.initialOffset()
        reader.stop()
    reader = reader_of(there, subscribe=f"{there.name},no-such-topic")
    with pytest.raises(UnknownTopic, match="no-such-topic"):
        next_offset(reader, {there.name: {"0": 1}})
    reader.stop()


def test_available_now_notices_lost_data_too(two: tuple[Topic, Topic], client: Client) -> None:
    kept, anew = two
    start = {kept.name: {"0": 4}, anew.name: {"0": 4}}
    client.admin.delete_topic(anew.name)

    def target(fail: str) -> dict[str, Any]:
        reader = reader_of(kept, subscribePattern=f"{kept.name}|{anew.name}", failOnDataLoss=fail)
        reader.prepareForTriggerAvailableNow()
        try:
            return numbers_of(next_offset(reader, start))
        finally:
            reader.stop()

    with pytest.raises(DataLossError, match=f"{anew.name}/0: deleted"):
        target("true")
    assert target("false") == {kept.name: {"0": 4}}
    client.admin.create_topic(anew.name)
    anew.add_numbers(0, 1)
    with pytest.raises(DataLossError, match="made anew"):
        target("true")
    assert target("false") == {kept.name: {"0": 4}, anew.name: {"0": 2}}


def test_messages_that_come_between_the_two_questions_are_not_lost_data(new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.add_numbers(0, 3)
    reader = reader_of(topic, subscribe=topic.name, startingOffsets="latest")
    reader.prepareForTriggerAvailableNow()
    topic.add_numbers(3, 5)
    start = reader.initialOffset()
    assert start == next_offset(reader, start)
    assert numbers_of(start) == {topic.name: {"0": 6}}
    reader.stop()


def test_a_partition_that_never_was_cannot_be_assigned(new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    reader = reader_of(topic, assign=f'{{"{topic.name}": [1, 2]}}')
    with pytest.raises(OptionError, match=f"assign names partition 2 of topic '{topic.name}', which has 2"):
        reader.initialOffset()
    reader.stop()


def make_again(topic: Topic, client: Client, messages: int) -> None:
    client.admin.delete_topic(topic.name)
    client.admin.create_topic(topic.name)
    topic.add_numbers(0, messages)


@pytest.mark.parametrize("messages", [1, 3, 7])
@pytest.mark.parametrize("available_now", [False, True])
def test_a_topic_made_again_is_noticed_however_many_messages_it_has(
    new_topic: NewTopic, client: Client, messages: int, available_now: bool
) -> None:
    topic = new_topic()
    topic.add_numbers(0, 3)
    first = reader_of(topic, subscribe=topic.name)
    start = next_offset(first, first.initialOffset())
    first.stop()
    make_again(topic, client, messages)

    def look(fail: str) -> tuple[TankStreamReader, dict[str, Any]]:
        reader = reader_of(topic, subscribe=topic.name, failOnDataLoss=fail)
        if available_now:
            reader.prepareForTriggerAvailableNow()
        try:
            return reader, next_offset(reader, start)
        finally:
            reader.stop()

    with pytest.raises(DataLossError, match=f"{topic.name} was deleted and created again.*0 up to 3"):
        look("true")
    reader, end = look("false")
    assert numbers_of(end) == {topic.name: {"0": messages + 1}}
    assert [part.messages.start for part in reader.partitions(start, end)] == [1], "it is read whole"


def test_tasks_notice_a_topic_made_again(
    new_topic: NewTopic, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    topic.add_numbers(0, 3)
    reader = reader_of(topic, subscribe=topic.name)
    start = reader.initialOffset()
    (task,) = reader.partitions(start, next_offset(reader, start))
    reader.stop()
    assert sum(batch.num_rows for batch in reader.read(task)) == 3
    begun = reader.read(task)
    assert next(begun).num_rows == 3
    make_again(topic, client, 5)
    for reading in (begun, reader.read(task)):
        with pytest.raises(DataLossError, match=f"{topic.name}/0: the topic was deleted and created again"):
            list(reading)
    tolerant = reader_of(topic, subscribe=topic.name, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "pyspark_tank"):
        assert list(tolerant.read(task)) == [], "these are other messages"
    assert "created again" in caplog.text


def test_a_checkpoint_without_ids_stays_valid(new_topic: NewTopic) -> None:
    topic = new_topic()
    topic.add_numbers(0, 3)
    reader = reader_of(topic, subscribe=topic.name)
    of_before = {topic.name: {"0": 4}}
    assert next_offset(reader, of_before) == of_before, "no batch for the sake of an id"
    topic.add_numbers(3, 5)
    end = next_offset(reader, of_before)
    assert end[topic.name].keys() == {"0", "topicId"}
    assert [part.messages.size for part in reader.partitions(of_before, end)] == [2]
    reader.stop()


def test_a_group_follows_what_spark_has_done(new_topic: NewTopic, client: Client) -> None:
    topic = new_topic(partitions=2)
    topic.add_numbers(0, 3, partition=1)
    reader = reader_of(topic, subscribe=topic.name, **{"kafka.group.id": "the-query"})

    def positions() -> list[int]:
        kept = client.admin.fetch_positions("the-query", [topic.name])
        return [kept[topic.name, partition].number for partition in (0, 1)]

    end = next_offset(reader, reader.initialOffset())
    assert positions() == [1, 1], "it has begun, and nothing is done"
    reader.commit(end)
    assert positions() == [1, 4]
    topic.add_numbers(3, 5)
    end = next_offset(reader, end)
    assert positions() == [1, 4]
    assert next_offset(reader, end) == end, "Spark asks for the next batch when this one is done"
    assert positions() == [3, 4], "the last batch counts, though no next one follows"
    reader.stop()


def test_positions_that_are_not_taken_stop_no_query(
    new_topic: NewTopic, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    reader = reader_of(topic, subscribe=topic.name, **{"kafka.group.id": "the-other-query"})
    end = reader.initialOffset()
    client.admin.delete_topic(topic.name)
    with caplog.at_level(logging.WARNING, "pyspark_tank"):
        reader.commit(end)
    assert "positions of group the-other-query were not committed" in caplog.text
    reader.stop()


def test_wrong_servers_are_told_by_the_options_name(
    new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connecting.FIRST_ANSWER_MS <= 10_000
    monkeypatch.setattr(connecting, "FIRST_ANSWER_MS", 100)
    reader = reader_of(new_topic(), subscribe="t", servers="127.0.0.1:1")
    with pytest.raises(ServersError, match=r"no broker answers at 127\.0\.0\.1:1 .*option.*servers") as error:
        reader.initialOffset()
    assert "--servers" not in str(error.value)
    reader.stop()
