"""The connections of a node to its followers, and what is due by time: proposals of in-sync sets, reports.

One connection for live pushes to each follower, and one for catching up while some partition there is far
behind. Above the sessions: it makes theirs. All time comes from the broker's tick.
"""

import logging
from collections.abc import Callable
from functools import partial

from tank_node.broker.broker import Broker
from tank_node.cluster.link import ChangeOutcome, InSyncChange
from tank_node.dialer import Dialer
from tank_node.limits import Limits
from tank_node.partition.leader import Leadership, Pushers
from tank_node.partition.partition import Partition
from tank_node.peers.failed_replicas import FailedReplicas
from tank_node.peers.identity import PeerIdentity
from tank_node.peers.outbound import PushSession
from tank_node.replication.progress import Place
from tank_node.replication.stream import PushLine
from tank_protos.feature_levels import formats

logger = logging.getLogger(__name__)

LIVE = 0
CATCH_UP = 1


class Peer:
    """A broker that follows some partitions which are led here."""

    __slots__ = ("backoff_ms", "broker_id", "dialed_ms", "leaderships", "retry_ms", "sessions", "waiting")

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.leaderships: dict[Leadership, None] = {}
        self.sessions: list[PushSession | None] = [None, None]
        """By purpose; open, or being opened."""
        self.waiting: dict[Leadership, int] = {}
        """What is to catch up once the connection for it is open, and behind which number."""
        self.dialed_ms = [0, 0]
        self.retry_ms = [0, 0]
        """Not dialed before."""
        self.backoff_ms = [0, 0]


