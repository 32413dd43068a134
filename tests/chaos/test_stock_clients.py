"""Stock clients of Kafka's protocol keep the books of a run, and say what no fault explains."""

import threading
from pathlib import Path
from typing import Final

import pytest

from tank_client.sync import Client
from tests.chaos.checker import violations
from tests.chaos.record import Recorder, read
from tests.chaos.run import read_all
from tests.chaos.stock_groups import (
    COOPERATIVE,
    ROUND_ROBIN,
    AiokafkaMember,
    Group,
    GroupMember,
    GroupWatcher,
    LibrdkafkaMember,
)
from tests.chaos.stock_readers import AiokafkaReader, LibrdkafkaReader, StockReader
from tests.chaos.stock_writers import AiokafkaWriter, LibrdkafkaWriter, StockWriter
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess, running_broker
from tests.support.waiting import until

pytest.importorskip("confluent_kafka")
pytest.importorskip("aiokafka")

pytestmark = pytest.mark.integration

PLACE: Final = ("kafka", 0)
JOIN_S: Final = patient(60.0)


def served(broker: BrokerProcess) -> str:
    return f"127.0.0.1:{broker.kafka_port}"


def create(client: Client) -> None:
    client.admin.create_topic(PLACE[0], settings={"log.format": "kafka"})


@pytest.mark.parametrize(
    ("writes", "reads"), [(LibrdkafkaWriter, LibrdkafkaReader), (AiokafkaWriter, AiokafkaReader)]
)
def test_what_is_acknowledged_is_read_by_all_over_a_kill(
    tmp_path: Path, writes: type[StockWriter], reads: type[StockReader]
) -> None:
    written = threading.Event()
    with running_broker(tmp_path) as broker, Client(broker.address) as client:
        create(client)
        writer = writes("writer", PLACE, served(broker), Recorder(tmp_path / "w.jsonl"), 50, 1)
        reader = reads("reader", PLACE, served(broker), Recorder(tmp_path / "r.jsonl"), written)
        writer.start()
        reader.start()
        until(lambda: reader.count > 50, "nothing is read")
        broker.kill()
        broker.start()
        before = writer.count
        until(lambda: writer.count > before + 50, "nothing is written")
        writer.stopping.set()
        writer.join(JOIN_S)
        written.set()
        reader.join(JOIN_S)
        for thread in (writer, reader):
            assert not thread.is_alive()
            assert thread.failure is None
            thread.recorder.close()
        history = read([tmp_path / "w.jsonl", tmp_path / "r.jsonl"])
        log = read_all(client, [PLACE[0]])
    assert violations(history, log) == []
    assert history.stored() == len(log[PLACE]) == reader.count
    assert history.through == {"reader": [PLACE]}


@pytest.mark.parametrize("reads", [LibrdkafkaReader, AiokafkaReader])
def test_a_reader_whose_records_are_gone_is_broken(tmp_path: Path, reads: type[StockReader]) -> None:
    with running_broker(tmp_path) as broker, Client(broker.address) as client:
        create(client)
        writer = LibrdkafkaWriter("writer", PLACE, served(broker), Recorder(tmp_path / "w.jsonl"), 50, 1)
        writer.start()
        until(lambda: writer.count > 10, "nothing is written")
        writer.stopping.set()
        writer.join(JOIN_S)
        delete_records(served(broker))
        reader = reads("reader", PLACE, served(broker), Recorder(tmp_path / "r.jsonl"), threading.Event())
        reader.start()
        reader.join(JOIN_S)
    assert "range" in str(reader.failure).lower()
    assert not reader.count


def delete_records(servers: str) -> None:
    """The first five."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.delete_records([TopicPartition(*PLACE, 5)]).values():
        future.result(JOIN_S)


@pytest.mark.parametrize(
    ("kinds", "strategy"),
    [((LibrdkafkaMember, AiokafkaMember), ROUND_ROBIN), ((LibrdkafkaMember, LibrdkafkaMember), COOPERATIVE)],
)
def test_a_group_is_given_everything_over_a_kill(
    tmp_path: Path, kinds: tuple[type[GroupMember], ...], strategy: str
) -> None:
    written = threading.Event()
    with running_broker(tmp_path) as broker, Client(broker.address) as client:
        client.admin.create_topic(PLACE[0], 2, settings={"log.format": "kafka"})
        writer = LibrdkafkaWriter("writer", PLACE, served(broker), Recorder(tmp_path / "w.jsonl"), 50, 1)
        group = Group("group", served(broker), (PLACE, ("kafka", 1)), strategy, 1, written)
        members = [
            kind(f"member-{n}", group, Recorder(tmp_path / f"m{n}.jsonl")) for n, kind in enumerate(kinds)
        ]
        watcher = GroupWatcher("group", group, Recorder(tmp_path / "g.jsonl"))
        threads = [writer, watcher, *members]
        for thread in threads:
            thread.start()
        until(lambda: watcher.count > 50, "the group reads nothing")
        broker.kill()
        broker.start()
        before = watcher.count
        until(lambda: watcher.count > before + 50, "the group reads nothing more")
        writer.stopping.set()
        writer.join(JOIN_S)
        written.set()
        for thread in threads:
            thread.join(JOIN_S)
            assert not thread.is_alive()
            assert thread.failure is None
            thread.recorder.close()
        history = read(sorted(tmp_path.glob("*.jsonl")))
        log = read_all(client, [PLACE[0]])
    assert violations(history, log) == []
    assert history.stored() == len(log[PLACE])
    assert history.through_groups == {"group": [PLACE, ("kafka", 1)]}
    assert any(part.generation > 0 for part in history.handed["group"])
