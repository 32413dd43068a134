"""Clients that have to ping, where the operator wants that: connections of those that don't are closed."""

from typing import Final

from tank_node.broker.broker import Broker
from tank_node.broker.deadlines import Deadlines
from tank_node.broker.shared_parts import shared
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_node.session import Session

_REASON: Final = "no_heartbeat"


class _Watch(Waiter[Partition]):
    """Looks at one connection when its next ping is overdue."""

    __slots__ = ("_heartbeats", "_serial")

    def __init__(self, heartbeats: "IggyHeartbeats", serial: int) -> None:
        super().__init__()
        self.is_request = False
        self._heartbeats = heartbeats
        self._serial = serial

    def expired(self) -> None:
        self._heartbeats.look(self._serial)


class _Watched:
    """What is known of one connection."""

    __slots__ = ("pinged_ms", "session", "watch")

    def __init__(self, session: Session, pinged_ms: int, watch: _Watch) -> None:
        self.session = session
        self.pinged_ms = pinged_ms
        self.watch = watch


class IggyHeartbeats:
    """The watched connections of one broker: each is closed that has not pinged for
    `Limits.iggy_heartbeat_ms`. A client whose request is under way can't ping, and is given its time anew
    when it is looked at."""

    __slots__ = ("_by_serial", "_deadlines", "_silence_ms", "_tick")

    def __init__(self, broker: Broker) -> None:
        self._tick = broker.tick
        self._deadlines: Deadlines = broker.deadlines
        self._silence_ms = broker.limits.iggy_heartbeat_ms
        self._by_serial: dict[int, _Watched] = {}

    def watch(self, session: Session) -> None:
        """Begins to watch a connection; does nothing for one that is watched."""
        if session.serial not in self._by_serial:
            watch = self._begin(session.serial, self._silence_ms)
            self._by_serial[session.serial] = _Watched(session, self._tick.monotonic_ms, watch)

    def pinged(self, serial: int) -> None:
        """Notes a ping of a connection, if it is watched."""
        found = self._by_serial.get(serial)
        if found is not None:
            found.pinged_ms = self._tick.monotonic_ms

    def ended(self, serial: int) -> None:
        """Watches a connection no more, because it has ended."""
        found = self._by_serial.pop(serial, None)
        if found is not None:
            self._deadlines.forget(found.watch)

    def look(self, serial: int) -> None:
        """Closes the connection if its ping is overdue, else watches on."""
        found = self._by_serial[serial]
        self._deadlines.forget(found.watch)
        if self._deadlines.has_ended:  # the broker stops, and closes all connections itself
            return
        now_ms = self._tick.monotonic_ms
        if found.session.in_flight:
            found.pinged_ms = now_ms
        left_ms = found.pinged_ms + self._silence_ms - now_ms
        if left_ms > 0:
            found.watch = self._begin(serial, left_ms)
        else:
            found.session.hang_up(_REASON)

    def _begin(self, serial: int, ms: int) -> _Watch:
        watch = _Watch(self, serial)
        self._deadlines.wait(watch, (), ms)
        return watch


def heartbeats_of(broker: Broker) -> IggyHeartbeats:
    """The one object of this broker; made at the first call."""
    return shared(broker, IggyHeartbeats, IggyHeartbeats)
