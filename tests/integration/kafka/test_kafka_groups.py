"""Groups at a real broker: their settings, and what is left of them when it is killed."""

import asyncio
from pathlib import Path

import pytest

from tank_protos.generated.kafka import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from tests.support.clients.kafka_calls import create_topic
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.processes.broker_process import running_broker
from tests.support.processes.cluster import running_cluster
from tests.support.waiting import until

pytestmark = pytest.mark.integration

BROKER = 4
LOADING = 14


def committed(client: KafkaSocket) -> tuple[int, list[int]]:
    """The error, and the offsets of the group in the topic."""
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("orders", [0, 1])])
    answer = client.ask(request, OffsetFetchResponse, 7)
    return answer.error_code, [each.committed_offset for topic in answer.topics for each in topic.partitions]


def test_a_broker_alone_has_no_initial_delay_and_takes_settings_of_groups(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, "--group-min-session-ms", "100") as broker,
        KafkaSocket(broker.kafka_port) as client,
    ):
        names = ["group.initial.rebalance.delay.ms", "group.min.session.timeout.ms"]
        request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "1", names)])
        (result,) = client.ask(request, DescribeConfigsResponse, 4).results
        assert {each.name: each.value for each in result.configs} == dict(
            zip(names, ["0", "100"], strict=True)
        )


def test_what_was_committed_is_there_after_the_broker_was_killed(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        with KafkaSocket(broker.kafka_port) as client:
            create_topic(client, "orders", 2)
            answer = client.ask(FindCoordinatorRequest("g"), FindCoordinatorResponse, 3)
            assert (answer.error_code, answer.port) == (0, broker.kafka_port)
            until(lambda: committed(client)[0] != LOADING, "the groups are not read")
            partitions = [OffsetCommitRequestPartition(0, 7)]
            commit = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", partitions)])
            (topic,) = client.ask(commit, OffsetCommitResponse, 9).topics
            assert topic.partitions[0].error_code == 0
        broker.kill()
        broker.start()
        with KafkaSocket(broker.kafka_port) as client:
            until(lambda: committed(client)[0] != LOADING, "the groups are not read")
            assert committed(client) == (0, [7, -1])


def test_aiokafka_finds_what_is_committed_behind_a_broker_that_is_no_longer_the_coordinator(
    tmp_path: Path,
) -> None:
    """It reads no error of the whole answer, and would begin the partition anew."""
    pytest.importorskip("aiokafka")

    async def ask(servers: dict[int, str]) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        place = TopicPartition("orders", 0)
        consumer = AIOKafkaConsumer(bootstrap_servers=list(servers.values()), group_id="g")
        await consumer.start()
        try:
            consumer.assign([place])
            await consumer.commit({place: 7})
            (other,) = servers.keys() - {consumer._coordinator.coordinator_id}
            consumer._coordinator.coordinator_id = other  # as if the group had moved from there just now
            assert await consumer.committed(place) == 7
        finally:
            await consumer.stop()

    with running_cluster(tmp_path / "c", controllers=1, brokers=2) as cluster:
        cluster.tank("topic", "create", "orders", "--format", "kafka")
        asyncio.run(ask({each.number: str(each.addresses["kafka"]) for each in cluster.processes("broker")}))
