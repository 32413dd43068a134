"""Feature levels: who may be in the cluster at the one in force, and when the next one is. Pure.

What each process knows is not in the state: every one that is there now has said it to the leader. The level
in force is in the state, and never goes back. So one that doesn't know it is refused, and one that has not
said that it knows the next one holds that up.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tank_controller.broker_streams import Stream
from tank_controller.cluster_state import ClusterState
from tank_controller.outcome import Outcome, Rejected
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import Levels
from tank_protos.generated import control_pb2 as pb


def said(who: pb.RegisterBroker | pb.JoinRequest) -> Levels:
    """The levels that a process knows."""
    return feature_levels.said(who.min_level, who.max_level)


@dataclass(slots=True, frozen=True)
class Raising:
    """One controller's: when it leads, the next level comes into force through it."""

    controllers_behind: Callable[[int], Sequence[int]] = lambda level: ()
    """As `Member.behind`."""
    max_level: int = feature_levels.OWN.highest
    """The newest that this controller knows."""
    demands: Callable[[ClusterState, Mapping[int, Stream]], pb.Command | None] = lambda state, streams: None
    """As `Trust.command`."""

    def command(self, state: ClusterState, streams: Mapping[int, Stream]) -> pb.Command | None:
        """To raise the level in force by one, when all know the next; else to demand the cluster's secret,
        when all have proved it. `streams`: brokers' that are open here, by id."""
        level = state.feature_level + 1
        if level > self.max_level or self.controllers_behind(level):
            return self.demands(state, streams)
        if next(_brokers_behind(state, level, streams), None) is not None:
            return self.demands(state, streams)
        return pb.Command(raise_level=pb.RaiseLevel(level=level, seen_index=state.index))

    def waits_for(
        self, state: ClusterState, streams: Mapping[int, Stream]
    ) -> tuple[Sequence[int], Sequence[int]]:
        """The brokers, and the controllers by ordinal, that have not said that they know the next level; none
        when there is no next one."""
        level = state.feature_level + 1
        if level > self.max_level:
            return (), ()
        return sorted(_brokers_behind(state, level, streams)), self.controllers_behind(level)


def _brokers_behind(state: ClusterState, level: int, streams: Mapping[int, Stream]) -> Iterator[int]:
    """Those of which no process that is there now has said that it knows the level."""
    for broker_id, broker in state.brokers.items():
        stream = streams.get(broker_id)
        if stream is None or stream.epoch != broker.epoch or stream.max_level < level:
            yield broker_id


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
