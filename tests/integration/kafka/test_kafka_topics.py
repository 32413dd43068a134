"""Topics and their settings over Kafka's port, at real brokers and controllers."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tank_protos.generated.kafka import (
    CreatableReplicaAssignment,
    CreatableReplicaAssignmentCollection,
    CreatableTopic,
    CreatableTopicCollection,
    CreatableTopicConfig,
    CreatableTopicConfigCollection,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicCollection,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tank_protos.generated.kafka.incremental_alter_configs_request import (
    AlterableConfig,
    AlterableConfigCollection,
    AlterConfigsResource,
    AlterConfigsResourceCollection,
)
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.processes.broker_process import running_broker
from tests.support.processes.cluster import Process, running_cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TOPIC = 2
TIMEOUT_MS = 20_000


def client_of(process: Process) -> KafkaSocket:
    host, _, port = str(process.addresses["kafka"]).rpartition(":")
    return KafkaSocket(int(port), timeout_s=30.0, host=host)


def created(*topics: CreatableTopic) -> CreateTopicsRequest:
    return CreateTopicsRequest(CreatableTopicCollection(topics), TIMEOUT_MS)


def configs_of(client: KafkaSocket, name: str) -> Mapping[str, str | None]:
    asked = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, name, None)])
    (result,) = client.ask(asked, DescribeConfigsResponse, 4).results
    assert result.error_code == 0
    return {config.name: config.value for config in result.configs}


def test_a_topics_life_at_one_broker(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, KafkaSocket(broker.kafka_port) as client:
        configs = CreatableTopicConfigCollection([CreatableTopicConfig("retention.ms", "60000")])
        asked = created(CreatableTopic("orders.v1", 2, -1, configs=configs))
        (topic,) = client.ask(asked, CreateTopicsResponse, 7).topics
        assert (topic.error_code, topic.num_partitions, topic.replication_factor) == (0, 2, 1)
        (again,) = client.ask(asked, CreateTopicsResponse, 0).topics
        assert again.error_code == 36
        shown = configs_of(client, "orders.v1")
        assert (shown["log.format"], shown["retention.ms"]) == ("kafka", "60000")

        changes = AlterableConfigCollection(
            [AlterableConfig("retention.ms", 1, None), AlterableConfig("cleanup.policy", 2, "compact")]
        )
        resource = AlterConfigsResource(TOPIC, "orders.v1", changes)
        altered = client.ask(
            IncrementalAlterConfigsRequest(AlterConfigsResourceCollection([resource])),
            IncrementalAlterConfigsResponse,
            1,
        )
        assert altered.responses[0].error_code == 0
        shown = configs_of(client, "orders.v1")
        assert shown["retention.ms"] == "-1"
        assert set(str(shown["cleanup.policy"]).split(",")) == {"compact", "delete"}

        grown = CreatePartitionsTopicCollection([CreatePartitionsTopic("orders.v1", 4, None)])
        answer = client.ask(CreatePartitionsRequest(grown, TIMEOUT_MS), CreatePartitionsResponse, 3)
        assert answer.results[0].error_code == 0
        metadata = MetadataRequest([MetadataRequestTopic(name="orders.v1")], False)
        (found,) = client.ask(metadata, MetadataResponse, 12).topics
        assert [partition.leader_id for partition in found.partitions] == [1] * 4
        assert found.topic_id == topic.topic_id

        gone = DeleteTopicsRequest([DeleteTopicState(None, topic.topic_id)], timeout_ms=TIMEOUT_MS)
        assert client.ask(gone, DeleteTopicsResponse, 6).responses[0].error_code == 0
        (missing,) = client.ask(metadata, MetadataResponse, 12).topics
        assert missing.error_code == 3


def test_a_client_chooses_the_brokers_of_each_partition(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", controllers=1, brokers=3) as cluster:
        one, two, _ = cluster.processes("broker")
        with client_of(one) as client:
            placed = [CreatableReplicaAssignment(0, [3, 1]), CreatableReplicaAssignment(1, [2, 3])]
            asked = created(
                CreatableTopic("placed", -1, -1, CreatableReplicaAssignmentCollection(placed)),
                CreatableTopic(
                    "nowhere",
                    -1,
                    -1,
                    CreatableReplicaAssignmentCollection([CreatableReplicaAssignment(0, [9])]),
                ),
            )
            made, refused = client.ask(asked, CreateTopicsResponse, 7).topics
            assert (made.error_code, refused.error_code) == (0, 39)
            assert refused.error_message == "there is no broker 9"
            metadata = MetadataRequest([MetadataRequestTopic(name="placed")], False)
            (found,) = client.ask(metadata, MetadataResponse, 12).topics
            assert [partition.leader_id for partition in found.partitions] == [3, 2]
            assert [partition.replica_nodes for partition in found.partitions] == [[3, 1], [2, 3]]
        with client_of(two) as client:
            added = CreatePartitionsTopic("placed", 3, [CreatePartitionsAssignment([1, 2])])
            grown = CreatePartitionsRequest(CreatePartitionsTopicCollection([added]), TIMEOUT_MS)
            assert client.ask(grown, CreatePartitionsResponse, 3).results[0].error_code == 0
            (found,) = client.ask(metadata, MetadataResponse, 12).topics
            assert found.partitions[2].replica_nodes == [1, 2]
