"""What a leader does for one partition with followers: who is in sync, where each is pushed from, the mark.

It stands between the partition and the pure parts (`replication.in_sync`, `replication.push`); the
`replicator` owns the connections.
"""

from tank_node.cluster.view import PartitionView
from tank_node.log.epoch_history import History
from tank_node.log.errors import LogDamaged, StorageError
from tank_node.log.pushing import Piece, PushReader
from tank_node.log.scrub import ScrubPlace, scrub
from tank_node.partition.partition import Partition
from tank_node.replication.in_sync import InSync
from tank_node.replication.progress import Place
from tank_node.replication.role import LeaderRole
from tank_node.replication.stream import STRETCH_BYTES, PushLine
from tank_protos.error_codes import PushError


class Pushers:
    """Who brings partitions to their followers: the `replicator`. This one is a lone node's, which has
    none."""

    __slots__ = ()

    @property
    def are_needed(self) -> bool:
        """Whether there is a cluster around this node."""
        return False

    def lead(self, leadership: "Leadership") -> None:
        """A partition is led here from now on, or its followers have changed."""

    def unlead(self, leadership: "Leadership") -> None:
        """It is led here no more."""

    def watch(self, leadership: "Leadership") -> None:
        """Somebody may have to join or leave its in-sync set."""

    def report(self, partition: Partition) -> None:
        """A replica failed here: the controller has to know until the view shows that it does."""

    def push(self) -> None:
        """The end of a tick: sends what is new."""

    def tick(self) -> None:
        """Some 20 times a second: what is due by time. Begin the broker's tick first."""

    def close(self) -> None:
        """The node stops."""

    @property
    def connected(self) -> dict[int, bool]:
        """Whether the live connection to each follower of what is led here is open, by broker id."""
        return {}


