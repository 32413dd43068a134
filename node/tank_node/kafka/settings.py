"""The settings of Kafka's protocol at a broker."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """What an operator sets, for all sessions with Kafka's clients."""

    auto_create: bool = True
    """Whether a client's question for a topic that does not exist creates the topic: option
    `kafka_auto_create`."""
    default_partitions: int = 1
    """The partitions of a topic that is created without a number of them: option
    `kafka_default_partitions`."""
