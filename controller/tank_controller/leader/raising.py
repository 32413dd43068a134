"""When the next feature level comes into force: the leader proposes it once every process knows it. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tank_controller.leader.streams import Stream
from tank_controller.state.state import ClusterState
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb


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
