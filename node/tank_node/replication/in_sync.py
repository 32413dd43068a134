"""Who is in sync with the leader of one partition, and how far all of them have come. Pure.

The leader is told what its followers match and when it appended something; it asks for the high-water mark
and for the in-sync set to propose. The cluster's view alone changes the set. See section 5 of the design.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

LAG_STEPS = 16
"""Appends are remembered by pieces of this part of the longest lag: so many bound what is remembered."""


@dataclass(slots=True)
class Replica:
    """A follower as its leader knows it."""

    broker_id: int
    broker_epoch: int = 0
    """As its last peer connection gave it; 0: there was none."""
    connected: bool = False
    answered: bool = False
    """It took something on the open connection, and no error came since."""
    matched: int = 0
    """Up to here it has what the leader has: by what its open connection carried. 0 without one."""
    synced: int = 0
    """How much of that is on its disk; never above `matched`."""
    reached: int = 0
    """The greatest number that counted while this epoch lasted, for its lag alone: it survives a
    connection."""


@dataclass(slots=True)
class InSync:
    """The leader's knowledge, for one leader epoch.

    Invariant: `mark` never falls, and each number at or below it is matched (flush=disk: synced) by every
    member of the in-sync set, and by every member that is proposed, of the time when the mark passed it.
    """

    broker_id: int
    """The leader's own."""
    start_end: int
    """The end of its log when its epoch began."""
    mark: int
    flush_disk: bool = True
    min_in_sync: int = 1
    partition_epoch: int = -1
    members: tuple[int, ...] = ()
    """As the view has them."""
    proposed: tuple[tuple[int, int], ...] | None = None
    """(broker id, broker epoch) of what was proposed and whose outcome the view has not shown."""
    written: int = 0
    """The end of the leader's own log."""
    synced: int = 0
    replicas: dict[int, Replica] = field(default_factory=dict)
    """The followers, members or not, by broker id."""
    _appends: deque[tuple[int, int]] = field(default_factory=deque)
    """(when, the log's end then) of what was appended, rising; pieces of time share an entry."""

    # --- what happens ----------------------------------------------------------------------------

    def view(
        self, partition_epoch: int, members: tuple[int, ...], replicas: Iterable[int], min_in_sync: int
    ) -> None:
        """What the cluster's view says now. A higher partition epoch is the outcome of any proposal: either
        it was taken, or what it was made for is no more."""
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
        """The controller has judged the proposal that was made for this partition epoch, and refused it: it
        is in no log, and never will be."""
        if partition_epoch == self.partition_epoch:
            self.proposed = None

    def appended(self, now_ms: int, end: int, lag_ms: int) -> None:
        """The leader's log ends there now. lag_ms: how long a member may lag."""
        self.written = end
        appends = self._appends
        piece_ms = max(lag_ms // LAG_STEPS, 1)
        if appends and now_ms - appends[-1][0] < piece_ms and len(appends) > 1:
            appends[-1] = (appends[-1][0], end)
        else:
            appends.append((now_ms, end))
        while len(appends) > 2 * LAG_STEPS:
            # So old that whoever lacks it lags too far anyway: the later of the two says when.
            appends.popleft()

    def connected(self, broker_id: int, broker_epoch: int) -> None:
        """A peer connection to a follower carries this partition from now on."""
        if (replica := self.replicas.get(broker_id)) is not None:
            replica.broker_epoch = broker_epoch
            replica.connected = True
            self.unmatched(broker_id)

    def disconnected(self, broker_id: int) -> None:
        """It does so no more: what it matched counts no more."""
        if (replica := self.replicas.get(broker_id)) is not None:
            replica.connected = False
            self.unmatched(broker_id)

    def matched(self, broker_id: int, matched: int, synced: int) -> None:
        """A follower answered without an error, on the connection that carried the stretch."""
        replica = self.replicas.get(broker_id)
        if replica is None or not replica.connected:
            return
        replica.answered = True
        replica.matched = max(replica.matched, matched)
        replica.synced = max(replica.synced, min(synced, replica.matched))
        replica.reached = max(replica.reached, self._counted(replica))

    def unmatched(self, broker_id: int) -> None:
        """A follower answered with an error: what it said before counts no more."""
        if (replica := self.replicas.get(broker_id)) is not None:
            replica.answered = False
            replica.matched = replica.synced = 0

    # --- what follows from it ----------------------------------------------------------------------

    def advance(self) -> int:
        """Moves the high-water mark as far as it goes, and returns it."""
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

    def counts_on(self, broker_id: int) -> bool:
        """Whether what a follower has matched in this epoch may be what it was made a member for: it is in
        sync, or it is proposed and nobody knows yet what came of that."""
        replica = self.replicas.get(broker_id)
        if replica is None or not replica.reached:
            return False
        return broker_id in self.members or broker_id in dict(self.proposed or ())

    @property
    def size(self) -> int:
        """How many are in sync: while a proposal is under way, the smaller of both sets counts."""
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
        """The age of the oldest stretch that a follower has not matched (flush=disk: synced); 0: none is."""
        reached = max(replica.reached, self._counted(replica))
        for when_ms, end in self._appends:
            if end > reached:
                return now_ms - when_ms
        return 0

    def has_all(self, replica: Replica) -> bool:
        """Whether a follower lacks nothing."""
        return self._counted(replica) >= self.written

    def has_caught_up(self, replica: Replica) -> bool:
        """Whether a follower may become a member."""
        return replica.answered and self._counted(replica) >= max(self.mark, self.start_end)

    def propose(
        self,
        now_ms: int,
        lag_ms: int,
        own_epoch: int,
        epoch_of: Callable[[int], int],
        may_join: Callable[[int], bool],
    ) -> tuple[tuple[int, int], ...] | None:
        """The in-sync set to propose now, which counts from now on beside the present one; None: the present
        one is right, or a proposal is under way.

        epoch_of: the broker epoch by the view, for members without a connection in this epoch. may_join:
        whether the controller would take this one (it stays, and is not fenced).
        """
        if self.proposed is not None or self.broker_id not in self.members:
            return None
        wanted = [(self.broker_id, own_epoch)]
        for broker_id, replica in self.replicas.items():
            # Who joins must be such as stays: a mark that is held, with too few in sync, is easily reached.
            stays = self.lag_ms(replica, now_ms) <= lag_ms
            if broker_id not in self.members:
                stays = stays and self.has_caught_up(replica) and may_join(broker_id)
            if stays:
                wanted.append((broker_id, replica.broker_epoch or epoch_of(broker_id)))
        # A member that is no replica any more goes too.
        if {broker_id for broker_id, _ in wanted} == set(self.members):
            return None
        self.proposed = tuple(wanted)
        return self.proposed
