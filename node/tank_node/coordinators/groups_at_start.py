"""Whether there are groups when a broker starts: one without any does without what coordinates them, 4 MB of
memory, until a client asks for it."""

from collections.abc import Callable
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.cluster.link import GroupsOutcome
from tank_node.coordinators.group_timer import GroupTimer
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.wire.names import GROUPS_TOPIC

_PAUSE_MS: Final = 1_000
"""How often the feature level is looked at, and the controllers are asked again."""


class GroupsAtStart:
    """Looks once whether the internal topic is there, or the controllers hold positions that are to move."""

    def __init__(self, broker: Broker, begin: Callable[[], object]) -> None:
        """begin: called at most once, when there are groups."""
        self._broker = broker
        self._begin = begin
        self._stopped = False
        self._timer = GroupTimer(broker, self._look, self._stop)
        self._timer.by(broker.tick.monotonic_ms)

    def _stop(self) -> None:
        self._stopped = True

    def _look(self) -> None:
        view = self._broker.link.view
        if view.topic(GROUPS_TOPIC) is not None:
            self._begin()
        elif self._broker.has_all_positions:
            return  # what coordinates groups was made meanwhile, and has asked
        elif view.feature_level < NATIVE_GROUPS:
            self._again()
        else:
            self._broker.link.requests.groups_to_move(self._named)

    def _again(self) -> None:
        if not self._stopped:
            self._timer.by(self._broker.tick.monotonic_ms + _PAUSE_MS)

    def _named(self, outcome: GroupsOutcome) -> None:
        self._broker.begin_tick()
        if outcome.error:
            self._again()
        elif outcome.groups:
            self._begin()
        else:
            self._broker.has_all_positions = True
