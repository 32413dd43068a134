"""The leader's part of one partition with followers: its in-sync replicas, its pushes, its high-water mark.

It connects the partition with the pure rules (`replication.in_sync`, `replication.stream`);
`peers.replicator` owns the connections.
"""

from tank_node.cluster.view import PartitionView
from tank_node.log.epoch_history import History
from tank_node.log.pushing import Piece, PushReader
from tank_node.partition.partition import Partition
from tank_node.replication.in_sync import InSync
from tank_node.replication.progress import Progress
from tank_node.replication.role import LeaderRole
from tank_node.replication.stream import STRETCH_BYTES, ReplicationStream
from tank_node.segment.errors import LogDamaged, StorageError
from tank_node.segment.scrub import ScrubPlace, scrub
from tank_protos.error_codes import PushError


class Pushers:
    """The pushes of a node to its followers, as an interface. `peers.Replicator` implements it; this base
    class does nothing, for a node without a cluster."""

    __slots__ = ()

    @property
    def are_needed(self) -> bool:
        """Whether there is a cluster around this node."""
        return False

    def lead(self, leadership: "PartitionLeader") -> None:
        """Begins to push a partition to its followers, or takes over that they have changed. Watches it, too,
        see `watch`."""

    def unlead(self, leadership: "PartitionLeader") -> None:
        """Stops pushing a partition."""

    def watch(self, leadership: "PartitionLeader") -> None:
        """Marks a partition whose in-sync set may have to change, for the next check."""

    def report(self, partition: Partition) -> None:
        """Reports a failed replica to the controllers, until the view shows that they know."""

    def push(self) -> None:
        """Sends what is new, at the end of a tick."""

    def tick(self) -> None:
        """Does the work that is due by time. Call it some 20 times a second, after the broker's
        `begin_tick`."""

    def close(self) -> None:
        """Ends all connections, when the node stops."""

    @property
    def connected(self) -> dict[int, bool]:
        """Whether the live connection to a follower is open, by broker id."""
        return {}


