"""Requests that wait for a short time while a coordinator reads its groups, so that the first request of all,
and those at a change of coordinators, need not be repeated."""

import logging
from collections.abc import Callable
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.coordinators.group_timer import GroupTimer

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 1_000
"""The most requests that wait; before a further one all are answered."""
LONGEST_MS: Final = 1_000
"""How long a request waits. A load of a million positions takes longer: then its client asks again."""
_LOOK_MS: Final = 10


class LoadingWait:
    """The requests of one broker that wait."""

    __slots__ = ("_broker", "_stopped", "_timer", "_waiting")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: list[tuple[int, Callable[[], bool], Callable[[], None]]] = []
        """Until when (monotonic), whether it still has to wait, and what to do then."""
        self._stopped = False
        self._timer = GroupTimer(broker, self._look, self._stop)

    def wait(self, is_loading: Callable[[], bool], act: Callable[[], None]) -> None:
        """Acts at once, or when the groups are read, or it has waited for so long; in the order of the calls,
        so that no request overtakes an earlier one about its group."""
        if self._stopped or len(self._waiting) >= MOST_WAITING:
            self._act_all()
        if self._stopped or not (self._waiting or is_loading()):
            act()
            return
        now_ms = self._broker.tick.monotonic_ms
        self._waiting.append((now_ms + LONGEST_MS, is_loading, act))
        self._timer.by(now_ms + _LOOK_MS)

    def _look(self) -> None:
        now_ms = self._broker.tick.monotonic_ms
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            deadline_ms, is_loading, act = each
            if now_ms < deadline_ms and is_loading():
                self._waiting.append(each)
            else:
                _try(act)
        if self._waiting:
            self._timer.by(now_ms + _LOOK_MS)

    def _stop(self) -> None:
        self._stopped = True
        self._act_all()

    def _act_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for _, _, act in waiting:
            _try(act)


def _try(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:
        logger.exception("a bug of ours: a request about groups is not answered, please report it")
