"""The handler of each of Kafka's requests. Makes sessions that call these handlers.

A handler's module, and the messages that it imports, are imported at the first request for it: clients use a
few of the requests, and all of them together take 5 MB of memory.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.kafka.session import KafkaApi, KafkaCall, KafkaSession
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


def _at_first_use(module: str, function: str = "") -> Callable[[KafkaCall, memoryview], None]:
    """Returns a handler that imports a module of these rooms, and puts the function of that name into its
    row, where the next requests find it. module: room and name. function: its name, if not the module's."""

    def handle(call: KafkaCall, body: memoryview) -> None:
        found = getattr(import_module(f"tank_node.kafka.{module}"), function or module.rpartition(".")[2])
        call.api.handle = found
        found(call, body)

    return handle


_ROWS: Final = (
    KafkaApi(
        0,
        "Produce",
        0,
        13,
        _at_first_use("produce.produce"),
        Operation.WRITE,
        Resource.TOPIC,
        carries_records=True,
    ),
    KafkaApi(1, "Fetch", 0, 18, _at_first_use("fetch.fetch"), Operation.READ, Resource.TOPIC),
    KafkaApi(
        2, "ListOffsets", 0, 10, _at_first_use("fetch.list_offsets"), Operation.DESCRIBE, Resource.TOPIC
    ),
    KafkaApi(3, "Metadata", 0, 13, _at_first_use("metadata.metadata"), Operation.DESCRIBE, Resource.TOPIC),
    KafkaApi(8, "OffsetCommit", 0, 9, _at_first_use("groups.offset_commit"), Operation.READ, Resource.GROUP),
    KafkaApi(
        9, "OffsetFetch", 0, 9, _at_first_use("groups.offset_fetch"), Operation.DESCRIBE, Resource.GROUP
    ),
    KafkaApi(
        10,
        "FindCoordinator",
        0,
        6,
        _at_first_use("groups.find_coordinator"),
        Operation.DESCRIBE,
        Resource.GROUP,
    ),
    KafkaApi(11, "JoinGroup", 0, 9, _at_first_use("groups.join_group"), Operation.READ, Resource.GROUP),
    KafkaApi(12, "Heartbeat", 0, 4, _at_first_use("groups.heartbeat"), Operation.READ, Resource.GROUP),
    KafkaApi(13, "LeaveGroup", 0, 5, _at_first_use("groups.leave_group"), Operation.READ, Resource.GROUP),
    KafkaApi(14, "SyncGroup", 0, 5, _at_first_use("groups.sync_group"), Operation.READ, Resource.GROUP),
    KafkaApi(
        15,
        "DescribeGroups",
        0,
        6,
        _at_first_use("groups.describe_groups"),
        Operation.DESCRIBE,
        Resource.GROUP,
    ),
    KafkaApi(16, "ListGroups", 0, 5, _at_first_use("groups.list_groups"), Operation.DESCRIBE, Resource.GROUP),
    KafkaApi(
        17,
        "SaslHandshake",
        0,
        1,
        _at_first_use("users.sasl", "sasl_handshake"),
        Operation.CONNECT,
        Resource.CLUSTER,
    ),
    KafkaApi(18, "ApiVersions", 0, 4, _at_first_use("api_versions"), Operation.CONNECT, Resource.CLUSTER),
    KafkaApi(
        19, "CreateTopics", 0, 7, _at_first_use("topics.create_topics"), Operation.CREATE, Resource.TOPIC
    ),
    KafkaApi(
        20, "DeleteTopics", 0, 6, _at_first_use("topics.delete_topics"), Operation.DELETE, Resource.TOPIC
    ),
    KafkaApi(
        21, "DeleteRecords", 0, 2, _at_first_use("topics.delete_records"), Operation.DELETE, Resource.TOPIC
    ),
    KafkaApi(
        22,
        "InitProducerId",
        0,
        5,
        _at_first_use("produce.init_producer_id"),
        Operation.WRITE,
        Resource.PRODUCER,
    ),
    KafkaApi(
        23,
        "OffsetForLeaderEpoch",
        0,
        4,
        _at_first_use("fetch.offset_for_leader_epoch"),
        Operation.DESCRIBE,
        Resource.TOPIC,
    ),
    KafkaApi(
        29,
        "DescribeAcls",
        0,
        3,
        _at_first_use("users.acls", "describe_acls"),
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(
        30, "CreateAcls", 0, 3, _at_first_use("users.acls", "create_acls"), Operation.ALTER, Resource.CLUSTER
    ),
    KafkaApi(
        31, "DeleteAcls", 0, 3, _at_first_use("users.acls", "delete_acls"), Operation.ALTER, Resource.CLUSTER
    ),
    KafkaApi(
        32,
        "DescribeConfigs",
        0,
        4,
        _at_first_use("configs.describe_configs"),
        Operation.DESCRIBE,
        Resource.TOPIC,
    ),
    KafkaApi(
        33, "AlterConfigs", 0, 2, _at_first_use("configs.alter_configs"), Operation.ALTER, Resource.TOPIC
    ),
    KafkaApi(
        35,
        "DescribeLogDirs",
        0,
        4,
        _at_first_use("topics.describe_log_dirs"),
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(
        36,
        "SaslAuthenticate",
        0,
        2,
        _at_first_use("users.sasl", "sasl_authenticate"),
        Operation.CONNECT,
        Resource.CLUSTER,
    ),
    KafkaApi(
        37,
        "CreatePartitions",
        0,
        3,
        _at_first_use("topics.create_partitions"),
        Operation.ALTER,
        Resource.TOPIC,
    ),
    KafkaApi(
        42, "DeleteGroups", 0, 2, _at_first_use("groups.delete_groups"), Operation.DELETE, Resource.GROUP
    ),
    KafkaApi(
        43, "ElectLeaders", 0, 2, _at_first_use("topics.elect_leaders"), Operation.ALTER, Resource.CLUSTER
    ),
    KafkaApi(
        44,
        "IncrementalAlterConfigs",
        0,
        1,
        _at_first_use("configs.incremental_alter_configs"),
        Operation.ALTER,
        Resource.TOPIC,
    ),
    KafkaApi(
        45,
        "AlterPartitionReassignments",
        0,
        1,
        _at_first_use("topics.alter_partition_reassignments"),
        Operation.ALTER,
        Resource.CLUSTER,
    ),
    KafkaApi(
        46,
        "ListPartitionReassignments",
        0,
        0,
        _at_first_use("topics.list_partition_reassignments"),
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(
        47, "OffsetDelete", 0, 0, _at_first_use("groups.offset_delete"), Operation.DELETE, Resource.GROUP
    ),
    KafkaApi(
        48,
        "DescribeClientQuotas",
        0,
        1,
        _at_first_use("users.describe_client_quotas"),
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(
        50,
        "DescribeUserScramCredentials",
        0,
        0,
        _at_first_use("users.describe_user_scram_credentials"),
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(
        60,
        "DescribeCluster",
        0,
        2,
        _at_first_use("metadata.describe_cluster"),
        Operation.DESCRIBE,
        Resource.CLUSTER,
    ),
    KafkaApi(
        61,
        "DescribeProducers",
        0,
        0,
        _at_first_use("topics.describe_producers"),
        Operation.READ,
        Resource.TOPIC,
    ),
    KafkaApi(
        68,
        "ConsumerGroupHeartbeat",
        0,
        1,
        _at_first_use("groups.consumer_group_heartbeat"),
        Operation.READ,
        Resource.GROUP,
    ),
    KafkaApi(
        69,
        "ConsumerGroupDescribe",
        0,
        1,
        _at_first_use("groups.consumer_group_describe"),
        Operation.DESCRIBE,
        Resource.GROUP,
    ),
    KafkaApi(
        75,
        "DescribeTopicPartitions",
        0,
        0,
        _at_first_use("metadata.describe_topic_partitions"),
        Operation.DESCRIBE,
        Resource.TOPIC,
    ),
)
APIS: Final[dict[int, KafkaApi]] = {row.key: row for row in _ROWS}
"""By api key. ApiVersions answers with this table: a request that is not in it is not advertised."""
