"""A cluster node's connections to the brokers that it forwards requests to: one to each, made when needed.

Above the sessions: it makes theirs. All time comes from the broker's tick.
"""

from tank_node.broker.broker import Broker
from tank_node.broker.forwarding import PURPOSE, Forwarded, Forwarding, ForwardingPolicy
from tank_node.dialer import Dialer
from tank_node.peers.forward_session import NOT_SENT, ForwardSession
from tank_node.peers.identity import PeerIdentity
from tank_node.session import Session


class Line:
    """What there is to one broker."""

    __slots__ = ("backoff_ms", "retry_ms", "session")

    def __init__(self) -> None:
        self.session: ForwardSession | None = None
        """Open, or being opened."""
        self.retry_ms = 0
        """Not dialed before."""
        self.backoff_ms = 0


class Forwarder(Forwarding):
    """Brings requests to the brokers that lead."""

    def __init__(self, broker: Broker, dialer: Dialer, policy: ForwardingPolicy) -> None:
        super().__init__(policy)
        self._broker = broker
        self._dialer = dialer
        self._limits = broker.limits
        self._lines: dict[int, Line] = {}
        self._expired_ms = 0
        self._ticked_ms = broker.tick.monotonic_ms
        self._was_frozen = False
        """This process stood still before this beat: what leaders said meanwhile is not read yet."""

    def send(self, leader: int, request: Forwarded, sender: Session) -> bool:
        limits = self._limits
        metrics = self._broker.metrics
        session = self._session_to(leader)
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
        """Of all requests that are not answered."""
        return sum(line.session.pending_bytes for line in self._lines.values() if line.session is not None)

    def _session_to(self, leader: int) -> ForwardSession | None:
        """The connection to this broker, perhaps a new one; None: there can't be one now."""
        link = self._broker.link
        view = link.view
        broker = view.brokers.get(leader)
        line = self._lines.setdefault(leader, Line())
        if line.session is not None and not self._is_dead(line.session):
            return line.session
        if line.session is not None:
            self._dialer.hang_up(line.session)
        now_ms = self._now_ms()
        if broker is None or broker.fenced or not link.broker_epoch or now_ms < line.retry_ms:
            return None
        identity = PeerIdentity(
            view.cluster_id,
            link.peer_key,
            view.broker_id,
            link.broker_epoch,
            leader,
            broker.epoch,
            PURPOSE,
        )
        metrics = self._broker.metrics
        session = ForwardSession(identity, self._limits, metrics, now_ms=self._now_ms, ended=self._ended)
        line.session = session
        self._dialer.dial(broker.host, broker.port, session)
        return line.session  # None: it could not even be tried

    def _now_ms(self) -> int:
        return self._broker.tick.monotonic_ms

    def _is_dead(self, session: ForwardSession) -> bool:
        """Whether a connection is to be ended: its process is gone or leads nothing, this node has
        registered anew, or nobody is there."""
        identity = session.identity
        broker = self._broker.link.view.brokers.get(identity.peer)
        if broker is None or broker.fenced or broker.epoch != identity.peer_epoch:
            return True
        if identity.own_epoch != self._broker.link.broker_epoch:
            return True
        now_ms = self._now_ms()
        if not session.is_open:
            return now_ms - session.dialed_ms >= self._limits.peer_silence_ms
        if session.silent_ms >= self._limits.peer_silence_ms:
            return True  # who was held back for it would wait in vain
        return now_ms - session.heard_ms >= self._limits.forwarded_silence_ms

    def _ended(self, session: ForwardSession) -> None:
        """A connection has ended, or never came to be. The next request dials again, but not at once when
        nobody answered."""
        line = self._lines[session.identity.peer]
        if line.session is not session:
            return
        line.session = None
        limits = self._limits
        if session.was_open:
            line.backoff_ms = 0
        else:
            line.backoff_ms = min(max(2 * line.backoff_ms, limits.redial_ms), limits.redial_most_ms)
        line.retry_ms = self._now_ms() + line.backoff_ms

    def tick(self) -> None:
        now_ms = self._now_ms()
        # Not twice in a row: between two beats the sockets are read.
        self._was_frozen = not self._was_frozen and now_ms - self._ticked_ms >= self._limits.frozen_ms
        self._ticked_ms = now_ms
        if self._was_frozen:
            return
        for line in list(self._lines.values()):
            session = line.session
            if session is None:
                continue
            is_idle = not session.pending and now_ms - session.used_ms >= self._limits.forwarded_idle_ms
            if is_idle or self._is_dead(session):
                self._dialer.hang_up(session)
            elif now_ms - self._expired_ms >= self._limits.housekeeping_ms:
                session.expire()
        if now_ms - self._expired_ms >= self._limits.housekeeping_ms:
            self._expired_ms = now_ms
