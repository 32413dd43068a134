"""Metadata for Kafka's clients, from real brokers and controllers."""

from pathlib import Path

import pytest

from tank_protos.generated.kafka import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.processes.broker_process import running_broker
from tests.support.processes.cluster import Process, running_cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TOPIC = "orders.v1"


def asked(name: str, *, create: bool = True) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name)], create)


def of(process: Process, request: MetadataRequest, version: int = 12) -> MetadataResponse:
    host, _, port = str(process.addresses["kafka"]).rpartition(":")
    with KafkaSocket(int(port), host=host) as client:
        return client.ask(request, MetadataResponse, version)


@pytest.mark.parametrize("version", [0, 13])
def test_the_first_question_for_a_topic_is_answered_whole(tmp_path: Path, version: int) -> None:
    with (
        running_broker(tmp_path, "--kafka-default-partitions", "3") as broker,
        KafkaSocket(broker.kafka_port) as client,
    ):
        found = client.ask(asked(TOPIC), MetadataResponse, version)
        assert [(each.host, each.port) for each in found.brokers] == [("127.0.0.1", broker.kafka_port)]
        (topic,) = found.topics
        assert (topic.error_code, topic.name) == (0, TOPIC)
        assert [partition.leader_id for partition in topic.partitions] == [1, 1, 1]
        again = client.ask(asked(TOPIC, create=version == 0), MetadataResponse, version)
        assert again.topics == found.topics


def test_a_restarted_broker_gives_a_topic_the_id_it_had(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        with KafkaSocket(broker.kafka_port) as client:
            (before,) = client.ask(asked(TOPIC), MetadataResponse, 12).topics
        broker.stop()
        broker.start()
        with KafkaSocket(broker.kafka_port) as client:
            by_id = MetadataRequest([MetadataRequestTopic(before.topic_id, None)])
            (after,) = client.ask(by_id, MetadataResponse, 12).topics
        assert (after.name, after.topic_id) == (TOPIC, before.topic_id)


def test_brokers_of_a_cluster_say_the_same_and_lose_one_of_them(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1, brokers=2) as cluster:
        one, two = cluster.processes("broker")
        (unknown,) = of(one, asked(TOPIC)).topics
        assert unknown.error_code == 3, "in a cluster nothing is created unasked"
        cluster.tank("topic", "create", TOPIC, "--partitions", "4", "--replication-factor", "2")
        until(lambda: of(two, asked(TOPIC)).topics[0].error_code == 0, "the other broker has no such topic")
        first, second = of(one, asked(TOPIC)), of(two, asked(TOPIC))
        assert (first.controller_id, second.controller_id) == (1, 2)
        assert {f"{each.host}:{each.port}" for each in first.brokers} == {
            process.addresses["kafka"] for process in (one, two)
        }
        for each in (first, second):
            each.controller_id = 0
        assert first == second
        assert {partition.leader_id for partition in first.topics[0].partitions} == {1, 2}

        two.kill()
        until(lambda: len(of(one, asked(TOPIC)).brokers) == 1, "the killed broker is listed still")
        (topic,) = of(one, asked(TOPIC)).topics
        for partition in topic.partitions:
            assert (partition.error_code, partition.leader_id) == (0, 1)
            assert (sorted(partition.replica_nodes), partition.offline_replicas) == ([1, 2], [2])
        host, _, port = str(one.addresses["kafka"]).rpartition(":")
        with KafkaSocket(int(port), host=host) as client:
            described = client.ask(
                DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse, 2
            )
        assert {each.broker_id: each.is_fenced for each in described.brokers} == {1: False, 2: True}
