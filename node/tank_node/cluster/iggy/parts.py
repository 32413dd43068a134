"""What the view knows of the names of Iggy's clients: streams, topics' Iggy parts, groups. Numbers count from
0; older clients' wires count from 1.
"""

from dataclasses import dataclass

from tank_protos.generated import control_pb2 as pb


@dataclass(slots=True, frozen=True)
class StreamView:
    """A stream."""

    number: int
    """The lowest that was free: a number that became free is given again."""
    name: str
    created_ms: int
    born: int
    """The log index of its creation: tells it from an earlier stream of its number."""
    going: bool = False
    """It is being deleted, one topic after another."""


@dataclass(slots=True, frozen=True)
class IggyOptionView:
    """An option of a topic, exactly as its client sent it."""

    key: str
    kind: int
    """The kind of the value, by Iggy's kinds of headers."""
    value: bytes


@dataclass(slots=True, frozen=True)
class IggyTopicView:
    """What makes a topic one of Iggy's."""

    stream: int
    """The number of its stream."""
    number: int
    """Its number in the stream."""
    name: str
    """Its name in the stream, which may change; the name in the cluster doesn't."""
    expiry_us: int = 0
    """0: the server's default; 2^64 - 1: never. This value and the next three are the wire's."""
    max_bytes: int = 0
    """0: the server's default; 2^64 - 1: unlimited."""
    compression: int = 1
    options: tuple[IggyOptionView, ...] = ()
    per_partition: bool = False
    """Whether `max_bytes` bounds each partition, or all of them together."""
    exposed: bool = False
    """A topic of another protocol: what is done to the whole stream leaves it alone."""
    created_ms: int = 0
    born: int = 0
    """The log index of its creation or exposure; a purge, which changes the topic id, keeps it."""
    purged: tuple[int, ...] = ()
    """The topic's earlier ids, oldest first; a bounded number."""


@dataclass(slots=True, frozen=True)
class IggyGroupView:
    """A consumer group of Iggy's clients. Its members and positions are at its coordinator."""

    number: int
    """The lowest that was free in its topic."""
    name: str
    topic_id: int
    born: int
    """The log index of its creation, by which its coordinator knows it; a purge of the topic keeps it."""


def stream_view(stream: pb.IggyStream) -> StreamView:
    """The stream of the controllers' message."""
    return StreamView(stream.number, stream.name, stream.created_ms, stream.born, stream.going)


def iggy_topic_view(part: pb.IggyPart) -> IggyTopicView:
    """The Iggy part of the controllers' message."""
    values = part.values
    return IggyTopicView(
        part.stream,
        part.number,
        part.name,
        values.expiry_us,
        values.max_bytes,
        values.compression,
        tuple(IggyOptionView(each.key, each.kind, each.value) for each in values.options),
        values.per_partition,
        part.exposed,
        part.created_ms,
        part.born,
        tuple(part.purged),
    )


def iggy_group_view(group: pb.IggyGroup) -> IggyGroupView:
    """The group of the controllers' message."""
    return IggyGroupView(group.number, group.name, group.topic_id, group.born)
