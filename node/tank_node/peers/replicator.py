"""Replicates the partitions that this broker leads to its followers.

There is one connection to each following broker for live pushes, and a second while some partition there is
far behind and catches up; partitions move between the two. The time is that of the broker's tick.
"""

import logging
from collections.abc import Callable
from functools import partial

from tank_node.broker.broker import Broker
from tank_node.dialer import Dialer
from tank_node.limits import Limits
from tank_node.partition.leader import PartitionLeader, Pushers
from tank_node.partition.partition import Partition
from tank_node.peers.connections import PeerConnections
from tank_node.peers.failed_replicas import FailedReplicas
from tank_node.peers.identity import PeerIdentity
from tank_node.peers.in_sync_proposals import InSyncProposals
from tank_node.peers.outbound import PushSession
from tank_node.purpose import Purpose
from tank_node.replication.progress import Progress
from tank_node.replication.stream import ReplicationStream
from tank_protos.feature_levels import formats

logger = logging.getLogger(__name__)


class FollowingBroker:
    """A broker that follows partitions which this broker leads."""

    __slots__ = ("broker_id", "catch_up", "leaderships", "live", "waiting")

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.leaderships: dict[PartitionLeader, None] = {}
        self.live: PushSession | None = None
        self.catch_up: PushSession | None = None
        """The connections, while they are open."""
        self.waiting: dict[PartitionLeader, int] = {}
        """The partitions that will catch up when that connection is open, each behind this message number."""

    def forget(self, leadership: PartitionLeader) -> None:
        """Forgets a partition that the broker doesn't follow any more."""
        self.leaderships.pop(leadership, None)
        self.waiting.pop(leadership, None)


