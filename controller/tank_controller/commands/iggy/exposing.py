"""Topics of other protocols that Iggy's clients see: exposed and hidden, by a command or when they are
created. Pure.
"""

from tank_controller.commands.iggy.derived import RETENTION, RETENTION_BYTES, reported
from tank_controller.commands.iggy.iggy_checks import (
    check_topic_name,
    iggy_topic,
    living_stream,
    number_for,
)
from tank_controller.commands.iggy.leaving import leave_stream
from tank_controller.commands.iggy.new_streams import add_stream, check_new_stream
from tank_controller.commands.levels import check_level, is_internal
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.codec import topic_message
from tank_controller.state.iggy.iggy_part import IggyPart
from tank_controller.state.iggy.stream_state import StreamState
from tank_controller.state.model import TopicState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb


def check_expose_topic(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    expose = command.expose_topic
    check_level(state, IGGY)
    topic = state.topics.get(expose.topic_id)
    if topic is None:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC, "there is no such topic")
    if is_internal(state, topic):
        message = f"{topic.name} is the cluster's own topic: no client of Iggy's may see it"
        raise Rejected(ErrorCode.INVALID_NAME, message)
    stream = living_stream(state, expose.stream, expose.born)
    if topic.iggy is None:
        check_topic_name(state, stream, expose.name)
    elif (topic.iggy.stream, topic.iggy.name) != (stream.number, expose.name):
        at = f"{state.iggy.streams[topic.iggy.stream].name}/{topic.iggy.name}"
        raise Rejected(ErrorCode.TOPIC_EXISTS, f"Iggy's clients see {topic.name} as {at}: hide it first")


def expose_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Gives a topic a number and a name in a stream."""
    expose = command.expose_topic
    topic = state.topics[expose.topic_id]
    outcome.topic_id = topic.topic_id
    if topic.iggy is None:
        _expose(state, topic, state.iggy.streams[expose.stream], expose.name, command.now_ms)
        outcome.delta.topics.append(topic_message(topic))
    assert topic.iggy is not None
    outcome.number = topic.iggy.number


def check_hide_topic(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected for a topic that Iggy's clients don't see."""
    iggy_topic(state, command.hide_topic.topic_id)


def hide_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Takes a topic out of its stream: it stays, its messages, too, and its groups are gone."""
    topic, _ = iggy_topic(state, command.hide_topic.topic_id)
    outcome.topic_id = topic.topic_id
    leave_stream(state, topic, outcome)
    outcome.delta.topics.append(topic_message(topic))


def check_exposure(state: ClusterState, create: pb.CreateTopic) -> None:
    """Raises Rejected when a new topic can't be exposed where its broker's configuration says."""
    if not _is_exposed(state, create):
        return
    stream = state.iggy.stream_named(create.expose.stream)
    if stream is None or stream.going:
        check_new_stream(state, create.expose.stream)
    else:
        check_topic_name(state, stream, create.expose.name)


def expose_created(
    state: ClusterState, topic: TopicState, command: pb.Command, outcome: CommandOutcome
) -> None:
    """Exposes a new topic where the command says, in a new stream if there is none of the name."""
    create = command.create_topic
    if not _is_exposed(state, create):
        return
    stream = state.iggy.stream_named(create.expose.stream)
    if stream is None:
        stream = add_stream(state, create.expose.stream, None, command.now_ms, outcome)
    _expose(state, topic, stream, create.expose.name, command.now_ms)


def _is_exposed(state: ClusterState, create: pb.CreateTopic) -> bool:
    """Below the level nothing is exposed, because controllers of older versions ignore it."""
    return create.HasField("expose") and state.feature_level >= IGGY and not create.internal


def _expose(state: ClusterState, topic: TopicState, stream: StreamState, name: str, now_ms: int) -> None:
    number = number_for(None, state.iggy.topics.get(stream.number, ()))
    part = IggyPart(
        stream.number,
        number,
        name,
        per_partition=True,
        exposed=True,
        created_ms=now_ms,
        born=state.index,
    )
    keys = [key for key in (RETENTION, RETENTION_BYTES) if key in topic.settings]
    topic.iggy = reported(part, keys, topic.settings, len(topic.partitions))
    state.iggy.put_topic(topic.topic_id, topic.iggy)
