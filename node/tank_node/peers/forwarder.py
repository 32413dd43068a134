"""Forwards requests of this broker's clients to the brokers that lead the requests' partitions.

There is one connection to each such broker, made when a request needs it. The time is that of the broker's
tick.
"""

from tank_node.broker.broker import Broker
from tank_node.broker.forwarding import Forwarded, Forwarding, ForwardingPolicy
from tank_node.dialer import Dialer
from tank_node.peers.connections import PeerConnections
from tank_node.peers.forward_session import NOT_SENT, ForwardSession
from tank_node.peers.identity import PeerIdentity
from tank_node.purpose import Purpose
from tank_node.session import Session


class Forwarder(Forwarding):
    """Chooses the connection for each request, bounds the requests under way, and fails those that take too
    long."""

    def __init__(self, broker: Broker, dialer: Dialer, policy: ForwardingPolicy) -> None:
        super().__init__(policy)
        self._broker = broker
        self._limits = broker.limits
        self._expired_ms = 0
        # A fenced broker leads nothing, so it is not dialed. There is no first pause, because a request that
        # comes after a connection has ended shall not wait.
        self._connections = PeerConnections(
            broker,
            dialer,
            self._make,
            wants=_at_a_request,
            to_fenced=False,
            first_pause_ms=0,
            dials_on_news=False,
        )

    def send(self, leader: int, request: Forwarded, sender: Session) -> bool:
        limits = self._limits
        metrics = self._broker.metrics
        session = self._connections.reach(leader, Purpose.REQUESTS)
        if session is None:
            metrics.forwarded[request.message_id, NOT_SENT] += 1
            return False
        if (
            session.pending >= limits.forwarded_requests
            or self.pending_bytes + request.size_bytes > limits.forwarded_most_bytes
        ):
            metrics.refused["forwarding_full"] += 1
            metrics.forwarded[request.message_id, NOT_SENT] += 1
            return False
        session.forward(request, sender)
        return True

    @property
    def pending_bytes(self) -> int:
        """The size of all requests without an answer."""
        return sum(session.pending_bytes for session in self._connections.all())

    def _make(self, identity: PeerIdentity) -> ForwardSession:
        broker = self._broker
        return ForwardSession(
            identity, self._limits, broker.metrics, now_ms=self._now_ms, ended=self._connections.ended
        )

    def _now_ms(self) -> int:
        return self._broker.tick.monotonic_ms

    def tick(self) -> None:
        self._connections.tick()
        now_ms = self._now_ms()
        if self._connections.stood_still or now_ms - self._expired_ms < self._limits.housekeeping_ms:
            return  # answers that came in time may not be read yet
        self._expired_ms = now_ms
        for session in self._connections.all():
            session.expire()


def _at_a_request(broker_id: int, purpose: Purpose) -> bool:
    """False always: a request makes a connection, the tick never does."""
    return False
