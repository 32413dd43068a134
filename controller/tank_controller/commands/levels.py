"""Feature levels: which processes may be in the cluster at the level in force. Pure.

The levels that a process knows are not in the state: each connected process sends them to the leader. The
level in force is in the state, and never falls. A process that doesn't know the level in force is refused.
The next level comes into force when all processes know it.
"""

from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.model import TopicState
from tank_controller.state.state import ClusterState
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import INTERNAL_TOPICS, is_iggys_group

WHAT_TO_DO = "it rises when all processes run this version: `tank cluster status` says which do not yet"
"""The end of a refusal of what needs a higher feature level."""


def check_level(state: ClusterState, needed: int) -> None:
    """Raises Rejected below this feature level."""
    if state.feature_level < needed:
        message = f"this needs feature level {needed}, and level {state.feature_level} is in force"
        raise Rejected(ErrorCode.LEVEL_TOO_LOW, f"{message}: {WHAT_TO_DO}")


def said(registration: pb.RegisterBroker | pb.JoinRequest) -> Levels:
    """The levels that a process knows."""
    return Levels(registration.min_level, registration.max_level)


def check_registration(state: ClusterState, register: pb.RegisterBroker) -> None:
    """Raises Rejected for a process that doesn't know the level in force. The leader checks this before it
    proposes, too, but the level may have risen since.
    """
    if why := said(register).refusal(state.feature_level):
        raise Rejected(ErrorCode.INVALID_REQUEST, why)


def check_raise_level(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected when it is not the next level, or a process has registered since the leader looked."""
    wanted = command.raise_level
    if wanted.level <= state.feature_level:
        return
    if wanted.level != state.feature_level + 1:
        message = f"feature level {wanted.level} is not the next one after {state.feature_level}"
        raise Rejected(ErrorCode.INVALID_REQUEST, message)
    if any(broker.epoch > wanted.seen_index for broker in state.brokers.values()):
        raise Rejected(
            ErrorCode.STALE_EPOCH,
            "a broker has registered meanwhile: check again which levels the processes know",
        )
    if kept := topics_in_the_way(state, wanted.level):
        raise Rejected(ErrorCode.TOPIC_EXISTS, f"topic {kept[0]} has a name that brokers need for themselves")
    if wanted.level == feature_levels.IGGY and (groups := positions_in_the_way(state)):
        raise Rejected(ErrorCode.GROUP_EXISTS, f"group {groups[0]} has a name that Iggy's clients need")


def topics_in_the_way(state: ClusterState, level: int) -> list[str]:
    """The topics of users because of which the level can't come into force: brokers need their names from it
    on.
    """
    if level != feature_levels.KAFKA:
        return []
    return sorted(INTERNAL_TOPICS & state.topic_ids.keys())


def positions_in_the_way(state: ClusterState) -> list[str]:
    """The groups whose positions the controllers keep, and because of which Iggy's feature level can't come
    into force: it gives their names to Iggy's clients. Coordinators know of others (`leader.held_names`)."""
    return sorted(filter(is_iggys_group, state.groups))


def is_internal(state: ClusterState, topic: TopicState) -> bool:
    """Whether brokers keep their own records in the topic. Before feature level `feature_levels.KAFKA` a
    topic of such a name is a user's."""
    return topic.name in INTERNAL_TOPICS and state.feature_level >= feature_levels.KAFKA


def raise_level(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Puts the level into force: all processes may now write formats that only this level can read."""
    level = command.raise_level.level
    if level > state.feature_level:
        state.feature_level = outcome.delta.feature_level = level
