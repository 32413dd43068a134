"""The names of Iggy's clients, as operators are shown them. Pure."""

from collections.abc import Iterator

from tank_controller import limits
from tank_controller.state.codec import describe_topic
from tank_controller.state.iggy.iggy_codec import group_message, stream_message
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb


def names_parts(state: ClusterState) -> Iterator[pb.IggyNamesAnswer]:
    """All streams, their topics and groups, in parts of bounded size; at least one. Between two parts the
    state may change: what is gone by then is left out.
    """
    iggy = state.iggy
    part, size = pb.IggyNamesAnswer(), 0
    topics = [topic_id for number in sorted(iggy.topics) for topic_id in iggy.topic_ids(number)]
    groups = list(iggy.all_groups())
    for stream in [stream for _, stream in sorted(iggy.streams.items())]:
        part.streams.append(stream_message(stream))
        size += 1
        if size >= limits.MAX_API_PAGE:
            yield part
            part, size = pb.IggyNamesAnswer(), 0
    for topic_id in topics:
        topic = state.topics.get(topic_id)
        if topic is not None and topic.iggy is not None:
            describe_topic(part.topics.add(partitions=len(topic.partitions)).topic, topic)
            size += 1
        if size >= limits.MAX_API_PAGE:
            yield part
            part, size = pb.IggyNamesAnswer(), 0
    for group in groups:
        part.groups.append(group_message(group))
        size += 1
        if size >= limits.MAX_API_PAGE:
            yield part
            part, size = pb.IggyNamesAnswer(), 0
    yield part
