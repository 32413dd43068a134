"""The stored format of a topic, as far as it decides which messages a producer may send; pure."""

from enum import Enum

from tank_client import errors
from tank_client.model import Features, TopicDescription
from tank_client.wire.connection import OUR_OLDEST_VERSION
from tank_client.wire.data_operations import RECORD_BATCHES
from tank_client.wire.operations import has
from tank_protos.bundle import MAX_KEY_BYTES
from tank_protos.topic_settings import LOG_FORMAT, LogFormat


class TopicFormat(Enum):
    """How a producer sends the messages of a topic."""

    BUNDLES = 0
    """As bundles, which the topic stores."""
    RECORDS = 1
    """As record batches, which the topic stores: with headers, null values and keys of any length."""
    CONVERTED = 2
    """As bundles: the topic stores record batches, and the broker does not know the message that brings
    some."""


def format_of(topic: TopicDescription, server: Features) -> TopicFormat:
    """How a producer sends the messages of a topic, which this broker has described."""
    if not stores_records(topic):
        return TopicFormat.BUNDLES
    return TopicFormat.RECORDS if has(server, RECORD_BATCHES) else TopicFormat.CONVERTED


def stores_records(topic: TopicDescription) -> bool:
    """Whether the topic stores Kafka's record batches."""
    return any(setting.key == LOG_FORMAT and setting.value == LogFormat.KAFKA for setting in topic.settings)


def check_message(
    topic: str, stored: TopicFormat, *, has_headers: bool, has_null: bool, longest_key: int
) -> None:
    """Raises UnsupportedByFormat, FeatureMissing or InvalidArgument for messages that the topic, or its
    broker, can't take."""
    if stored is TopicFormat.RECORDS:
        return
    what = "headers" if has_headers else "null values" if has_null else ""
    if not what:
        if longest_key > MAX_KEY_BYTES:
            raise errors.InvalidArgument(
                f"topic {topic!r}: a key of {longest_key} bytes; keys have at most {MAX_KEY_BYTES}, "
                "but for topics of Kafka's format"
            )
        return
    if stored is TopicFormat.CONVERTED:
        raise errors.FeatureMissing(f"{what} of messages", OUR_OLDEST_VERSION, "update all brokers first")
    raise errors.UnsupportedByFormat(topic, what)
