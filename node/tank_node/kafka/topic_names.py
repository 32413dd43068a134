"""Kafka's rule for names of topics, and the names that are the cluster's own."""

from tank_node.kafka.errors import KafkaError
from tank_protos.wire.names import INTERNAL_TOPICS, topic_name_problem


def is_valid(name: str) -> bool:
    """Whether Kafka's clients may call a topic so. The controllers may still refuse the name, by the rule of
    the cluster's feature level."""
    return topic_name_problem(name) is None


def is_internal(name: str) -> bool:
    """Whether the cluster keeps its own records in a topic of this name."""
    return name in INTERNAL_TOPICS


def absence_of(name: str) -> KafkaError:
    """The error in an answer about a topic that does not exist."""
    return KafkaError.UNKNOWN_TOPIC_OR_PARTITION if is_valid(name) else KafkaError.INVALID_TOPIC
