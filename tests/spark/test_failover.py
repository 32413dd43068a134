"""Queries over the death of a leader, on a cluster of processes: nothing lost, nothing twice."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tank_client.sync import Client
from tests.spark.topics import Topic, write_stream
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.waiting import until

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.timeout(300)]

PARTITIONS = 2
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster") / "c") as running:
        yield running


@pytest.fixture
def servers(cluster: LocalCluster) -> str:
    """Of a cluster that is whole again."""
    cluster.up()
    return ",".join(str(broker.addresses["tank"]) for broker in cluster.processes("broker"))


@pytest.fixture
def new_topic(cluster: LocalCluster, servers: str) -> Iterator[Callable[[], Topic]]:
    """Makes topics with three replicas."""
    with Client(servers) as client:

        def make() -> Topic:
            name = f"replicated-{next(_numbers)}"
            client.admin.create_topic(name, PARTITIONS, 3)
            return Topic(client, servers, name)

        yield make


def whole(cluster: LocalCluster, topic: Topic) -> list[dict[str, Any]]:
    """The topic's partitions, once all replicas are in sync and all are led."""
    places: list[dict[str, Any]] = []

    def look() -> bool:
        places[:] = cluster.partitions(topic.name)
        return all(len(p["in_sync"]) == 3 and p["leader"] is not None for p in places)

    until(look, "not all replicas are in sync", 60)
    return places


def kill_leader(cluster: LocalCluster, topic: Topic) -> None:
    """Of partition 0, once all replicas are in sync."""
    leader = next(p["leader"] for p in whole(cluster, topic) if p["partition"] == 0)
    next(b for b in cluster.processes("broker") if b.number == leader).kill()


class Writer(threading.Thread):
    """Numbers into a topic, one after the other, until it is told to stop."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._topic = topic
        self._enough = threading.Event()
        self.written = 0

    def run(self) -> None:
        with Client(self._servers) as client, client.producer() as producer:
            while not self._enough.wait(0.01):
                for _ in range(5):
                    producer.send(self._topic, b"%d" % self.written)
                    self.written += 1

    def end(self) -> None:
        """Returns when all is acknowledged."""
        self._enough.set()
        self.join(patient(60))
        assert not self.is_alive()


def await_more(query: StreamingQuery, sink: Topic, messages: int) -> None:
    """Returns when the query has written so many more."""

    def written() -> int:
        return sum(sink.ends(partition)[1] for partition in range(PARTITIONS))

    goal = written() + messages
    until(lambda: query.exception() is not None or written() >= goal, "the query is stuck", 60)
    assert query.exception() is None


@pytest.mark.parametrize("killed", ["source", "sink"])
def test_a_stream_survives_the_death_of_a_leader(
    spark: SparkSession,
    cluster: LocalCluster,
    servers: str,
    new_topic: Callable[[], Topic],
    checkpoint: str,
    killed: str,
) -> None:
    source, sink = new_topic(), new_topic()
    writer = Writer(servers, source.name)
    writer.start()
    query = write_stream(source.stream(spark), sink, checkpoint).start()
    try:
        await_more(query, sink, 500)
        kill_leader(cluster, source if killed == "source" else sink)
        await_more(query, sink, 500)
        writer.end()
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    assert sink.numbers(PARTITIONS) == list(range(writer.written))


@pytest.mark.timeout(600)
@pytest.mark.long
def test_a_stream_survives_the_death_of_any_one_process(
    spark: SparkSession,
    cluster: LocalCluster,
    servers: str,
    new_topic: Callable[[], Topic],
    checkpoint: str,
) -> None:
    """Each in turn, when all is whole: what it did is done by the others before it is started again."""
    source, sink = new_topic(), new_topic()
    writer = Writer(servers, source.name)
    writer.start()
    query = write_stream(source.stream(spark), sink, checkpoint).start()
    try:
        for role, number in itertools.product(["controller", "broker"], [1, 2, 3]):
            await_more(query, sink, 200)
            next(p for p in cluster.processes(role) if p.number == number).kill()
            await_more(query, sink, 500)
            cluster.up()
            whole(cluster, source)
            whole(cluster, sink)
        writer.end()
        query.processAllAvailable()
    finally:
        query.stop()
    assert query.exception() is None
    assert sink.numbers(PARTITIONS) == list(range(writer.written))


@pytest.mark.parametrize("killed", ["source", "sink"])
def test_a_batch_survives_the_death_of_a_leader(
    spark: SparkSession, cluster: LocalCluster, new_topic: Callable[[], Topic], tmp_path: Path, killed: str
) -> None:
    """It stops in the midst of its rows until the leader is dead."""
    source, sink = new_topic(), new_topic()
    count, digits = 20_000, 300
    for begin in range(0, count, 100):
        values = [b"%0*d" % (digits, number) for number in range(begin, begin + 100)]
        source.add(values, partition=begin // 100 % PARTITIONS)
    begun, dead = tmp_path / "begun", tmp_path / "dead"

    def stop_midway(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for turn, batch in enumerate(batches):
            yield batch
            if turn == 2:
                begun.touch()
                while not dead.exists():
                    time.sleep(0.01)

    def kill() -> None:
        try:
            until(begun.exists, "the query does not begin", 100)
            kill_leader(cluster, source if killed == "source" else sink)
            killed_it.set()
        finally:
            dead.touch()

    killed_it = threading.Event()
    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    try:
        rows = source.read(spark, fetchBytes="32768").select("key", "value")
        rows = rows.mapInArrow(stop_midway, rows.schema)
        options = {"servers": sink.servers, "topic": sink.name, "bundleRows": "50"}
        rows.write.format("tank").options(**options).mode("append").save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert killed_it.is_set()
    assert sink.numbers(PARTITIONS) == list(range(count))
    assert source.read(spark).count() == count
