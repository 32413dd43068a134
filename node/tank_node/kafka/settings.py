"""The settings of Kafka's protocol at a broker."""

from dataclasses import dataclass

from tank_node.metrics import KAFKA_CLIENT_IDS


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """What an operator sets, for all sessions with Kafka's clients."""

    auto_create: bool = True
    """Whether a client's question for a topic that does not exist creates the topic: option
    `kafka_auto_create`."""
    default_partitions: int = 1
    """The partitions of a topic that is created without a number of them: option
    `kafka_default_partitions`."""
    counted_client_ids: int = KAFKA_CLIENT_IDS
    """How many client ids have counters of their bytes: option `kafka_client_metrics`. 0: none."""
