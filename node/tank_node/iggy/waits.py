"""Short waits of sessions with Iggy's clients."""

from collections.abc import Callable

from tank_node.broker.deadlines import Deadlines
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_node.session import Session


class Farewell(Waiter[Partition]):
    """A connection that is closed as soon as its last answer had time to leave."""

    __slots__ = ("_deadlines", "_reason", "_session")

    def __init__(self, deadlines: Deadlines, session: Session, reason: str) -> None:
        super().__init__()
        self.is_request = False
        self._deadlines = deadlines
        self._session = session
        self._reason = reason

    def begin(self, ms: int) -> None:
        """Closes the connection after this time."""
        self._deadlines.wait(self, (), ms)

    def expired(self) -> None:
        self._deadlines.forget(self)
        self._session.hang_up(self._reason)


class IggyPause(Waiter[Partition]):
    """A request that lets others have their turn before it goes on."""

    __slots__ = ("_deadlines", "_go_on")

    def __init__(self, deadlines: Deadlines, session: Session, go_on: Callable[[], None]) -> None:
        super().__init__()
        self.asked_by = session
        self._deadlines = deadlines
        self._go_on = go_on

    def begin(self, ms: int = 0) -> Callable[[], None]:
        """Calls `go_on` after this time. Returns what ends the pause without it, for a connection that
        ends."""
        self._deadlines.wait(self, (), ms)
        return self.gone

    def expired(self) -> None:
        self.gone()
        self._go_on()

    def gone(self) -> None:
        """Ends the pause without going on."""
        self._deadlines.forget(self)
