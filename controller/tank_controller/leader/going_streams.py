"""Streams that are deleted in steps, because their topics have too many partitions for one command. Pure.

Each topic goes by its own command. The last one takes the stream with it, so that a new leader needs to know
nothing more.
"""

from tank_controller import limits
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb


def going_on(state: ClusterState) -> list[pb.Command]:
    """The commands for the next topics of streams that are going: topics of other protocols are hidden, the
    others deleted. About GOING_PARTITIONS_PER_TICK partitions, and at least one topic.
    """
    found: list[pb.Command] = []
    partitions = 0
    for stream in state.iggy.streams.values():
        if not stream.going:
            continue
        for topic_id in state.iggy.topic_ids(stream.number):
            if partitions >= limits.GOING_PARTITIONS_PER_TICK:
                return found
            topic = state.topics[topic_id]
            partitions += max(len(topic.partitions), 1)
            if topic.iggy is not None and topic.iggy.exposed:
                found.append(pb.Command(hide_topic=pb.HideTopic(topic_id=topic_id)))
            else:
                found.append(pb.Command(delete_topic=pb.DeleteTopic(topic_id=topic_id)))
    return found
