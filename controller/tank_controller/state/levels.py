"""Feature levels: which processes may be in the cluster at the level in force. Pure.

What each process knows is not in the state: every one that is there now has said it to the leader. The level
in force is in the state, and never goes back. So one that doesn't know it is refused, and one that has not
said that it knows the next one holds that up.
"""

from tank_controller.state.outcome import Outcome, Rejected
from tank_controller.state.state import ClusterState
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb


def said(who: pb.RegisterBroker | pb.JoinRequest) -> Levels:
    """The levels that a process knows."""
    return feature_levels.said(who.min_level, who.max_level)


def check_registration(state: ClusterState, register: pb.RegisterBroker) -> None:
    """Raises Rejected: a process that doesn't know the level in force.

    Who knows only later ones is refused by the leader, not here: at the first level there may be controllers
    of before there were levels, and they would make something else out of this entry.
    """
    if why := feature_levels.said(feature_levels.FIRST, register.max_level).refusal(state.feature_level):
        raise Rejected(ErrorCode.INVALID_REQUEST, why)


def check_raise_level(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected when it is not the next one, or a process has registered that nobody has judged."""
    wanted = command.raise_level
    if wanted.level <= state.feature_level:
        return
    if wanted.level != state.feature_level + 1:
        message = f"feature level {wanted.level} doesn't follow on {state.feature_level}"
        raise Rejected(ErrorCode.INVALID_REQUEST, message)
    if any(broker.epoch > wanted.seen_index for broker in state.brokers.values()):
        raise Rejected(ErrorCode.STALE_EPOCH, "a broker has registered meanwhile: judge again")


def raise_level(state: ClusterState, command: pb.Command, outcome: Outcome) -> None:
    """From here on everybody may write what only processes that know this level can read."""
    level = command.raise_level.level
    if level > state.feature_level:
        state.feature_level = outcome.delta.feature_level = level
