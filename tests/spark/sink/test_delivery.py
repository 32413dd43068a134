"""A task's writes at a real broker, without Spark: what is a repeat, and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyspark_tank.connecting import reserve_producer_ids
from pyspark_tank.delivery import MAX_WAITING_BUNDLES, deliver
from pyspark_tank.errors import SinkError
from pyspark_tank.identity import EPOCHS, WriteIdentity
from pyspark_tank.leader_connection import LeaderConnection
from pyspark_tank.options import Compression, SinkOptions
from tank_client.sync import Client
from tests.support.examples import examples

if TYPE_CHECKING:
    from tank_client.wire.data_operations import BundleToStore
    from tests.spark.conftest import NewTopic
    from tests.spark.topics import Topic
    from tests.support.processes.broker_process import BrokerProcess

pytestmark = pytest.mark.integration


LOST = 0
"""The number of a bundle that was never sent."""


def write(topic: Topic, count: int, *, batch: int = 0, task: int = 0, bundle_rows: int = 7) -> None:
    options = SinkOptions(topic.servers, topic.name, bundle_rows=bundle_rows)
    rows = pa.record_batch({"value": pa.array([b"%d" % number for number in range(count)], pa.binary())})
    deliver(iter([rows]), options, WriteIdentity(f"query-{topic.name}", batch, task))


def test_tasks_with_reserved_ids_repeat_nothing_and_are_told_apart(new_topic: NewTopic) -> None:
    topic = new_topic()
    ids = reserve_producer_ids(topic.servers)
    options = SinkOptions(topic.servers, topic.name, bundle_rows=7)
    for task, count in ((0, 30), (1, 20), (0, 100), (1, 40), (len(ids) - 1, 5)):
        rows = pa.record_batch({"value": pa.array([b"%d" % number for number in range(count)], pa.binary())})
        deliver(iter([rows]), options, WriteIdentity("unnamed", 0, task, ids[task]))
    written = sorted(int(message.value) for message in topic.messages())
    assert written == sorted([*range(100), *range(40), *range(5)])


def test_a_second_attempt_adds_only_what_the_first_did_not_reach(new_topic: NewTopic) -> None:
    topic = new_topic()
    write(topic, 30)
    write(topic, 100)
    write(topic, 100)
    write(topic, 20)
    assert [int(message.value) for message in topic.messages()] == list(range(100))


@settings(examples(25), suppress_health_check=list(HealthCheck))
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 20), st.integers(1, 20))
def test_rows_that_are_cut_at_other_places_are_not_repeated(
    new_topic: NewTopic, first: int, second: int, cut: int, other_cut: int
) -> None:
    topic = new_topic()
    write(topic, first, bundle_rows=cut)
    write(topic, second, bundle_rows=other_cut)
    assert [int(message.value) for message in topic.messages()] == list(range(max(first, second)))


def test_tasks_and_batches_are_told_apart(new_topic: NewTopic) -> None:
    topic = new_topic()
    write(topic, 5)
    write(topic, 5, task=1)
    write(topic, 5, batch=1)
    assert len(topic.messages()) == 15


def test_an_older_batch_is_refused(new_topic: NewTopic) -> None:
    topic = new_topic()
    write(topic, 5, batch=8)
    with pytest.raises(
        SinkError,
        match=rf"batch 7 of query query-{topic.name}, to topic '{topic.name}', .*stop one of them.*older",
    ):
        write(topic, 5, batch=7)
    assert len(topic.messages()) == 5


def test_epochs_go_round_with_a_new_id(new_topic: NewTopic) -> None:
    topic = new_topic()
    for batch in (EPOCHS - 1, EPOCHS, EPOCHS, EPOCHS + 1):
        write(topic, 5, batch=batch)
    assert len(topic.messages()) == 15
    with pytest.raises(SinkError):
        write(topic, 5, batch=EPOCHS - 1)


def test_a_task_without_rows_asks_for_nothing(new_topic: NewTopic) -> None:
    topic = new_topic()
    write(topic, 0)
    assert topic.ends()[1] == 0


def test_bundles_that_the_broker_never_got_are_missed(
    new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sequence beyond the end is an error, however often it is halved."""
    topic = new_topic()
    sent: Iterator[int] = iter(range(100))
    lost: list[int] = []
    send, confirm, produce = LeaderConnection.send, LeaderConnection.confirm, Client.produce_bundle

    def lose_the_second(leader: LeaderConnection, bundle: BundleToStore) -> int:
        if next(sent) == 1:
            lost.append(bundle.sequence)
            return LOST
        return send(leader, bundle)

    def confirm_what_is_lost(leader: LeaderConnection, number: int) -> None:
        if number != LOST:
            confirm(leader, number)

    def lose_it_again(client: Client, topic: str, partition: int, content: bytes, **marks: Any) -> None:
        if marks["sequence"] not in lost:
            produce(client, topic, partition, content, **marks)

    monkeypatch.setattr(LeaderConnection, "send", lose_the_second)
    monkeypatch.setattr(LeaderConnection, "confirm", confirm_what_is_lost)
    monkeypatch.setattr(Client, "produce_bundle", lose_it_again)
    with pytest.raises(
        SinkError,
        match=rf"query query-{topic.name}, to topic '{topic.name}'.*task 0.*partition 0.*new checkpoint",
    ):
        write(topic, 30)
    assert [int(message.value) for message in topic.messages()] == list(range(7))


def test_a_task_writes_on_when_its_broker_was_started_again(
    new_topic: NewTopic, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bundles are under way when it dies; each of them is there once, in order."""
    topic = new_topic(settings={"flush": "disk"})
    sent: Iterator[int] = iter(range(1000))
    waiting: list[int] = []
    send, confirm = LeaderConnection.send, LeaderConnection.confirm

    def with_an_accident(leader: LeaderConnection, bundle: BundleToStore) -> int:
        waiting.append(send(leader, bundle))
        if next(sent) == 20:
            assert len(waiting) == MAX_WAITING_BUNDLES
            broker.kill()
            broker.start()
        return waiting[-1]

    def confirmed(leader: LeaderConnection, number: int) -> None:
        confirm(leader, number)
        waiting.remove(number)

    monkeypatch.setattr(LeaderConnection, "send", with_an_accident)
    monkeypatch.setattr(LeaderConnection, "confirm", confirmed)
    write(topic, 300)
    assert [int(message.value) for message in topic.messages()] == list(range(300))


def test_a_refusal_of_the_first_bundle_keeps_those_behind_it_from_being_stored(new_topic: NewTopic) -> None:
    """Several are under way when the first turns out to end within what an earlier run wrote."""
    topic = new_topic()
    write(topic, 10, bundle_rows=10)
    write(topic, 200, bundle_rows=14)
    assert [int(message.value) for message in topic.messages()] == list(range(200))


def test_a_message_over_the_brokers_limit_is_told_the_limit(new_topic: NewTopic) -> None:
    topic = new_topic()
    rows = pa.record_batch({"value": pa.array([b"x" * (33 << 20)], pa.binary())})
    options = SinkOptions(topic.servers, topic.name, compression=Compression.NONE)
    with pytest.raises(SinkError, match="takes 33554432 at most: a message has to fit"):
        deliver(iter([rows]), options, WriteIdentity(f"query-{topic.name}", 0, 0))
    assert topic.messages() == []
