"""The connections that this broker makes to others: when each is dialed, dialed again, and hung up.

There is at most one for each broker and purpose. No I/O: a `Dialer` connects, and the time is that of the
broker's tick.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from tank_node.broker.broker import Broker
from tank_node.dialer import Dialer
from tank_node.peers.connection import PeerConnection
from tank_node.peers.identity import PeerIdentity
from tank_node.purpose import Purpose

C = TypeVar("C", bound=PeerConnection)


class _Slot(Generic[C]):
    """The connection to one broker for one purpose, or the time of the next attempt."""

    __slots__ = ("backoff_ms", "connection", "retry_ms")

    def __init__(self) -> None:
        self.connection: C | None = None
        """Open, or being opened."""
        self.retry_ms = 0
        """The broker is not dialed before this time."""
        self.backoff_ms = 0
        """The last pause between two attempts."""


class PeerConnections(Generic[C]):
    """The connections for one owner (the replicator or the forwarder), which says which are needed.

    Invariant: a slot's connection has not ended, so no broker has two connections for one purpose.
    """

    __slots__ = (
        "_broker", "_dialer", "_first_pause_ms", "_limits", "_link", "_make", "_slots", "_ticked_ms",
        "_to_fenced", "_wants", "stood_still",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        dialer: Dialer,
        make: Callable[[PeerIdentity], C],
        *,
        wants: Callable[[int, Purpose], bool],
        to_fenced: bool,
        first_pause_ms: int,
        dials_on_news: bool,
    ) -> None:
        """make: makes a connection object, which calls `ended` at its end. wants: whether the tick shall dial
        a broker for a purpose. to_fenced: whether connections to fenced brokers are made and kept.
        first_pause_ms: how long a broker isn't dialed again after a connection that was open has ended.
        dials_on_news: whether a change of brokers in the view ends all pauses."""
        self._broker = broker
        self._link = broker.link
        self._limits = broker.limits
        self._dialer = dialer
        self._make = make
        self._wants = wants
        self._to_fenced = to_fenced
        self._first_pause_ms = first_pause_ms
        self._slots: dict[tuple[int, Purpose], _Slot[C]] = {}
        self._ticked_ms = broker.tick.monotonic_ms
        self.stood_still = False
        """Whether this process stood still for a long time before the last tick, so that messages of other
        brokers may have arrived that it hasn't read yet."""
        if dials_on_news:
            self._link.on_brokers(self._on_brokers)

    def to(self, broker_id: int, purpose: Purpose) -> C | None:
        """Returns the connection that is open or being opened; None: there is none."""
        slot = self._slots.get((broker_id, purpose))
        return None if slot is None else slot.connection

    def all(self) -> list[C]:
        """The connections that are open or being opened."""
        return [slot.connection for slot in self._slots.values() if slot.connection is not None]

    # --- making them -----------------------------------------------------------------------------

    def dial(self, broker_id: int, purpose: Purpose) -> None:
        """Dials a broker, unless a connection is there, the next attempt isn't due yet, the broker is unknown
        or fenced, or this broker isn't registered yet."""
        key = broker_id, purpose
        slot = self._slots.get(key)
        if slot is None:
            slot = self._slots[key] = _Slot()
        link = self._link
        view = link.view
        broker = view.brokers.get(broker_id)
        if slot.connection is not None or self._now_ms() < slot.retry_ms or not link.broker_epoch:
            return
        if broker is None or (broker.fenced and not self._to_fenced):
            return
        identity = PeerIdentity(
            view.cluster_id,
            link.peer_key,
            view.broker_id,
            link.broker_epoch,
            broker_id,
            broker.epoch,
            purpose,
        )
        connection = self._make(identity)
        slot.connection = connection
        self._dialer.dial(broker.host, broker.port, connection)

    def reach(self, broker_id: int, purpose: Purpose) -> C | None:
        """Returns the connection to a broker, and makes a new one if there is none or a dead one; None: none
        can be made now."""
        connection = self.to(broker_id, purpose)
        if connection is not None and self._is_dead(connection):
            self._dialer.hang_up(connection)
        self.dial(broker_id, purpose)
        return self.to(broker_id, purpose)  # None, too, when the attempt failed at once

    def tick(self) -> None:
        """Dials the brokers that the owner wants, and hangs up connections that are dead or done. After the
        process stood still it hangs up none before it has read the messages that arrived meanwhile."""
        now_ms = self._now_ms()
        # Not twice in a row: between two ticks the sockets are read.
        self.stood_still = not self.stood_still and now_ms - self._ticked_ms >= self._limits.frozen_ms
        self._ticked_ms = now_ms
        for (broker_id, purpose), slot in list(self._slots.items()):
            connection = slot.connection
            if connection is None:
                if self._wants(broker_id, purpose):
                    self.dial(broker_id, purpose)
            elif not self.stood_still and (connection.is_done or self._is_dead(connection)):
                self._dialer.hang_up(connection)

    def _now_ms(self) -> int:
        return self._broker.tick.monotonic_ms

    def _is_dead(self, connection: C) -> bool:
        """Whether a connection can't be used any more: a later process has taken the place of one of its
        ends, the other broker is fenced, or it is silent."""
        identity = connection.identity
        broker = self._link.view.brokers.get(identity.peer)
        if broker is None or broker.epoch != identity.peer_epoch or (broker.fenced and not self._to_fenced):
            return True
        if identity.own_epoch != self._link.broker_epoch:
            return True
        now_ms = self._now_ms()
        if self.stood_still or now_ms - self._ticked_ms >= self._limits.frozen_ms:
            return False  # a message of the other broker may have arrived that is not read yet
        silence_ms = self._limits.peer_silence_ms
        if connection.is_open:
            return connection.is_silent(silence_ms)
        return now_ms - connection.dialed_ms >= silence_ms

    def _on_brokers(self) -> None:
        """Addresses, processes or fencing have changed: brokers may be dialed at once."""
        for slot in self._slots.values():
            if slot.connection is None:
                slot.retry_ms = 0

    # --- ending them -----------------------------------------------------------------------------

    def ended(self, connection: C) -> None:
        """A connection has ended, or never came to be: the broker may be dialed again after a pause, which
        grows with each attempt that fails."""
        identity = connection.identity
        slot = self._slots.get((identity.peer, identity.purpose))
        if slot is None or slot.connection is not connection:
            return
        slot.connection = None
        limits = self._limits
        if connection.was_open:
            slot.backoff_ms = self._first_pause_ms
        else:
            slot.backoff_ms = min(max(2 * slot.backoff_ms, limits.redial_ms), limits.redial_most_ms)
        slot.retry_ms = self._now_ms() + slot.backoff_ms

    def hang_up(self, connection: C) -> None:
        """Ends a connection, or an attempt. Harmless when it has ended."""
        self._dialer.hang_up(connection)

    def let_go(self, broker_id: int) -> None:
        """Ends the connections to a broker, and forgets the pauses between attempts."""
        for key in [key for key in self._slots if key[0] == broker_id]:
            connection = self._slots.pop(key).connection
            if connection is not None:
                self._dialer.hang_up(connection)

    def close(self) -> None:
        """Ends all connections, because this broker stops."""
        for broker_id in {broker_id for broker_id, _ in self._slots}:
            self.let_go(broker_id)