class PartitionLeader(LeaderRole):
    """The leader's part of one partition, in one leader epoch.

    Invariant: a follower is in `places` while an open connection carries this partition to it.
    """

    __slots__ = (
        "_first_batch", "_lag_ms", "_pushers", "_reader", "_start", "_takes_one_more", "followers", "in_sync",
        "leader_epoch", "number", "partition", "places", "topic_id", "topic_name",
    )  # fmt: skip

    def __init__(
        self,
        partition: Partition,
        topic_id: int,
        leader_epoch: int,
        broker_id: int,
        *,
        pushers: Pushers,
        lag_ms: int,
    ) -> None:
        log = partition.log
        self.partition = partition
        self.places: dict[int, tuple[ReplicationStream, Progress]] = {}
        """The connection of each follower, and the partition's progress on it, by broker id."""
        self.followers: tuple[int, ...] = ()
        self.topic_id = topic_id
        self.topic_name = partition.topic_name.encode("utf-8", "surrogateescape")
        self.number = partition.number
        self.leader_epoch = leader_epoch
        self._pushers = pushers
        self._lag_ms = lag_ms
        self._reader = PushReader(log)
        self._start = self._first_batch = 0
        """The log start, and where its batch begins, when both were last looked up."""
        self._takes_one_more = False
        """Whether one append is taken even with too few replicas in sync: see `count_members`."""
        self.in_sync = InSync(broker_id, log.tail.written, partition.high_water_mark, partition.flush_disk)
        self.in_sync.synced = log.synced
        self.in_sync.appended(partition.tick.monotonic_ms, log.tail.written, lag_ms)

    # --- as its pushes see it ----------------------------------------------------------------------

    @property
    def log_end(self) -> int:
        return self.partition.log.tail.written

    @property
    def mark(self) -> int:
        return self.partition.high_water_mark

    @property
    def log_start(self) -> int:
        log = self.partition.log
        return log.first_available or log.tail.written + 1

    def ends(self) -> tuple[int, int, int, int]:
        log = self.partition.log
        first = self.log_start
        if first != self._start:
            self._start, self._first_batch = first, log.first_batch or first
        return self._first_batch, first, log.tail.written, self.partition.high_water_mark

    @property
    def history(self) -> History:
        return self.partition.log.segments.epochs

    def read(self, start: int, max_bytes: int) -> Piece | None:
        try:
            return self._reader.read(start, max_bytes)
        except StorageError as error:
            self.partition.note_error(error)
            raise

    def producers_before(self, number: int) -> bytes:
        try:
            return self.partition.log.producers_before(number)
        except StorageError as error:
            self.partition.note_error(error)
            raise

    def bytes_behind(self, number: int) -> int:
        try:
            return self._reader.bytes_behind(number)
        except StorageError as error:  # only an estimate: the next read of a stretch reports the disk again
            self.partition.note_error(error)
            return 0

    def is_member(self, follower: int) -> bool:
        return follower in self.in_sync.members

    def counts_on(self, follower: int) -> bool:
        return self.in_sync.counts_on(follower)

    def matched(self, follower: int, matched: int, synced: int) -> None:
        self.in_sync.matched(follower, matched, synced)
        if follower not in self.in_sync.members:
            self._pushers.watch(self)
        self._advance_and_answer()  # a proposed follower counts too

    def has_start(self, follower: int, log_start: int) -> None:
        self.in_sync.has_start(follower, log_start)
        self.partition.start.is_safer()

    def refused(self, follower: int, error: PushError, before: int) -> None:
        self.in_sync.unmatched(follower)
        self.partition.metrics.push_refusals[follower, error.name.lower()] += 1
        if error is PushError.BAD_BATCH:
            self._check_behind(before)

    def _check_behind(self, number: int) -> None:
        """Checks the stretch behind `number` on the disk, after a follower found it bad: if it is bad here,
        another replica must lead. Forgets the piece in memory, which may be bad too."""
        partition = self.partition
        log = partition.log
        self._reader = PushReader(log)
        try:
            bad = scrub(log.segments.list, ScrubPlace(number + 1), STRETCH_BYTES).bad
            if bad:
                log.spoiled(bad)
                raise LogDamaged(bad)
        except StorageError as error:
            partition.note_error(error)

    # --- as its partition sees it ------------------------------------------------------------------

    @property
    def in_sync_size(self) -> int:
        return self.in_sync.size

    @property
    def start_end(self) -> int:
        return self.in_sync.start_end

    def is_followed(self, silence_ms: int) -> bool:
        now_ms, in_sync = self.partition.tick.monotonic_ms, self.in_sync
        heard = 1  # the leader itself
        for broker_id, replica in in_sync.replicas.items():
            carried = self.places.get(broker_id)
            if carried is None or not replica.answered:
                continue
            since_ms = carried[0].silent_since_ms()
            heard += since_ms is None or now_ms - since_ms < silence_ms
        return heard + in_sync.min_in_sync > 1 + len(in_sync.replicas)

    def written(self) -> None:
        partition = self.partition
        self.in_sync.appended(partition.tick.monotonic_ms, partition.log.tail.written, self._lag_ms)
        for line, place in self.places.values():
            line.appended(place)
        self._pushers.watch(self)
        self.advance()
        if self._takes_one_more:
            self.count_members()

    def synced(self) -> None:
        self.in_sync.synced = self.partition.log.synced
        self._advance_and_answer()

    def end(self) -> None:
        for line, place in self.places.values():
            line.remove(place)
        self.places.clear()
        self._pushers.unlead(self)

    def advance(self) -> bool:
        """Moves the high-water mark if it can move; returns whether it did. The caller answers the
        producers."""
        partition = self.partition
        mark = self.in_sync.advance()
        if mark <= partition.high_water_mark:
            return False
        partition.advance(mark)
        for line, place in self.places.values():
            line.marked(place)
        return True

    @property
    def lowest_start(self) -> int:
        return self.in_sync.lowest_start(self.log_start)

    def start_moved(self) -> None:
        for line, place in self.places.values():
            line.marked(place)

    def _advance_and_answer(self) -> None:
        if self.advance():
            self.partition.acks.answer(self.partition.high_water_mark)

    # --- as the broker and the replicator see it ---------------------------------------------------

    def view(self, placed: PartitionView, replicas: tuple[int, ...], min_in_sync: int) -> None:
        """Takes over the cluster's view of the partition, in the same leader epoch. replicas: all its
        brokers, those being added included."""
        in_sync = self.in_sync
        in_sync.flush_disk = self.partition.flush_disk
        before = in_sync.members
        missed = 0 <= in_sync.partition_epoch < placed.partition_epoch - 1
        in_sync.view(placed.partition_epoch, placed.in_sync, replicas, min_in_sync)
        if before:  # the first view of this epoch is no change
            metrics = self.partition.metrics
            metrics.in_sync_joined += len(set(in_sync.members) - set(before))
            metrics.in_sync_left += len(set(before) - set(in_sync.members))
        followers = tuple(in_sync.replicas)
        if missed:
            # A view was missed: a follower out of sync may have been moved away and back, and have lost its
            # data.
            self.followers = tuple(each for each in self.followers if each in in_sync.members)
            for follower in followers:
                if follower not in in_sync.members:
                    self.leave(follower)
            self._pushers.lead(self)
        if followers != self.followers:
            for follower in self.followers:
                if follower not in followers:
                    self.leave(follower)
            self.followers = followers
            self._pushers.lead(self)
        else:
            self._pushers.watch(self)
        self.count_members()
        self._advance_and_answer()
        self.partition.start.is_safer()  # without a member that left

    def count_members(self) -> None:
        """Refuses appends while too few replicas are in sync, except one that ends a hole.

        A mended log may end in numbers without a batch. Pushes can't bring followers past them without a
        further batch, so no follower could join the in-sync set. That one append waits for the high-water
        mark like any other.
        """
        size, wanted = self.in_sync.size, self.in_sync.min_in_sync
        self._takes_one_more = size < wanted and self._ends_in_a_hole()
        self.partition.set_in_sync(size, 0 if self._takes_one_more else wanted)

    @property
    def is_below_min(self) -> bool:
        """Whether too few replicas are in sync for messages to be committed."""
        return self.in_sync.size < self.in_sync.min_in_sync

    def _ends_in_a_hole(self) -> bool:
        log = self.partition.log
        try:
            return 0 < log.first_available <= log.tail.written and log.held < log.tail.written
        except StorageError:  # the disk refuses reads: the next read of a stretch reports it
            return False

    def enter(self, line: ReplicationStream, broker_epoch: int, sent: int | None = None) -> None:
        """Pushes the partition to a follower on this connection from now on. sent: the number behind which to
        begin; None: the log's end."""
        self.in_sync.connected(line.follower, broker_epoch)
        place = line.add(self, self.log_end if sent is None else sent)
        self.places[line.follower] = line, place

    def leave(self, follower: int) -> None:
        """Stops pushing the partition to a follower."""
        carried = self.places.pop(follower, None)
        if carried is not None:
            line, place = carried
            line.remove(place)
        self.in_sync.disconnected(follower)
        self._pushers.watch(self)

    @property
    def is_quiet(self) -> bool:
        """Whether the passing of time alone can't change the in-sync set."""
        in_sync = self.in_sync
        return in_sync.proposed is None and all(
            in_sync.has_all(replica) if replica.broker_id in in_sync.members else not replica.answered
            for replica in in_sync.replicas.values()
        )
