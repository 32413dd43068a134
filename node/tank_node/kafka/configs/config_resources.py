"""What settings belong to, as Kafka's requests name it."""

from enum import IntEnum


class ResourceType(IntEnum):
    """The kinds of resources that have settings here. Kafka has more: loggers, metrics, groups."""

    TOPIC = 2
    BROKER = 4
