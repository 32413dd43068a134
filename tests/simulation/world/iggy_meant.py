"""What an Iggy client's request means to the broker that takes it, for the books: it names streams, topics
and groups, and a broker whose view is behind goes by what they were."""

from collections.abc import Callable
from dataclasses import dataclass

from tank_node.broker.broker import Broker
from tank_node.replication.role import Role


@dataclass(slots=True, frozen=True)
class IggyMeant:
    """What the names were at a broker when it took the request."""

    broker_id: int
    topic_id: int = 0
    """0: there is no such topic."""
    partitions: int = 0
    """How many the topic has."""
    born: int = 0
    """Of the group; 0: there is none, or none was named."""
    led: tuple[tuple[int, int], ...] = ()
    """The partitions that this broker leads, and in which epochs."""


@dataclass(slots=True, frozen=True)
class IggyAsked:
    """An Iggy client's request, which names these."""

    stream: str
    topic: str
    group: str
    told: Callable[[IggyMeant], None]
    """Called when a broker takes the request, before it does what is asked."""


def meant_by(broker: Broker, asked: IggyAsked) -> IggyMeant:
    """What a broker goes by that takes this request now."""
    view = broker.link.view
    stream = view.iggy.stream_by_name(asked.stream)
    topic = None if stream is None else view.iggy.topic_by_name(stream.number, asked.topic)
    if topic is None:
        return IggyMeant(view.broker_id)
    group = view.iggy.group_by_name(topic.topic_id, asked.group)
    served = broker.topics.get(topic.name)
    led = tuple(
        (number, partition.leader_epoch)
        for number, partition in (() if served is None else served.partitions.items())
        if partition.role is Role.LEADER
    )
    born = 0 if group is None else group.born
    return IggyMeant(view.broker_id, topic.topic_id, len(topic.partitions), born, led)
