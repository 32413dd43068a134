"""Groups of other clients whose names are Iggy's from Iggy's feature level on: that level waits for their
deletion. Pure.

The controllers know the groups whose positions they still keep. Others are known to their coordinators, the
leaders of the internal topic's partitions, whose heartbeats name them. A broker that knows the level makes no
more of these groups, so what was named is all that there is, unless a partition has got another leader since.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tank_controller.commands.levels import positions_in_the_way
from tank_controller.state.state import NO_BROKER, ClusterState
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import GROUPS_TOPIC

_NAMED: Final = 10
"""The most groups that are named, as by each broker: a line of the log and an answer have room for them. When
they are deleted, the next ones are."""


@dataclass(slots=True, frozen=True)
class _Said:
    """What the last heartbeat of a broker's process said."""

    epoch: int
    seen_index: int
    """The last log entry in its view."""
    names: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class NamesFound:
    """What is known now."""

    groups: Sequence[str]
    """The first ones in the way, as far as they were named."""
    silent: Sequence[int]
    """The brokers that have not named theirs yet."""
    is_leaderless: bool
    """Whether some partition has no leader, which could name its groups."""

    @property
    def are_free(self) -> bool:
        """Whether the level may come into force."""
        return not (self.groups or self.silent or self.is_leaderless)


class HeldNames:
    """What one controller has heard while it leads."""

    def __init__(self) -> None:
        self._said: dict[int, _Said] = {}
        """By broker."""
        self._seen: tuple[object, ...] = ()
        """The leaders, and the groups that the controllers keep, at the last look."""
        self._since = 0
        """The log entry at which they were first seen so."""

    def begin_term(self) -> None:
        """Forgets everything: this controller began or ceased to lead."""
        self._said.clear()
        self._seen = ()

    def heard(self, broker_id: int, epoch: int, heartbeat: pb.BrokerHeartbeat) -> None:
        """Takes what a heartbeat of this process says."""
        if heartbeat.HasField("names_held"):
            names = tuple(heartbeat.names_held.groups)
            self._said[broker_id] = _Said(epoch, heartbeat.seen_index, names)
        else:
            self._said.pop(broker_id, None)

    def found(self, state: ClusterState) -> NamesFound:
        """Judges the names. A heartbeat from before the present leaders led counts no more, nor does one from
        before a group's positions moved from the controllers to its coordinator."""
        kept = positions_in_the_way(state)
        topic_id = state.topic_ids.get(GROUPS_TOPIC)
        partitions = () if topic_id is None else state.topics[topic_id].partitions
        leaders = [(each.leader, each.leader_epoch) for each in partitions]
        seen = (kept, leaders)
        if seen != self._seen:
            self._seen, self._since = seen, state.index
        names, silent = set(kept), []
        for broker_id in sorted({leader for leader, _ in leaders} - {NO_BROKER}):
            said = self._said.get(broker_id)
            broker = state.brokers.get(broker_id)
            if said is None or broker is None or said.epoch != broker.epoch or said.seen_index < self._since:
                silent.append(broker_id)
            else:
                names.update(said.names)
        is_leaderless = any(leader == NO_BROKER for leader, _ in leaders)
        return NamesFound(sorted(names)[:_NAMED], silent, is_leaderless)
