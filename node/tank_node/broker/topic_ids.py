"""The ids of topics in Kafka's protocol: 16 bytes, made of the cluster's id and our own id of the topic.

A topic that is made again under its name has another id, and topics of two clusters never share one. No
table is kept: the id leads back to the topic.
"""

from functools import lru_cache
from hashlib import sha256
from struct import Struct
from typing import Final

from tank_node.broker.broker import Broker, Topic
from tank_node.cluster.view import ClusterView, TopicView

NO_TOPIC: Final = bytes(16)
"""The id in a message that names no topic by id."""
_PREFIX_BYTES: Final = 8
_TOP_BIT: Final = 0x80
_LEAST_PREFIX: Final = bytes(_PREFIX_BYTES - 1) + b"\1"
"""Stands for a prefix of zeros: Kafka keeps the smallest ids for itself, and zeros for "no id"."""
_U64: Final = Struct(">Q")


def topic_uuid(cluster_id: str, topic_id: int) -> bytes:
    """Returns Kafka's id, 16 bytes, of the topic with this id."""
    return _prefix_of(cluster_id) + _U64.pack(topic_id)


def topic_by_uuid(view: ClusterView, uuid: bytes) -> TopicView | None:
    """Returns the topic with this id, 16 bytes. None when it was deleted, or is of another cluster."""
    if uuid[:_PREFIX_BYTES] != _prefix_of(view.cluster_id):
        return None
    return view.topic_by_id(int(_U64.unpack_from(uuid, _PREFIX_BYTES)[0]))


def served_topic(broker: Broker, uuid: bytes) -> Topic | None:
    """Returns the topic with this id, 16 bytes, as this broker serves it. None also while the broker still
    has a topic of that name that was deleted and made again."""
    view = topic_by_uuid(broker.link.view, uuid)
    topic = None if view is None else broker.topics.get(view.name)
    return topic if topic is not None and view is not None and topic.view.topic_id == view.topic_id else None


@lru_cache(maxsize=16)
def _prefix_of(cluster_id: str) -> bytes:
    """The first half of all ids in a cluster. Its top bit is clear, as Kafka shows ids in base64, where a
    first character "-" would look like an option."""
    digest = sha256(cluster_id.encode()).digest()
    prefix = bytes([digest[0] & ~_TOP_BIT]) + digest[1:_PREFIX_BYTES]
    return prefix if any(prefix) else _LEAST_PREFIX
