"""Streams that are added: by their own command, or for a topic that is exposed. Pure."""

from tank_controller import limits
from tank_controller.commands.iggy.iggy_checks import check_iggy_name, number_for
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.iggy.iggy_codec import stream_message
from tank_controller.state.iggy.maker import Maker
from tank_controller.state.iggy.stream_state import StreamState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode


def check_new_stream(state: ClusterState, name: str) -> None:
    """Raises Rejected when there can't be one more stream, of this name."""
    check_iggy_name(name, "stream")
    if (present := state.iggy.stream_named(name)) is not None:
        why = "is being deleted: try again in a moment" if present.going else "exists already"
        raise Rejected(ErrorCode.STREAM_EXISTS, f"stream {name} {why}")
    if len(state.iggy.streams) >= limits.MAX_STREAMS:
        raise Rejected(ErrorCode.LIMIT_REACHED, f"there are {limits.MAX_STREAMS} streams: delete some first")


def add_stream(
    state: ClusterState,
    name: str,
    chosen: int | None,
    now_ms: int,
    outcome: CommandOutcome,
    maker: Maker | None = None,
) -> StreamState:
    """Adds a stream that was checked. chosen: its number; None: the lowest that is free."""
    stream = StreamState(number_for(chosen, state.iggy.streams), name, now_ms, state.index, maker=maker)
    state.iggy.put_stream(stream)
    outcome.delta.streams.append(stream_message(stream))
    return stream