class Replicator(Pushers):
    """Brings what this node leads to its followers."""

    __slots__ = (
        "_asked", "_broker", "_checked_ms", "_dialer", "_failed", "_limits", "_link", "_metrics", "_peers",
        "_ticked_ms", "_was_frozen", "_watched",
    )  # fmt: skip

    def __init__(self, broker: Broker, dialer: Dialer) -> None:
        self._broker = broker
        self._link = broker.link
        self._dialer = dialer
        self._limits: Limits = broker.limits
        self._metrics = broker.metrics
        self._peers: dict[int, Peer] = {}
        self._watched: dict[Leadership, None] = {}
        self._asked: dict[Leadership, tuple[object, int, int]] = {}
        """What was proposed, when it was last sent, and how often."""
        self._failed = FailedReplicas(broker)
        self._checked_ms = 0
        self._ticked_ms = broker.tick.monotonic_ms
        self._was_frozen = False
        """This process stood still before this beat: what its followers said meanwhile is not read yet."""
        self._link.on_brokers(self._on_brokers)

    @property
    def are_needed(self) -> bool:
        return True

    @property
    def connected(self) -> dict[int, bool]:
        live = {broker_id: peer.sessions[LIVE] for broker_id, peer in self._peers.items()}
        return {broker_id: session is not None and session.is_open for broker_id, session in live.items()}

    # --- partitions ------------------------------------------------------------------------------

    def lead(self, leadership: Leadership) -> None:
        for peer in self._peers.values():
            if peer.broker_id not in leadership.followers:
                self._forget(peer, leadership)
        for broker_id in leadership.followers:
            peer = self._peers.get(broker_id) or self._peers.setdefault(broker_id, Peer(broker_id))
            if leadership in peer.leaderships:
                continue
            peer.leaderships[leadership] = None
            live = peer.sessions[LIVE]
            if live is None:
                self._dial(peer, LIVE, self._now_ms())  # until it is there nothing is acknowledged
            elif live.is_open:
                leadership.enter(live.line, live.identity.peer_epoch)
        self.watch(leadership)

    def unlead(self, leadership: Leadership) -> None:
        for peer in self._peers.values():
            self._forget(peer, leadership)
        self._watched.pop(leadership, None)
        self._asked.pop(leadership, None)

    def _forget(self, peer: Peer, leadership: Leadership) -> None:
        peer.leaderships.pop(leadership, None)
        peer.waiting.pop(leadership, None)

    def watch(self, leadership: Leadership) -> None:
        self._watched[leadership] = None

    def report(self, partition: Partition) -> None:
        self._failed.note(partition)

    # --- pushing ---------------------------------------------------------------------------------

    def push(self) -> None:
        for peer in self._peers.values():
            for session in peer.sessions:
                if session is not None and session.line.news:
                    self._do(session, session.pump)

    def _do(self, session: PushSession, step: Callable[[], None]) -> None:
        """One follower's turn: what goes wrong with it is not to hurt the others."""
        try:
            step()
        except Exception:
            follower = session.identity.peer
            logger.exception("the connection to broker %d is made anew, for a bug of ours", follower)
            self._dialer.hang_up(session)

    def tick(self) -> None:
        now_ms = self._broker.tick.monotonic_ms
        # Not twice in a row: between two beats the sockets are read.
        self._was_frozen = not self._was_frozen and now_ms - self._ticked_ms >= self._limits.frozen_ms
        self._ticked_ms = now_ms
        if self._was_frozen:
            self._checked_ms = now_ms
        self._broker.followers.beliefs.tick(now_ms)
        version = formats(self._link.view.feature_level).push  # it may have risen
        for peer in list(self._peers.values()):
            for purpose in (LIVE, CATCH_UP):
                session = peer.sessions[purpose]
                if session is None:
                    self._dial(peer, purpose, now_ms)
                elif self._is_dead(peer, session, now_ms):
                    self._dialer.hang_up(session)
                else:
                    session.line.version = version
                    self._do(session, session.beat)
                    self._do(session, partial(self._move, peer, session))
            if not peer.leaderships:
                self._let_go(peer)
        if now_ms - self._checked_ms >= self._limits.in_sync_check_ms:
            self._checked_ms = now_ms
            self._check_members(now_ms)
            self._failed.report(now_ms)

    def close(self) -> None:
        for peer in self._peers.values():
            for session in peer.sessions:
                if session is not None:
                    self._dialer.hang_up(session)
        self._peers.clear()

    # --- connections -----------------------------------------------------------------------------

    def _dial(self, peer: Peer, purpose: int, now_ms: int) -> None:
        """Makes the connection if it is wanted and due."""
        live = peer.sessions[LIVE]
        wanted = peer.leaderships if purpose == LIVE else peer.waiting and live is not None and live.is_open
        broker = self._link.view.brokers.get(peer.broker_id)
        if not wanted or broker is None or now_ms < peer.retry_ms[purpose] or not self._link.broker_epoch:
            return
        limits, view = self._limits, self._link.view
        line = PushLine(
            peer.broker_id,
            now_ms=now_ms,
            window_bytes=limits.push_window_bytes,
            far_bytes=limits.catch_up_from_bytes,
            heartbeat_ms=limits.peer_heartbeat_ms,
            bytes_per_s=limits.catch_up_bytes_per_s if purpose == CATCH_UP else 0,
            short_pushes=limits.short_pushes,
            pushed_bytes=self._metrics.pushed_bytes,
            version=formats(view.feature_level).push,
        )
        identity = PeerIdentity(
            view.cluster_id,
            self._link.peer_key,
            view.broker_id,
            self._link.broker_epoch,
            peer.broker_id,
            broker.epoch,
            purpose,
        )
        peer.dialed_ms[purpose] = now_ms
        session = PushSession(
            identity, line, now_ms=self._now_ms, opened=partial(self._opened, peer), ended=self._ended
        )
        peer.sessions[purpose] = session
        self._dialer.dial(broker.host, broker.port, session)

    def _now_ms(self) -> int:
        return self._broker.tick.monotonic_ms

    def _is_dead(self, peer: Peer, session: PushSession, now_ms: int) -> bool:
        """Whether a connection is to be ended: nobody answers, or it is of an earlier process."""
        identity = session.identity
        broker = self._link.view.brokers.get(peer.broker_id)
        if broker is None or broker.epoch > identity.peer_epoch or session.line.is_worn:
            return True
        if identity.own_epoch != self._link.broker_epoch or not peer.leaderships:
            return True
        if identity.purpose == CATCH_UP and session.is_open and not session.line.places:
            return True  # all have caught up
        if self._was_frozen:
            return False
        silence_ms = self._limits.peer_silence_ms
        if not session.is_open:
            return now_ms - peer.dialed_ms[identity.purpose] >= silence_ms
        since_ms = session.line.silent_since_ms()
        return since_ms is not None and now_ms - since_ms >= silence_ms

    def _opened(self, peer: Peer, session: PushSession) -> None:
        identity = session.identity
        peer.backoff_ms[identity.purpose] = 0
        if identity.purpose == LIVE:
            for leadership in peer.leaderships:
                leadership.enter(session.line, identity.peer_epoch)
        else:
            waiting, peer.waiting = peer.waiting, {}
            for leadership, sent in waiting.items():
                leadership.leave(peer.broker_id)
                leadership.enter(session.line, identity.peer_epoch, sent)

    def _ended(self, session: PushSession) -> None:
        """A connection has ended, or never came to be: it is dialed again, later and later."""
        identity = session.identity
        peer = self._peers.get(identity.peer)
        for leadership in [place.source for place in session.line.places.values()]:
            assert isinstance(leadership, Leadership)
            leadership.leave(identity.peer)
        session.line.close()
        if peer is None or peer.sessions[identity.purpose] is not session:
            return
        peer.sessions[identity.purpose] = None
        limits = self._limits
        backoff_ms = min(max(2 * peer.backoff_ms[identity.purpose], limits.redial_ms), limits.redial_most_ms)
        peer.backoff_ms[identity.purpose] = backoff_ms
        peer.retry_ms[identity.purpose] = self._now_ms() + backoff_ms
        if identity.purpose == LIVE:
            peer.waiting.clear()
            catch_up = peer.sessions[CATCH_UP]
            if catch_up is not None:
                self._dialer.hang_up(catch_up)
        else:
            live = peer.sessions[LIVE]
            if live is not None and live.is_open:  # what was catching up begins anew
                for leadership in peer.leaderships:
                    if peer.broker_id not in leadership.places and leadership not in peer.waiting:
                        leadership.enter(live.line, live.identity.peer_epoch)

    def _move(self, peer: Peer, session: PushSession) -> None:
        """Takes partitions over to the other connection."""
        line = session.line
        if line.far_behind:
            for place in list(line.far_behind):
                leadership = _leadership(place)
                leadership.leave(peer.broker_id)
                catch_up = peer.sessions[CATCH_UP]
                if catch_up is not None and catch_up.is_open:
                    leadership.enter(catch_up.line, catch_up.identity.peer_epoch, place.sent)
                else:
                    peer.waiting[leadership] = place.sent
        if line.caught_up:
            live = peer.sessions[LIVE]
            for place in list(line.caught_up):
                leadership = _leadership(place)
                leadership.leave(peer.broker_id)
                if live is not None and live.is_open:
                    leadership.enter(live.line, live.identity.peer_epoch, place.matched)
            if live is not None:
                live.pump()

    def _let_go(self, peer: Peer) -> None:
        """It follows nothing here any more."""
        for session in peer.sessions:
            if session is not None:
                self._dialer.hang_up(session)
        if peer.sessions == [None, None]:
            del self._peers[peer.broker_id]

    def _on_brokers(self) -> None:
        """Addresses, processes or fencing have changed: dial at once, and who may join may be another."""
        for peer in self._peers.values():
            broker = self._link.view.brokers.get(peer.broker_id)
            for purpose in (LIVE, CATCH_UP):
                session = peer.sessions[purpose]
                if session is None or (broker and broker.epoch > session.identity.peer_epoch):
                    peer.retry_ms[purpose] = 0
            for leadership in peer.leaderships:
                if not leadership.is_member(peer.broker_id):
                    self.watch(leadership)

    # --- in-sync sets ----------------------------------------------------------------------------

    def _check_members(self, now_ms: int) -> None:
        """Proposes who is to join and to leave, all in one command."""
        changes: list[InSyncChange] = []
        asked: list[tuple[Leadership, int]] = []
        for leadership in list(self._watched):
            try:
                change = self._change(leadership, now_ms)
            except Exception:
                name = leadership.partition.topic_name
                logger.exception("%s/%d: its in-sync set stays, for a bug of ours", name, leadership.number)
                del self._watched[leadership]
                continue
            if change is not None:
                changes.append(change)
                asked.append((leadership, self._asked[leadership][2]))
            elif leadership.is_quiet:
                del self._watched[leadership]
        most = self._limits.changes_per_proposal
        for at in range(0, len(changes), most):
            part = changes[at : at + most]
            self._link.propose_in_sync(part, partial(self._judged, part, asked[at : at + most]))

    def _change(self, leadership: Leadership, now_ms: int) -> InSyncChange | None:
        in_sync = leadership.in_sync
        limits = self._limits
        proposal = in_sync.proposed
        times = 1
        if proposal is None:
            proposal = in_sync.propose(
                now_ms, limits.replica_lag_ms, self._link.broker_epoch, self._epoch_of, self._may_join
            )
            if proposal is None:
                return None
            leadership.count_members()
        else:
            before, sent_ms, times = self._asked[leadership]
            if before is proposal and now_ms - sent_ms < limits.propose_again_ms:
                return None
            times = times + 1 if before is proposal else 1
        self._asked[leadership] = proposal, now_ms, times
        return InSyncChange(
            leadership.topic_id,
            leadership.number,
            leadership.leader_epoch,
            in_sync.partition_epoch,
            proposal,
        )

    def _judged(
        self, changes: list[InSyncChange], asked: list[tuple[Leadership, int]], outcome: ChangeOutcome
    ) -> None:
        """The controller has said what it did. That something was taken, the view shows; that it was refused,
        only the answer to the last one of its kind: an earlier one may be under way."""
        for change, (leadership, times), result in zip(changes, asked, outcome.results, strict=False):
            last = self._asked.get(leadership)
            if result and last is not None and last[2] == times and last[0] is change.in_sync:
                logger.info(
                    "the in-sync set %s of %s/%d was refused: %s",
                    [broker_id for broker_id, _ in change.in_sync],
                    leadership.partition.topic_name,
                    leadership.number,
                    result.name,
                )
                self._metrics.in_sync_refusals[result.name.lower()] += 1
                leadership.in_sync.refused(change.partition_epoch)
                leadership.count_members()
                self.watch(leadership)

    def _epoch_of(self, broker_id: int) -> int:
        broker = self._link.view.brokers.get(broker_id)
        return 0 if broker is None else broker.epoch

    def _may_join(self, broker_id: int) -> bool:
        broker = self._link.view.brokers.get(broker_id)
        return broker is not None and not (broker.fenced or broker.draining or broker.shutting_down)


def _leadership(place: Place) -> Leadership:
    assert isinstance(place.source, Leadership)
    return place.source
