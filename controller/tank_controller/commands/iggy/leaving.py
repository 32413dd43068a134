"""A topic leaves its stream. Pure."""

from tank_controller.commands.outcome import CommandOutcome
from tank_controller.state.model import TopicState
from tank_controller.state.state import ClusterState


def leave_stream(state: ClusterState, topic: TopicState, outcome: CommandOutcome) -> None:
    """Frees the topic's number and name in its stream, if it has any, and ends its groups. A stream that is
    going goes with its last topic.
    """
    part, topic.iggy = topic.iggy, None
    if part is None:
        return
    state.iggy.remove_topic(part)
    state.iggy.take_groups(topic.topic_id)
    if part.stream not in state.iggy.topics and state.iggy.streams[part.stream].going:
        state.iggy.remove_stream(part.stream)
        outcome.delta.deleted_streams.append(part.stream)
