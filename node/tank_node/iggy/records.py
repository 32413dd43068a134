"""Streams, topics, partitions and groups as answers show them, with the figures that their leaders know."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tank_node.cluster.iggy.parts import IggyGroupView, StreamView
from tank_node.cluster.view import TopicView
from tank_node.iggy.numbers import iggy_part, iggy_view, may
from tank_node.stored.results import PartitionExtent, Place
from tank_node.stored.stored_partitions import stored_partitions
from tank_node.users.rights import IggyAction
from tank_protos.generated.iggy import IggyGroup, IggyPartition, IggyStream, IggyTopic
from tank_protos.iggy import header_map
from tank_protos.iggy.header_map import UserHeader

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

NEVER: Final = 2**64 - 1
"""A message expiry that never comes, and a topic size without a bound."""
SECOND_US: Final = 1_000_000
_MS_US: Final = 1000
_MEASURED_ANEW: Final = 1000
"""The most partitions of one stream or topic whose figures an answer has as of now: a topic may have as many.
Those of more may be a second old."""

Sizes = Mapping[Place, PartitionExtent]


def with_sizes(
    call: "IggyCall", topics: Iterable[TopicView], done: Callable[[Sizes], None], *, of_one: bool = False
) -> None:
    """Asks the leaders of these topics' partitions for their figures, and calls `done` with those that
    answered. of_one: the answer is about one stream or topic, and has the figures of now; others may have
    those of a second ago, of partitions that other brokers lead."""
    places = [(topic.topic_id, placed.partition) for topic in topics for placed in topic.partitions]
    if places:
        session = call.session
        is_new = of_one and len(places) <= _MEASURED_ANEW
        stored_partitions(session.broker).sizes(places, session, done, is_new=is_new)
    else:
        done({})


def shown_topics(call: "IggyCall", stream: StreamView) -> list[TopicView]:
    """The topics of a stream that the client may see, by number."""
    return [
        topic
        for topic in iggy_view(call).topics(stream.number)
        if may(call, IggyAction.READ_TOPIC, stream.born, iggy_part(topic).born)
    ]


def stream_record(
    call: "IggyCall", stream: StreamView, topics: Sequence[TopicView], sizes: Sizes
) -> IggyStream:
    """A stream with all of these topics."""
    messages, size_bytes = _sums(topics, sizes)
    return IggyStream(
        id=stream.number + call.era.base,
        created_at_us=stream.created_ms * _MS_US,
        topics_count=len(topics),
        size_bytes=size_bytes,
        messages_count=messages,
        name=stream.name,
    )


def topic_record(call: "IggyCall", topic: TopicView, sizes: Sizes) -> IggyTopic:
    """A topic, with the values that its maker gave."""
    part = iggy_part(topic)
    messages, size_bytes = _sums([topic], sizes)
    expires = part.expiry_us not in (0, NEVER)
    given = (UserHeader(option.key.encode(), option.value, option.kind) for option in part.options)
    return IggyTopic(
        id=part.number + call.era.base,
        created_at_us=part.created_ms * _MS_US,
        partitions_count=len(topic.partitions),
        expiry_secs=min(-(-part.expiry_us // SECOND_US), 2**32 - 1) if expires else 0,
        expiry_us=part.expiry_us,
        compression=part.compression,
        max_bytes=part.max_bytes,
        replication_factor=topic.replication_factor,
        size_bytes=size_bytes,
        messages_count=messages,
        name=part.name,
        options=header_map.write(given, True),
    )


def partition_records(call: "IggyCall", topic: TopicView, sizes: Sizes) -> list[IggyPartition]:
    """A topic's partitions; zeros for one whose leader did not answer."""
    created_us = iggy_part(topic).created_ms * _MS_US
    found = []
    for placed in topic.partitions:
        known = sizes.get((topic.topic_id, placed.partition))
        record = IggyPartition(id=placed.partition + call.era.base, created_at_us=created_us)
        if known is not None:
            record.segments_count = known.segments
            record.current_offset = max(known.mark - 1, 0)
            record.size_bytes = known.size_bytes
            record.messages_count = known.messages
        found.append(record)
    return found


def group_record(call: "IggyCall", group: IggyGroupView, topic: TopicView, members: int) -> IggyGroup:
    """A group with so many members."""
    return IggyGroup(
        id=group.number + call.era.base,
        partitions_count=len(topic.partitions),
        members_count=members,
        name=group.name,
    )


def _sums(topics: Sequence[TopicView], sizes: Sizes) -> tuple[int, int]:
    """The messages and bytes of all partitions together."""
    messages = size_bytes = 0
    for topic in topics:
        for placed in topic.partitions:
            known = sizes.get((topic.topic_id, placed.partition))
            if known is not None:
                messages += known.messages
                size_bytes += known.size_bytes
    return messages, size_bytes