class Replicator(Pushers):
    """Makes the connections to followers, and puts each led partition on one connection to each of them."""

    __slots__ = (
        "_broker", "_checked_ms", "_connections", "_failed", "_followers", "_limits", "_link", "_proposals",
    )  # fmt: skip

    def __init__(self, broker: Broker, dialer: Dialer) -> None:
        self._broker = broker
        self._link = broker.link
        self._limits: Limits = broker.limits
        self._followers: dict[int, FollowingBroker] = {}
        self._proposals = InSyncProposals(broker)
        self._failed = FailedReplicas(broker)
        self._checked_ms = 0
        # A fenced follower gets pushes all the same, so that it has caught up when it is unfenced.
        self._connections = PeerConnections(
            broker,
            dialer,
            self._make,
            wants=self._wants,
            to_fenced=True,
            first_pause_ms=broker.limits.redial_ms,
            dials_on_news=True,
        )
        self._link.on_brokers(self._on_brokers)

    @property
    def are_needed(self) -> bool:
        return True

    @property
    def connected(self) -> dict[int, bool]:
        return {broker_id: follower.live is not None for broker_id, follower in self._followers.items()}

    # --- partitions ------------------------------------------------------------------------------

    def lead(self, leadership: PartitionLeader) -> None:
        for follower in self._followers.values():
            if follower.broker_id not in leadership.followers:
                follower.forget(leadership)
        for broker_id in leadership.followers:
            follower = self._followers.get(broker_id) or self._followers.setdefault(
                broker_id, FollowingBroker(broker_id)
            )
            if leadership in follower.leaderships:
                continue
            follower.leaderships[leadership] = None
            live = follower.live
            if live is None:
                self._connections.dial(broker_id, Purpose.LIVE)  # at once: producers wait for the follower
            else:
                leadership.enter(live.line, live.identity.peer_epoch)
        self._proposals.watch(leadership)

    def unlead(self, leadership: PartitionLeader) -> None:
        for follower in self._followers.values():
            follower.forget(leadership)
        self._proposals.forget(leadership)

    def watch(self, leadership: PartitionLeader) -> None:
        self._proposals.watch(leadership)

    def report(self, partition: Partition) -> None:
        self._failed.note(partition)

    # --- pushing ---------------------------------------------------------------------------------

    def push(self) -> None:
        for follower in self._followers.values():
            live = follower.live
            if live is not None and live.line.news:
                self._do(live, live.pump)
            catch_up = follower.catch_up
            if catch_up is not None and catch_up.line.news:
                self._do(catch_up, catch_up.pump)

    def _do(self, session: PushSession, step: Callable[[], None]) -> None:
        """Does one step for one follower. An exception ends its connection, and leaves the others alone."""
        try:
            step()
        except Exception:
            follower = session.identity.peer
            logger.exception("a bug of ours: the connection to broker %d is closed and made again", follower)
            self._connections.hang_up(session)

    def tick(self) -> None:
        now_ms = self._now_ms()
        self._connections.tick()
        if self._connections.stood_still:  # followers are heard before they are judged
            self._checked_ms = now_ms
        self._broker.followers.beliefs.tick(now_ms)
        version = formats(self._link.view.feature_level).push  # it may have risen
        for follower in list(self._followers.values()):
            if not follower.leaderships:
                self._connections.let_go(follower.broker_id)
                del self._followers[follower.broker_id]
                continue
            for session in (follower.live, follower.catch_up):
                if session is not None:
                    session.line.version = version
                    self._do(session, session.beat)
                    self._do(session, partial(self._move, follower, session))
        if now_ms - self._checked_ms >= self._limits.in_sync_check_ms:
            self._checked_ms = now_ms
            self._proposals.propose(now_ms)
            self._failed.report(now_ms)

    def close(self) -> None:
        self._connections.close()
        self._followers.clear()

    # --- connections -----------------------------------------------------------------------------

    def _wants(self, broker_id: int, purpose: Purpose) -> bool:
        """Whether a connection is needed. One for catching up is only made beside a live one."""
        follower = self._followers.get(broker_id)
        if follower is None:
            return False
        if purpose is Purpose.LIVE:
            return bool(follower.leaderships)
        return bool(follower.waiting) and follower.live is not None

    def _make(self, identity: PeerIdentity) -> PushSession:
        limits = self._limits
        stream = ReplicationStream(
            identity.peer,
            now_ms=self._now_ms(),
            window_bytes=limits.push_window_bytes,
            far_bytes=limits.catch_up_from_bytes,
            heartbeat_ms=limits.peer_heartbeat_ms,
            bytes_per_s=limits.catch_up_bytes_per_s if identity.purpose is Purpose.CATCH_UP else 0,
            short_pushes=limits.short_pushes,
            pushed_bytes=self._broker.metrics.pushed_bytes,
            version=formats(self._link.view.feature_level).push,
        )
        return PushSession(identity, stream, now_ms=self._now_ms, opened=self._opened, ended=self._ended)

    def _now_ms(self) -> int:
        return self._broker.tick.monotonic_ms

    def _opened(self, session: PushSession) -> None:
        """Puts the follower's partitions on a connection that has opened."""
        self._broker.lost_brokers.opened(session.identity.peer)
        follower = self._followers.get(session.identity.peer)
        if follower is None:
            return
        peer_epoch = session.identity.peer_epoch
        if session.identity.purpose is Purpose.LIVE:
            follower.live = session
            for leadership in follower.leaderships:
                leadership.enter(session.line, peer_epoch)
        else:
            follower.catch_up = session
            waiting, follower.waiting = follower.waiting, {}
            for leadership, sent in waiting.items():
                leadership.leave(follower.broker_id)
                leadership.enter(session.line, peer_epoch, sent)

    def _ended(self, session: PushSession) -> None:
        """Takes the partitions off a connection that has ended, or could not be made. When a live one ends,
        so does the one for catching up; when only the latter ends, its partitions begin again on the live
        one."""
        self._connections.ended(session)
        if session.was_open:
            self._broker.lost_brokers.ended(session.identity.peer)
        for place in list(session.line.places.values()):
            _leadership(place).leave(session.identity.peer)
        session.line.close()
        follower = self._followers.get(session.identity.peer)
        if follower is None:
            return
        if follower.live is session:
            follower.live = None
            follower.waiting.clear()
            catch_up = self._connections.to(follower.broker_id, Purpose.CATCH_UP)
            if catch_up is not None:
                self._connections.hang_up(catch_up)
        elif follower.catch_up is session:
            follower.catch_up = None
            live = follower.live
            if live is not None:
                for leadership in follower.leaderships:
                    if follower.broker_id not in leadership.places and leadership not in follower.waiting:
                        leadership.enter(live.line, live.identity.peer_epoch)

    def _move(self, follower: FollowingBroker, session: PushSession) -> None:
        """Moves partitions that are far behind, or have caught up, to the follower's other connection."""
        line = session.line
        if line.far_behind:
            catch_up = follower.catch_up
            for place in list(line.far_behind):
                leadership = _leadership(place)
                leadership.leave(follower.broker_id)
                if catch_up is not None:
                    leadership.enter(catch_up.line, catch_up.identity.peer_epoch, place.sent)
                else:
                    follower.waiting[leadership] = place.sent
            if catch_up is None:
                self._connections.dial(follower.broker_id, Purpose.CATCH_UP)
        if line.caught_up:
            live = follower.live
            for place in list(line.caught_up):
                leadership = _leadership(place)
                leadership.leave(follower.broker_id)
                if live is not None:
                    leadership.enter(live.line, live.identity.peer_epoch, place.matched)
            if live is not None:
                live.pump()

    def _on_brokers(self) -> None:
        """Checks in-sync sets again after brokers have changed: another replica may be able to join."""
        for follower in self._followers.values():
            for leadership in follower.leaderships:
                if not leadership.is_member(follower.broker_id):
                    self._proposals.watch(leadership)


def _leadership(place: Progress) -> PartitionLeader:
    assert isinstance(place.source, PartitionLeader)
    return place.source
