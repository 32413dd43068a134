"""Raising the feature level: the leader proposes the next one once every process knows it. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tank_controller.commands.levels import topics_in_the_way
from tank_controller.leader.brokers.streams import Stream
from tank_controller.leader.held_names import HeldNames
from tank_controller.state.state import ClusterState
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb


@dataclass(slots=True, frozen=True)
class Raising:
    """Raises the feature level while one controller leads."""

    controllers_behind: Callable[[int], Sequence[int]] = lambda level: ()
    """As `RaftMember.behind`."""
    max_level: int = feature_levels.OWN.highest
    """The newest level that this controller knows."""
    demands: Callable[[ClusterState, Mapping[int, Stream]], pb.Command | None] = lambda state, streams: None
    """As `Trust.command`."""
    held: HeldNames = field(default_factory=HeldNames)
    """What brokers said of groups in the way of Iggy's feature level."""

    def command(self, state: ClusterState, streams: Mapping[int, Stream]) -> pb.Command | None:
        """Returns the command that raises the level by one when all processes know the next level, or else
        the one that demands the cluster's secret when all processes have proved it. `streams`: the open
        streams, by broker id.
        """
        level = state.feature_level + 1
        if level > self.max_level or self.controllers_behind(level):
            return self.demands(state, streams)
        if next(_brokers_behind(state, level, streams), None) is not None or topics_in_the_way(state, level):
            return self.demands(state, streams)
        if level == feature_levels.IGGY and not self.held.found(state).are_free:
            return self.demands(state, streams)
        return pb.Command(raise_level=pb.RaiseLevel(level=level, seen_index=state.index))

    def waits_for(
        self, state: ClusterState, streams: Mapping[int, Stream]
    ) -> tuple[Sequence[int], Sequence[int]]:
        """The brokers, and the controllers by ordinal, that don't know the next level; empty when there is no
        next level. Brokers that have not named their groups yet, if the level needs that, are among them.
        """
        level = state.feature_level + 1
        if level > self.max_level:
            return (), ()
        brokers = set(_brokers_behind(state, level, streams))
        if level == feature_levels.IGGY:
            brokers.update(self.held.found(state).silent)
        return sorted(brokers), self.controllers_behind(level)

    def topics_in_the_way(self, state: ClusterState) -> Sequence[str]:
        """The topics that users have to delete before the next level can come into force."""
        level = state.feature_level + 1
        return () if level > self.max_level else topics_in_the_way(state, level)

    def groups_in_the_way(self, state: ClusterState) -> Sequence[str]:
        """The groups that users have to delete before the next level can come into force."""
        level = state.feature_level + 1
        is_iggys = level == feature_levels.IGGY and level <= self.max_level
        return self.held.found(state).groups if is_iggys else ()


def _brokers_behind(state: ClusterState, level: int, streams: Mapping[int, Stream]) -> Iterator[int]:
    """The brokers without a connected process that knows the level."""
    for broker_id, broker in state.brokers.items():
        stream = streams.get(broker_id)
        if stream is None or stream.epoch != broker.epoch or stream.max_level < level:
            yield broker_id
