"""The handler of each of Kafka's requests. Makes sessions that call these handlers."""

from typing import Final

from tank_node.broker.broker import Broker
from tank_node.kafka import (
    acls,
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_user_scram_credentials,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    sasl,
)
from tank_node.kafka.session import KafkaApi, KafkaSession
from tank_node.kafka.settings import KafkaSettings
from tank_node.security.gate import Gate, Operation, Resource

_OPEN: Final = Gate()
_DEFAULTS: Final = KafkaSettings()


def open_session(
    broker: Broker,
    gate: Gate | None = None,
    *,
    is_outside: bool = False,
    settings: KafkaSettings = _DEFAULTS,
) -> KafkaSession:
    """Makes the session of a connection with a Kafka client. gate: without one all is allowed. is_outside:
    whether the client connected at the address for clients outside the network."""
    return KafkaSession(broker, APIS, gate or _OPEN, settings, is_outside=is_outside)


_ROWS: Final = (
    KafkaApi(0, "Produce", 0, 13, produce.produce, Operation.WRITE, Resource.TOPIC, carries_records=True),
    KafkaApi(1, "Fetch", 0, 18, fetch.fetch, Operation.READ, Resource.TOPIC),
    KafkaApi(2, "ListOffsets", 0, 10, list_offsets.list_offsets, Operation.DESCRIBE, Resource.TOPIC),
    KafkaApi(3, "Metadata", 0, 13, metadata.metadata, Operation.DESCRIBE, Resource.TOPIC),
    KafkaApi(17, "SaslHandshake", 0, 1, sasl.sasl_handshake, Operation.CONNECT, Resource.CLUSTER),
    KafkaApi(18, "ApiVersions", 0, 4, api_versions.api_versions, Operation.CONNECT, Resource.CLUSTER),
    KafkaApi(19, "CreateTopics", 0, 7, create_topics.create_topics, Operation.CREATE, Resource.TOPIC),
    KafkaApi(20, "DeleteTopics", 0, 6, delete_topics.delete_topics, Operation.DELETE, Resource.TOPIC),
    KafkaApi(21, "DeleteRecords", 0, 2, delete_records.delete_records, Operation.DELETE, Resource.TOPIC),
    KafkaApi(
        22,
        "InitProducerId",
        0,
        5,
        init_producer_id.init_producer_id,
        Operation.WRITE,
        Resource.PRODUCER,
    ),
    KafkaApi(
        23,
        "OffsetForLeaderEpoch",
        0,
        4,
        offset_for_leader_epoch.offset_for_leader_epoch,
        Operation.DESCRIBE,
        Resource.TOPIC,
    ),
    KafkaApi(29, "DescribeAcls", 0, 3, acls.describe_acls, Operation.DESCRIBE, Resource.CLUSTER),
    KafkaApi(30, "CreateAcls", 0, 3, acls.create_acls, Operation.ALTER, Resource.CLUSTER),
    KafkaApi(31, "DeleteAcls", 0, 3, acls.delete_acls, Operation.ALTER, Resource.CLUSTER),
    KafkaApi(
        32, "DescribeConfigs", 0, 4, describe_configs.describe_configs, Operation.DESCRIBE, Resource.TOPIC
    ),
    KafkaApi(33, "AlterConfigs", 0, 2, alter_configs.alter_configs, Operation.ALTER, Resource.TOPIC),
    KafkaApi(
        35,
        "DescribeLogDirs",
        0,
        4,
        describe_log_dirs.describe_log_dirs,
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(36, "SaslAuthenticate", 0, 2, sasl.sasl_authenticate, Operation.CONNECT, Resource.CLUSTER),
    KafkaApi(
        37, "CreatePartitions", 0, 3, create_partitions.create_partitions, Operation.ALTER, Resource.TOPIC
    ),
    KafkaApi(43, "ElectLeaders", 0, 2, elect_leaders.elect_leaders, Operation.ALTER, Resource.CLUSTER),
    KafkaApi(
        44,
        "IncrementalAlterConfigs",
        0,
        1,
        incremental_alter_configs.incremental_alter_configs,
        Operation.ALTER,
        Resource.TOPIC,
    ),
    KafkaApi(
        45,
        "AlterPartitionReassignments",
        0,
        1,
        alter_partition_reassignments.alter_partition_reassignments,
        Operation.ALTER,
        Resource.CLUSTER,
    ),
    KafkaApi(
        46,
        "ListPartitionReassignments",
        0,
        0,
        list_partition_reassignments.list_partition_reassignments,
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(
        48,
        "DescribeClientQuotas",
        0,
        1,
        describe_client_quotas.describe_client_quotas,
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(
        50,
        "DescribeUserScramCredentials",
        0,
        0,
        describe_user_scram_credentials.describe_user_scram_credentials,
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(
        60,
        "DescribeCluster",
        0,
        2,
        describe_cluster.describe_cluster,
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(
        61,
        "DescribeProducers",
        0,
        0,
        describe_producers.describe_producers,
        Operation.READ,
        Resource.TOPIC,
    ),
    KafkaApi(
        75,
        "DescribeTopicPartitions",
        0,
        0,
        describe_topic_partitions.describe_topic_partitions,
        Operation.DESCRIBE,
        Resource.TOPIC,
    ),
)
APIS: Final[dict[int, KafkaApi]] = {row.key: row for row in _ROWS}
"""By api key. ApiVersions answers with this table: a request that is not in it is not advertised."""
