"""The checks that commands about Iggy's names share. Pure."""

from collections.abc import Container

from tank_controller import limits
from tank_controller.commands.levels import check_level
from tank_controller.commands.outcome import Rejected
from tank_controller.state.iggy.iggy_codec import maker_of
from tank_controller.state.iggy.iggy_part import IggyPart
from tank_controller.state.iggy.iggy_state import lowest_free
from tank_controller.state.iggy.maker import Maker
from tank_controller.state.iggy.stream_state import StreamState
from tank_controller.state.model import TopicState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb


def living_stream(state: ClusterState, number: int, born: int) -> StreamState:
    """The stream that is meant. Raises Rejected when it is gone, or going, or the level is too low."""
    check_level(state, IGGY)
    stream = state.iggy.stream(number, born)
    if stream is None:
        raise Rejected(ErrorCode.UNKNOWN_STREAM, "there is no such stream")
    if stream.going:
        raise Rejected(ErrorCode.UNKNOWN_STREAM, f"stream {stream.name} is being deleted")
    return stream


def iggy_topic(state: ClusterState, topic_id: int) -> tuple[TopicState, IggyPart]:
    """The topic that is meant, with its Iggy part. Raises Rejected when there is none, or the level is too
    low.
    """
    check_level(state, IGGY)
    topic = state.topics.get(topic_id)
    if topic is None:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC, "there is no such topic")
    if topic.iggy is None:
        message = f"Iggy's clients don't see topic {topic.name}: expose it first"
        raise Rejected(ErrorCode.UNKNOWN_TOPIC, message)
    return topic, topic.iggy


def check_iggy_name(name: str, kind: str) -> None:
    """Raises Rejected for a name that the wire can't carry. kind: what has the name, such as `stream`."""
    if not 1 <= len(name.encode()) <= limits.MAX_IGGY_NAME_BYTES:
        message = f"a {kind}'s name has 1 to {limits.MAX_IGGY_NAME_BYTES} bytes"
        raise Rejected(ErrorCode.INVALID_NAME, message)


def check_number(chosen: int | None, taken: Container[int], kind: str) -> None:
    """Raises Rejected when a client chose a number that is taken."""
    if chosen is not None and chosen in taken:
        raise Rejected(ErrorCode.NUMBER_TAKEN, f"there is a {kind} of number {chosen} already")


def number_for(chosen: int | None, taken: Container[int]) -> int:
    """The number of what is created: the chosen one, or the lowest that is free."""
    return lowest_free(taken) if chosen is None else chosen


def is_made_by(
    maker: Maker | None, create: pb.CreateStream | pb.CreateIggyTopic | pb.CreateIggyGroup
) -> bool:
    """Whether this very command has created what has this maker, so that it is a repeat."""
    return maker is not None and maker == maker_of(create)


def check_option_room(state: ClusterState, before: IggyPart | None, after: IggyPart) -> None:
    """Raises Rejected when the options of a topic that is created or changed are too much for all topics'."""
    kept = state.iggy.option_bytes - (0 if before is None else before.option_bytes)
    if kept + after.option_bytes > limits.MAX_ALL_IGGY_OPTION_BYTES:
        message = f"the options of all topics have at most {limits.MAX_ALL_IGGY_OPTION_BYTES} bytes"
        raise Rejected(ErrorCode.LIMIT_REACHED, message)


def check_topic_name(state: ClusterState, stream: StreamState, name: str) -> None:
    """Raises Rejected when a stream can't get a topic of this name."""
    check_iggy_name(name, "topic")
    if name in state.iggy.topic_numbers.get(stream.number, ()):
        message = f"stream {stream.name} has a topic {name} already"
        raise Rejected(ErrorCode.TOPIC_EXISTS, message)
