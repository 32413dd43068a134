"""The leader's bookkeeping of one partition's in-sync replicas. Pure.

Inputs are the leader's appends, the followers' answers and the cluster's view; outputs are the high-water
mark, and the in-sync set to propose. Only the view changes the set. See docs/architecture.md.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

LAG_STEPS = 16
"""Appends within one LAG_STEPS-th of the longest lag share an entry, which bounds their number."""


@dataclass(slots=True)
class Replica:
    """A follower as its leader knows it."""

    broker_id: int
    broker_epoch: int = 0
    """The epoch of the process behind its last connection; 0: there was none."""
    connected: bool = False
    answered: bool = False
    """Whether it took a stretch on the open connection, without an error since."""
    matched: int = 0
    """The number up to which its log equals the leader's, by its answers on the open connection; 0 without
    one."""
    synced: int = 0
    """The number up to which the matched messages are on its disk; never above `matched`."""
    log_start: int = 0
    """The log start that it has, by its answers on the open connection; 0 without one."""
    reached: int = 0
    """The greatest number that it matched (flush=disk: synced) in this epoch, on any connection. Only its lag
    is measured by it."""


@dataclass(slots=True)
class InSync:
    """The in-sync replicas of one partition, in one leader epoch.

    Invariant: `mark` never falls. When it passes a number, every member of the in-sync set and of the
    proposed set has matched (flush=disk: synced) that number.
    """

    broker_id: int
    """The leader's own id."""
    start_end: int
    """The end of the leader's log when its epoch began."""
    mark: int
    flush_disk: bool = True
    min_in_sync: int = 1
    partition_epoch: int = -1
    members: tuple[int, ...] = ()
    """The in-sync set of the view."""
    proposed: tuple[tuple[int, int], ...] | None = None
    """A proposed set, as (broker id, broker epoch), whose outcome the view has not shown yet; None: there is
    none."""
    written: int = 0
    """The end of the leader's own log."""
    synced: int = 0
    replicas: dict[int, Replica] = field(default_factory=dict)
    """The followers, members or not, by broker id."""
    appends: deque[tuple[int, int]] = field(default_factory=deque)
    """(time, the log's end then) of recent appends, rising; see LAG_STEPS."""

    # --- what happens ----------------------------------------------------------------------------

    def view(
        self, partition_epoch: int, members: tuple[int, ...], replicas: Iterable[int], min_in_sync: int
    ) -> None:
        """Takes over the cluster's view. A higher partition epoch ends a proposal: it was accepted, or is
        outdated."""
        self.min_in_sync = min_in_sync
        if partition_epoch > self.partition_epoch:
            self.partition_epoch = partition_epoch
            self.members = members
            self.proposed = None
        wanted = [broker_id for broker_id in replicas if broker_id != self.broker_id]
        self.replicas = {
            broker_id: self.replicas.get(broker_id) or Replica(broker_id) for broker_id in wanted
        }

    def refused(self, partition_epoch: int) -> None:
        """Drops the proposal made for this partition epoch: the controller refused it, so it never takes
        effect."""
        if partition_epoch == self.partition_epoch:
            self.proposed = None

    def appended(self, now_ms: int, end: int, lag_ms: int) -> None:
        """Notes that the leader's log ends at `end` now. lag_ms: how long a member may lag."""
        self.written = end
        appends = self.appends
        piece_ms = max(lag_ms // LAG_STEPS, 1)
        if appends and now_ms - appends[-1][0] < piece_ms and len(appends) > 1:
            appends[-1] = (appends[-1][0], end)
        else:
            appends.append((now_ms, end))
        while len(appends) > 2 * LAG_STEPS:
            # Older than the longest lag: a follower that lacks it lags too far by the next entry as well.
            appends.popleft()

    def connected(self, broker_id: int, broker_epoch: int) -> None:
        """Notes that a connection to a follower carries this partition from now on."""
        if (replica := self.replicas.get(broker_id)) is not None:
            replica.broker_epoch = broker_epoch
            replica.connected = True
            replica.log_start = 0
            self.unmatched(broker_id)

    def disconnected(self, broker_id: int) -> None:
        """Notes that no connection to the follower carries this partition: what it matched counts no more."""
        if (replica := self.replicas.get(broker_id)) is not None:
            replica.connected = False
            self.unmatched(broker_id)

    def matched(self, broker_id: int, matched: int, synced: int) -> None:
        """Notes a follower's answer without an error, on the connection that carried the stretch."""
        replica = self.replicas.get(broker_id)
        if replica is None or not replica.connected:
            return
        replica.answered = True
        replica.matched = max(replica.matched, matched)
        replica.synced = max(replica.synced, min(synced, replica.matched))
        replica.reached = max(replica.reached, self._counted(replica))

    def has_start(self, broker_id: int, log_start: int) -> None:
        """Notes that a follower has this log start."""
        if (replica := self.replicas.get(broker_id)) is not None:
            replica.log_start = log_start

    def unmatched(self, broker_id: int) -> None:
        """Notes a follower's answer with an error: what it matched before counts no more."""
        if (replica := self.replicas.get(broker_id)) is not None:
            replica.answered = False
            replica.matched = replica.synced = 0

    # --- what follows from it ----------------------------------------------------------------------

    def advance(self) -> int:
        """Moves the high-water mark as far as all members and proposed members allow, and returns it."""
        if self.size < self.min_in_sync:
            return self.mark
        reached = self.synced if self.flush_disk else self.written
        for broker_id in self.members:
            reached = min(reached, self._count_of(broker_id))
        for broker_id, _ in self.proposed or ():
            reached = min(reached, self._count_of(broker_id))
        if reached > self.mark:
            self.mark = reached
        return self.mark

    def lowest_start(self, own: int) -> int:
        """The lowest log start of the members and proposed members. own: the leader's."""
        lowest = own
        for broker_id in (*self.members, *dict(self.proposed or ())):
            if broker_id != self.broker_id:
                replica = self.replicas.get(broker_id)
                lowest = min(lowest, 0 if replica is None else replica.log_start)
        return lowest

    def counts_on(self, broker_id: int) -> bool:
        """Whether a follower may be in the in-sync set because of what it matched in this epoch: it is a
        member, or is in a proposal without an outcome."""
        replica = self.replicas.get(broker_id)
        if replica is None or not replica.reached:
            return False
        return broker_id in self.members or broker_id in dict(self.proposed or ())

    @property
    def size(self) -> int:
        """Number of in-sync replicas; during a proposal the size of the smaller set."""
        size = len(self.members)
        return size if self.proposed is None else min(size, len(self.proposed))

    def _counted(self, replica: Replica) -> int:
        return replica.synced if self.flush_disk else replica.matched

    def _count_of(self, broker_id: int) -> int:
        if broker_id == self.broker_id:
            return self.synced if self.flush_disk else self.written
        replica = self.replicas.get(broker_id)
        return 0 if replica is None else self._counted(replica)

    def lag_ms(self, replica: Replica, now_ms: int) -> int:
        """The age of the oldest append that a follower has not matched (flush=disk: synced); 0: there is
        none."""
        reached = max(replica.reached, self._counted(replica))
        for when_ms, end in self.appends:
            if end > reached:
                return now_ms - when_ms
        return 0

    def has_all(self, replica: Replica) -> bool:
        """Whether a follower has matched (flush=disk: synced) the whole log."""
        return self._counted(replica) >= self.written

    def has_caught_up(self, replica: Replica) -> bool:
        """Whether a follower has matched enough to become a member."""
        return replica.answered and self._counted(replica) >= max(self.mark, self.start_end)

    def propose(
        self,
        now_ms: int,
        lag_ms: int,
        own_epoch: int,
        epoch_of: Callable[[int], int],
        may_join: Callable[[int], bool],
    ) -> tuple[tuple[int, int], ...] | None:
        """Returns the in-sync set to propose, and counts it beside the present set from now on. None: the
        present set is right, or a proposal is under way.

        epoch_of: a broker's epoch in the view, for members without a connection in this epoch. may_join:
        whether the controller would accept this broker (it is neither leaving nor fenced).
        """
        if self.proposed is not None or self.broker_id not in self.members:
            return None
        wanted = [(self.broker_id, own_epoch)]
        for broker_id, replica in self.replicas.items():
            # A follower that joins must not lag either: with too few in sync the mark stands still, and a
            # follower that lags can reach it.
            stays = self.lag_ms(replica, now_ms) <= lag_ms
            if broker_id not in self.members:
                stays = stays and self.has_caught_up(replica) and may_join(broker_id)
            if stays:
                wanted.append((broker_id, replica.broker_epoch or epoch_of(broker_id)))
        # `replicas` lacks members that are replicas no more: so they leave the set too.
        if {broker_id for broker_id, _ in wanted} == set(self.members):
            return None
        self.proposed = tuple(wanted)
        return self.proposed
