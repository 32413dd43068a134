"""Logins of a cluster that has no users yet, until there is the root user."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tank_node.clock import Clock
from tank_node.cluster.users.view import UsersView
from tank_node.users.limits import ROOT_LOGINS_WAITING, ROOT_LOOK_MS, ROOT_WAIT_MS
from tank_protos.users.rules import ROOT


@dataclass(slots=True, frozen=True)
class _Held:
    """A login that waits."""

    until_ms: int
    judge: Callable[[], None]
    give_up: Callable[[], None]


class RootWait:
    """Holds logins back while the cluster has no root user, and so no users at all: every password would be
    wrong then, and clients take such an answer for the last word."""

    def __init__(
        self, users: UsersView, clock: Clock, later: Callable[[int, Callable[[], None]], None]
    ) -> None:
        """`later`: calls a function on the event loop after so many milliseconds."""
        self._users = users
        self._clock = clock
        self._later = later
        self._held: deque[_Held] = deque()
        """In the order in which they came, which is that in which they are given up."""

    @property
    def is_over(self) -> bool:
        """Whether there is a root user."""
        return self._users.by_number(ROOT) is not None

    def hold(self, judge: Callable[[], None], give_up: Callable[[], None]) -> bool:
        """Calls `judge` when there is a root user, or `give_up` when there is none after ROOT_WAIT_MS.
        Returns False, and calls neither, when too many logins wait."""
        if len(self._held) >= ROOT_LOGINS_WAITING:
            return False
        self._held.append(_Held(self._clock.monotonic_ms() + ROOT_WAIT_MS, judge, give_up))
        if len(self._held) == 1:
            self._later(ROOT_LOOK_MS, self._look)
        return True

    def _look(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self.is_over:
            held, self._held = self._held, deque()
            for each in held:
                each.judge()
            return
        while self._held and self._held[0].until_ms <= now_ms:
            self._held.popleft().give_up()
        if self._held:
            self._later(ROOT_LOOK_MS, self._look)
