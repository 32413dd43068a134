"""Commands that create, rename and delete streams. Pure."""

from dataclasses import replace

from tank_controller import limits
from tank_controller.commands.iggy.iggy_checks import (
    check_iggy_name,
    check_number,
    is_made_by,
    living_stream,
)
from tank_controller.commands.iggy.leaving import leave_stream
from tank_controller.commands.iggy.new_streams import add_stream, check_new_stream
from tank_controller.commands.levels import check_level
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.commands.topic_partitions import remove_topic
from tank_controller.state.codec import topic_message
from tank_controller.state.iggy.iggy_codec import maker_of, stream_message
from tank_controller.state.iggy.stream_state import StreamState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb


def check_create_stream(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    create = command.create_stream
    check_level(state, IGGY)
    if _made_before(state, create) is not None:
        return
    check_new_stream(state, create.name)
    check_number(_chosen(create), state.iggy.streams, "stream")


def create_stream(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Creates a stream without topics."""
    create = command.create_stream
    stream = _made_before(state, create)
    if stream is None:
        stream = add_stream(state, create.name, _chosen(create), command.now_ms, outcome, maker_of(create))
    outcome.number = stream.number


def check_rename_stream(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    rename = command.rename_stream
    stream = living_stream(state, rename.stream, rename.born)
    check_iggy_name(rename.name, "stream")
    other = state.iggy.stream_named(rename.name)
    if other is not None and other.number != stream.number:
        raise Rejected(ErrorCode.STREAM_EXISTS, f"stream {rename.name} exists already")


def rename_stream(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Renames a stream. The names of its topics in the cluster stay as they are."""
    rename = command.rename_stream
    stream = state.iggy.streams[rename.stream]
    outcome.number = stream.number
    if rename.name != stream.name:
        renamed = replace(stream, name=rename.name)
        state.iggy.put_stream(renamed)
        outcome.delta.streams.append(stream_message(renamed))


def check_delete_stream(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected. One that is going is not there any more."""
    delete = command.delete_stream
    living_stream(state, delete.stream, delete.born)


def delete_stream(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Deletes a stream with its topics; exposed topics of other protocols are hidden, and stay. A stream with
    many partitions is marked as going: `leader.going_streams` deletes its topics one after another.
    """
    number = command.delete_stream.stream
    stream = state.iggy.streams[number]
    outcome.number = number
    topics = [state.topics[topic_id] for topic_id in state.iggy.topic_ids(number)]
    if sum(len(topic.partitions) for topic in topics) > limits.MAX_PARTITIONS_PER_COMMAND:
        going = replace(stream, going=True)
        state.iggy.put_stream(going)
        outcome.delta.streams.append(stream_message(going))
        return
    for topic in topics:
        if topic.iggy is not None and topic.iggy.exposed:
            leave_stream(state, topic, outcome)
            outcome.delta.topics.append(topic_message(topic))
        else:
            remove_topic(state, topic, outcome)
    state.iggy.remove_stream(number)
    outcome.delta.deleted_streams.append(number)


def _made_before(state: ClusterState, create: pb.CreateStream) -> StreamState | None:
    """The stream that this very command has created, if it is a repeat."""
    stream = state.iggy.stream_named(create.name)
    is_repeat = stream is not None and not stream.going and is_made_by(stream.maker, create)
    return stream if is_repeat else None


def _chosen(create: pb.CreateStream) -> int | None:
    return create.number if create.HasField("number") else None
