"""Answers to brokers' questions, out of the state, in parts that fit a message. Pure."""

from collections.abc import Iterator

from tank_controller.state.codec import positions
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

PART_BYTES = 1024 * 1024
"""Of one message; a single larger item goes alone."""


def answers(state: ClusterState, query: pb.BrokerQuery) -> list[pb.QueryAnswer]:
    """The parts of the answer, at least one; all but the last say that more follow."""
    match query.WhichOneof("question"):
        case "positions":
            found = _positions(state, query.positions)
        case "groups":
            found = [pb.QueryAnswer(groups=names) for names in _portions(sorted(state.groups))]
        case "view":
            found = [pb.QueryAnswer(index=state.index)]
        case _:
            message = "the question is none that this version knows"
            found = [pb.QueryAnswer(error=ErrorCode.INVALID_REQUEST, message=message)]
    for part in found:
        part.request_id = query.request_id
        part.more = part is not found[-1]
    return found


def _positions(state: ClusterState, query: pb.PositionsQuery) -> list[pb.QueryAnswer]:
    held = state.groups.get(query.group)
    if held is None:
        return [pb.QueryAnswer(error=ErrorCode.UNKNOWN_GROUP, message="the group has no positions yet")]
    if any(topic_id not in state.topics for topic_id in query.topic_ids):
        # Asked by a broker whose view is behind: "none kept" would send the group back to the beginning.
        return [pb.QueryAnswer(error=ErrorCode.UNKNOWN_TOPIC, message="there is no such topic")]
    wanted = held.keys() & set(query.topic_ids) if query.topic_ids else held.keys()
    found = list(positions({topic_id: held[topic_id] for topic_id in sorted(wanted)}))
    parts = [pb.QueryAnswer()]
    size = 0
    for position in found:
        size += position.ByteSize() + 4
        if size > PART_BYTES and parts[-1].positions:
            parts.append(pb.QueryAnswer())
            size = position.ByteSize() + 4
        parts[-1].positions.append(position)
    return parts


def _portions(names: list[str]) -> Iterator[list[str]]:
    """At least one, which may be empty."""
    portion: list[str] = []
    size = 0
    for name in names:
        size += len(name.encode()) + 4
        if size > PART_BYTES and portion:
            yield portion
            portion, size = [], len(name.encode()) + 4
        portion.append(name)
    yield portion
