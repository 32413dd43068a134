"""Consumer groups: what committing their positions, and dropping them, does to the cluster's state. Pure.

From feature level `feature_levels.NATIVE_GROUPS` on each group's coordinator, a broker, keeps its positions:
it takes them over from here, and has them dropped. All of this has to stay as long as a cluster may begin, or
come from an older version, below that level.
"""

from tank_controller import limits
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.model import PositionState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import group_name_problem

COORDINATED = "the group's coordinator keeps its positions by now: ask again"
"""The refusal of what brokers ask whose view doesn't show the level in force yet."""


def check_commit_positions(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected when no position of the command can be kept."""
    commit = command.commit_positions
    if state.feature_level >= NATIVE_GROUPS:
        raise Rejected(ErrorCode.OVERLOADED, COORDINATED)
    if problem := group_name_problem(commit.group):
        raise Rejected(ErrorCode.INVALID_NAME, problem)
    if len(commit.positions) > limits.MAX_POSITIONS_PER_COMMAND:
        message = f"at most {limits.MAX_POSITIONS_PER_COMMAND} positions at once: send them in parts"
        raise Rejected(ErrorCode.TOO_LARGE, message)
    if _needs_room(state, commit.group) and not _is_unused(state, _longest_unused(state), command.now_ms):
        days = limits.GROUP_KEPT_MS // 86_400_000
        message = (
            f"there are {limits.MAX_GROUPS} groups in use: use fewer; a group that was unused for {days} "
            f"days is replaced"
        )
        raise Rejected(ErrorCode.OVERLOADED, message)
    if state.position_count + _new_positions(state, commit) > limits.MAX_POSITIONS:
        raise Rejected(
            ErrorCode.OVERLOADED,
            f"the cluster keeps at most {limits.MAX_POSITIONS} positions "
            f"of groups: use fewer groups, or delete topics",
        )
    added = sum(len(position.metadata) for position in commit.positions)
    if state.metadata_bytes + added > limits.MAX_METADATA_BYTES:
        message = (
            f"the metadata of all positions has at most {limits.MAX_METADATA_BYTES} bytes: commit "
            f"shorter metadata"
        )
        raise Rejected(ErrorCode.OVERLOADED, message)


def commit_positions(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Keeps the positions that can be kept; the outcome has an error for each of the others."""
    name = command.commit_positions.group
    group = state.groups.get(name, {})
    for position in command.commit_positions.positions:
        error = _position_error(state, position)
        outcome.results.append(error)
        if error is not ErrorCode.NONE:
            continue
        partitions = group.setdefault(position.topic_id, {})
        before = partitions.get(position.partition)
        if before is None:
            state.derived.position_count += 1
        else:
            state.derived.metadata_bytes -= len(before.metadata)
        state.derived.metadata_bytes += len(position.metadata)
        partitions[position.partition] = PositionState(
            position.sequence_number, position.metadata, command.now_ms
        )
    if ErrorCode.NONE not in outcome.results:
        return
    if _needs_room(state, name):
        forget_positions(state, state.groups.pop(_longest_unused(state)))
    state.groups.pop(name, None)
    state.groups[name] = group


def check_drop_positions(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected below the level from which on coordinators keep positions."""
    if state.feature_level < NATIVE_GROUPS:
        message = f"positions are dropped from feature level {NATIVE_GROUPS} on"
        raise Rejected(ErrorCode.INVALID_REQUEST, message)


def drop_positions(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Removes groups with their positions, which their coordinators hold by now."""
    for name in command.drop_positions.groups:
        forget_positions(state, state.groups.pop(name, {}))


def _needs_room(state: ClusterState, group: str) -> bool:
    return group not in state.groups and len(state.groups) >= limits.MAX_GROUPS


def _longest_unused(state: ClusterState) -> str:
    return next(iter(state.groups))


def _is_unused(state: ClusterState, group: str, now_ms: int) -> bool:
    partitions = state.groups[group].values()
    positions = (position for topic in partitions for position in topic.values())
    return all(now_ms - position.committed_ms >= limits.GROUP_KEPT_MS for position in positions)


def forget_positions(state: ClusterState, topics: dict[int, dict[int, PositionState]]) -> None:
    """Takes removed positions out of the counts."""
    for positions in topics.values():
        state.derived.position_count -= len(positions)
        state.derived.metadata_bytes -= sum(len(position.metadata) for position in positions.values())


def _new_positions(state: ClusterState, commit: pb.CommitPositions) -> int:
    group = state.groups.get(commit.group, {})
    return sum(position.partition not in group.get(position.topic_id, ()) for position in commit.positions)


def _position_error(state: ClusterState, position: pb.Position) -> ErrorCode:
    topic = state.topics.get(position.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC
    if position.partition >= len(topic.partitions):
        return ErrorCode.UNKNOWN_PARTITION
    if len(position.metadata) > limits.MAX_POSITION_METADATA_BYTES:
        return ErrorCode.TOO_LARGE
    return ErrorCode.NONE