class Leadership(LeaderRole):
    """One leader epoch of one partition.

    Invariant: a follower is in `places` while a connection that is open carries this partition to it.
    """

    __slots__ = (
        "_epoch", "_lag_ms", "_name", "_pushers", "_reader", "_takes_one_more", "_topic_id", "followers",
        "in_sync", "partition", "places",
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
        self.places: dict[int, tuple[PushLine, Place]] = {}
        """By the follower's broker id."""
        self.followers: tuple[int, ...] = ()
        self._pushers = pushers
        self._topic_id = topic_id
        self._name = partition.topic_name.encode("utf-8", "surrogateescape")
        self._epoch = leader_epoch
        self._lag_ms = lag_ms
        self._reader = PushReader(log)
        self._takes_one_more = False
        """Appends are taken however few are in sync: until one is written."""
        self.in_sync = InSync(broker_id, log.written, partition.high_water_mark, partition.flush_disk)
        self.in_sync.synced = log.synced
        self.in_sync.appended(partition.tick.monotonic_ms, log.written, lag_ms)

    # --- as its pushes see it ----------------------------------------------------------------------

    @property
    def topic_id(self) -> int:
        return self._topic_id

    @property
    def topic_name(self) -> bytes:
        return self._name

    @property
    def number(self) -> int:
        return self.partition.number

    @property
    def leader_epoch(self) -> int:
        return self._epoch

    @property
    def log_end(self) -> int:
        return self.partition.log.written

    @property
    def log_start(self) -> int:
        log = self.partition.log
        return log.first_available or log.written + 1

    @property
    def mark(self) -> int:
        return self.partition.high_water_mark

    @property
    def history(self) -> History:
        return self.partition.log.epochs

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
        return self._reader.bytes_behind(number)

    def is_member(self, follower: int) -> bool:
        return follower in self.in_sync.members

    def counts_on(self, follower: int) -> bool:
        return self.in_sync.counts_on(follower)

    def matched(self, follower: int, matched: int, synced: int) -> None:
        self.in_sync.matched(follower, matched, synced)
        if follower not in self.in_sync.members:
            self._pushers.watch(self)
        self._advance_and_answer()  # one that is proposed counts too

    def refused(self, follower: int, error: PushError, before: int) -> None:
        self.in_sync.unmatched(follower)
        self.partition.metrics.push_refusals[follower, error.name.lower()] += 1
        if error is PushError.BAD_BATCH:
            self._check_behind(before)

    def _check_behind(self, number: int) -> None:
        """What a follower received of it is bad: if it is so on this disk, another one must lead. The memory
        may be at fault, too: what is kept there is read again."""
        partition = self.partition
        log = partition.log
        self._reader = PushReader(log)
        try:
            bad = scrub(log, ScrubPlace(number + 1), STRETCH_BYTES).bad
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

    def written(self) -> None:
        partition = self.partition
        self.in_sync.appended(partition.tick.monotonic_ms, partition.log.written, self._lag_ms)
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
        """Moves the mark if it can move; producers are answered by the caller."""
        partition = self.partition
        mark = self.in_sync.advance()
        if mark <= partition.high_water_mark:
            return False
        partition.advance(mark)
        for line, place in self.places.values():
            line.marked(place)
        return True

    def _advance_and_answer(self) -> None:
        if self.advance():
            self.partition.acks.answer(self.partition.high_water_mark)

    # --- as the broker and the replicator see it ---------------------------------------------------

    def view(self, placed: PartitionView, replicas: tuple[int, ...], min_in_sync: int) -> None:
        """What the cluster's view says of it now, in the same leader epoch. replicas: all who hold it, or
        shall."""
        in_sync = self.in_sync
        in_sync.flush_disk = self.partition.flush_disk
        before = in_sync.members
        missed = 0 <= in_sync.partition_epoch < placed.partition_epoch - 1
        in_sync.view(placed.partition_epoch, placed.in_sync, replicas, min_in_sync)
        if before:  # this epoch's first view is no change
            metrics = self.partition.metrics
            metrics.in_sync_joined += len(set(in_sync.members) - set(before))
            metrics.in_sync_left += len(set(before) - set(in_sync.members))
        followers = tuple(in_sync.replicas)
        if missed:
            # Of those that are no members one may have been moved away and back, and what it matched is gone.
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
        self.count_members()
        self._pushers.watch(self)
        self._advance_and_answer()

    def count_members(self) -> None:
        """Appends are refused while too few are in sync: but not those that end a hole.

        A log that was mended alone may end in numbers that no batch has. What is pushed carries nobody over
        them before the next batch: without it no follower could ever join, and too few would stay too few.
        What is taken then waits for the mark, as everything does.
        """
        in_sync = self.in_sync
        self._takes_one_more = self.is_below_min and self._ends_in_a_hole()
        wanted = 0 if self._takes_one_more else in_sync.min_in_sync
        self.partition.set_in_sync(in_sync.size, wanted)

    @property
    def is_below_min(self) -> bool:
        """Whether too few are in sync for anything to be acknowledged, taken or not."""
        return self.in_sync.size < self.in_sync.min_in_sync

    def _ends_in_a_hole(self) -> bool:
        log = self.partition.log
        try:
            return self.log_start <= log.written and log.held < log.written
        except StorageError:  # a disk that refuses reads: whoever reads there finds that out
            return False

    def enter(self, line: PushLine, broker_epoch: int, sent: int | None = None) -> None:
        """This connection carries it to its follower from now on; sent: behind which number, if that is
        known."""
        self.in_sync.connected(line.follower, broker_epoch)
        place = line.add(self, self.log_end if sent is None else sent)
        self.places[line.follower] = line, place

    def leave(self, follower: int) -> None:
        """No connection carries it to this follower any more."""
        carried = self.places.pop(follower, None)
        if carried is not None:
            line, place = carried
            line.remove(place)
        self.in_sync.disconnected(follower)
        self._pushers.watch(self)

    @property
    def is_quiet(self) -> bool:
        """Whether time alone changes nothing for its in-sync set."""
        in_sync = self.in_sync
        return in_sync.proposed is None and all(
            in_sync.has_all(replica) if replica.broker_id in in_sync.members else not replica.answered
            for replica in in_sync.replicas.values()
        )
