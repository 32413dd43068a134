"""The names of Iggy's clients, as operators are shown them. Pure."""

from collections.abc import Iterator

from tank_controller.state.codec import describe_topic
from tank_controller.state.iggy.iggy_codec import group_message, stream_message
from tank_controller.state.state import ClusterState
from tank_controller.state.view_parts import PART_BYTES
from tank_protos.generated import control_pb2 as pb

_PART_ITEMS = 1_000
"""The most items of a part: some ten milliseconds' work."""


def names_parts(state: ClusterState) -> Iterator[pb.IggyNamesAnswer]:
    """All streams, their topics and groups, in parts of bounded size; at least one. Between two parts the
    state may change: what is gone by then is left out.
    """
    part, count, size = pb.IggyNamesAnswer(), 0, 0
    for item in _items(state):
        part.MergeFrom(item)
        count += 1
        size += item.ByteSize()
        if count >= _PART_ITEMS or size >= PART_BYTES:
            yield part
            part, count, size = pb.IggyNamesAnswer(), 0, 0
    yield part


def _items(state: ClusterState) -> Iterator[pb.IggyNamesAnswer]:
    """A stream, a topic or a group each. The options of a topic may have 64 KiB."""
    iggy = state.iggy
    topics = [topic_id for number in sorted(iggy.topics) for topic_id in iggy.topic_ids(number)]
    groups = list(iggy.all_groups())
    for _, stream in sorted(iggy.streams.items()):
        yield pb.IggyNamesAnswer(streams=[stream_message(stream)])
    for topic_id in topics:
        topic = state.topics.get(topic_id)
        if topic is not None and topic.iggy is not None:
            item = pb.IggyNamesAnswer()
            describe_topic(item.topics.add(partitions=len(topic.partitions)).topic, topic)
            yield item
    for group in groups:
        yield pb.IggyNamesAnswer(groups=[group_message(group)])
