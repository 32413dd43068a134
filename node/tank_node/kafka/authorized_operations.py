"""What a client may do with topics, groups and the cluster, as the bits that Kafka's answers have."""

from typing import TYPE_CHECKING, Final

from tank_node.security.gate import Operation, Resource

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaSession

NOT_ASKED: Final = -(1 << 31)
"""Stands for the bits in an answer to a client that has not asked for them."""

_READ: Final = 3
_WRITE: Final = 4
_CREATE: Final = 5
_DELETE: Final = 6
_ALTER: Final = 7
_DESCRIBE: Final = 8
_CLUSTER_ACTION: Final = 9
_DESCRIBE_CONFIGS: Final = 10
_ALTER_CONFIGS: Final = 11
_IDEMPOTENT_WRITE: Final = 12

_OF_TOPICS: Final = (
    (_READ, Operation.READ, Resource.TOPIC),
    (_WRITE, Operation.WRITE, Resource.TOPIC),
    (_CREATE, Operation.CREATE, Resource.TOPIC),
    (_DELETE, Operation.DELETE, Resource.TOPIC),
    (_ALTER, Operation.ALTER, Resource.TOPIC),
    (_DESCRIBE, Operation.DESCRIBE, Resource.TOPIC),
    (_DESCRIBE_CONFIGS, Operation.DESCRIBE, Resource.TOPIC),
    (_ALTER_CONFIGS, Operation.ALTER, Resource.TOPIC),
)
_OF_GROUPS: Final = (
    (_READ, Operation.READ, Resource.GROUP),
    (_DELETE, Operation.DELETE, Resource.GROUP),
    (_DESCRIBE, Operation.DESCRIBE, Resource.GROUP),
)
_OF_THE_CLUSTER: Final = (
    (_CREATE, Operation.CREATE, Resource.TOPIC),
    (_ALTER, Operation.ALTER, Resource.CLUSTER),
    (_DESCRIBE, Operation.DESCRIBE, Resource.CLUSTER),
    (_CLUSTER_ACTION, Operation.CLUSTER_ACTION, Resource.CLUSTER),
    (_DESCRIBE_CONFIGS, Operation.DESCRIBE, Resource.CLUSTER),
    (_ALTER_CONFIGS, Operation.ALTER, Resource.CLUSTER),
    (_IDEMPOTENT_WRITE, Operation.WRITE, Resource.PRODUCER),
)
"""Kafka's bit of each operation, and what the gate is asked for it."""


def on_topics(session: "KafkaSession") -> int:
    """Returns the bits of what the session's client may do with topics."""
    return _bits(session, _OF_TOPICS)


def on_groups(session: "KafkaSession") -> int:
    """Returns the bits of what the session's client may do with groups."""
    return _bits(session, _OF_GROUPS)


def on_the_cluster(session: "KafkaSession") -> int:
    """Returns the bits of what the session's client may do with the cluster."""
    return _bits(session, _OF_THE_CLUSTER)


def _bits(session: "KafkaSession", of: tuple[tuple[int, Operation, Resource], ...]) -> int:
    return sum(1 << bit for bit, operation, resource in of if session.may(operation, resource))
