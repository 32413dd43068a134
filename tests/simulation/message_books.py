"""What the cluster promises about messages, checked against books of everything that was ever committed.

A batch is committed when a leader's high-water mark passes it. From then on every later leader has it, at the
same numbers, with the same bytes, and so has every replica whose own mark has reached it. The books belong to
the world: they remember what crashes forget. After each event of a broker's process its partitions are looked
at, but only where something moved.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tank_node.log.log import PartitionLog
from tank_node.log.record import Record
from tank_node.log.segment import Segment
from tank_node.partition import Partition
from tank_node.replication.role import Role
from tank_protos import bundle
from tests.simulation.world import World, must

Key = tuple[int, int]
"""(topic id, partition)"""


@dataclass(slots=True, frozen=True)
class Batch:
    """What of a batch is the same on every replica: its record without the place in the file."""

    first: int
    last: int
    content: Record

    @classmethod
    def of(cls, record: Record) -> "Batch":
        """From an index record; its checksum covers the batch's bytes."""
        return cls(record.first, record.last, record._replace(position=0))


@dataclass(slots=True)
class Committed:
    """Of one partition, for ever."""

    firsts: list[int] = field(default_factory=list)
    """Of the batches, rising."""
    batches: list[Batch] = field(default_factory=list)
    payloads: dict[bytes, list[int]] = field(default_factory=dict)
    """By message: the numbers that it has. More than one where a producer that is not idempotent repeats."""
    leaders: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By leader epoch: the broker and the process that led in it."""
    shown: int = 0
    """The greatest end that any client was shown."""
    refused: set[bytes] = field(default_factory=set)
    """Messages of which a producer was told that they are not stored."""

    lossy: bool = False
    """There was an election that may have lost messages: what follows isn't judged."""
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    """Messages whose producer was told that they are stored; where, 0: it wasn't told."""

    @property
    def end(self) -> int:
        """The last committed number."""
        return self.batches[-1].last if self.batches else 0


@dataclass(slots=True)
class Seen:
    """What was found last of one replica, in one life of its process."""

    mark: int = 0
    role: Role = Role.NONE
    leader_epoch: int = -1


class MessageBooks:
    """The books of one story."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.partitions: dict[Key, Committed] = {}
        self.replica: Callable[[int, Key], Partition | None] = lambda broker_id, key: None
        """What of a partition is open at a broker whose process runs."""
        self._members: dict[Key, tuple[int, ...]] = {}
        """The in-sync set, as the controllers' log has it."""

    def in_sync(self, key: Key, members: tuple[int, ...]) -> None:
        """The controllers' log has this in-sync set now: who is in it has everything that is committed."""
        self._members[key] = members
        self._check_members(key, self.of(key).end)

    def _check_members(self, key: Key, end: int) -> None:
        if self.of(key).lossy:
            return
        for broker_id in self._members.get(key, ()):
            replica = self.replica(broker_id, key)
            if replica is not None and not replica.log.is_impaired:
                log = replica.log
                has = log.synced if replica.flush_disk else log.written
                must(has >= end, "%s is in sync in %s with %s, committed is %s", broker_id, key, has, end)

    def lossy(self, key: Key) -> None:
        """An election may have lost messages, and says so: nothing is promised of what was before."""
        self.world.counts["lossy elections"] += 1
        self.world.say("books", "%s had a lossy election", key)
        self.of(key).lossy = True

    def of(self, key: Key) -> Committed:
        """Those of a partition."""
        return self.partitions.setdefault(key, Committed())

    # --- replicas ---

    def look(self, who: str, process: tuple[int, int], partition: Partition, seen: Seen) -> None:
        """After an event: what moved at this replica since the last look?"""
        mark, role, epoch = partition.high_water_mark, partition.role, partition.leader_epoch
        if (mark, role, epoch) == (seen.mark, seen.role, seen.leader_epoch):
            return
        log = partition.log
        key = log.topic_id, log.partition
        books = self.of(key)
        if books.lossy or (log.is_impaired and role is not Role.LEADER):
            return  # it serves nobody, and counts for nothing, until it is filled anew
        if role is Role.LEADER and (seen.role is not Role.LEADER or seen.leader_epoch != epoch):
            self._check_leader(who, process, key, books, partition)
        must(mark >= seen.mark, "the mark of %s at %s goes back from %s to %s", key, who, seen.mark, mark)
        if mark > seen.mark:
            self._take(who, key, books, partition, seen.mark)
        seen.mark, seen.role, seen.leader_epoch = mark, role, epoch

    def _check_leader(
        self, who: str, process: tuple[int, int], key: Key, books: Committed, partition: Partition
    ) -> None:
        epoch = partition.leader_epoch
        first = books.leaders.setdefault(epoch, process)
        must(first == process, "%s is led in epoch %s by %s and by %s", key, epoch, first, process)
        self.world.counts["partition leaders"] += 1
        self.world.say(who, "leads %s in epoch %s, end %s", key, epoch, partition.log.written)
        self._compare(who, "leads", key, books, partition.log, 0, books.end)

    def _take(self, who: str, key: Key, books: Committed, partition: Partition, before: int) -> None:
        """The mark has passed batches: what is new is committed now, what is known must be the same."""
        log, mark = partition.log, partition.high_water_mark
        must(mark <= log.written, "the mark of %s at %s is beyond its log", key, who)
        self._compare(who, "has its mark at", key, books, log, before, min(mark, books.end))
        if mark <= books.end:
            return
        must(
            partition.role is Role.LEADER,
            "%s follows in %s, and its mark %s is above what any leader has committed",
            who,
            key,
            mark,
        )
        for record, data in stored(log, books.end, mark):
            batch = Batch.of(record)
            must(not books.batches or batch.first > books.end, "%s at %s repeats numbers", key, who)
            books.firsts.append(batch.first)
            books.batches.append(batch)
            number = batch.first
            for one in bundle.bundles(data):
                for message in bundle.decode(one, number):
                    value = bytes(message.value)
                    must(value not in books.refused, "%s was refused, and is committed in %s", value, key)
                    books.payloads.setdefault(value, []).append(message.sequence_number)
                    self.world.counts["messages committed"] += 1
        self.world.say(who, "commits %s up to %s", key, mark)
        self._check_members(key, mark)

    def _compare(
        self, who: str, does: str, key: Key, books: Committed, log: PartitionLog, after: int, through: int
    ) -> None:
        """This log must hold every committed batch behind `after`, from its start on, up to `through`."""
        low = max(after, log.log_start - 1)
        begin, end = bisect_right(books.firsts, low), bisect_right(books.firsts, through)
        expected = books.batches[begin:end]
        found = {record.first: record for record in records(log, low, through)}
        for batch in expected:
            record = found.pop(batch.first, None)
            must(
                record is not None,
                "%s %s %s without the committed batch at %s (its log ends at %s)",
                who,
                does,
                key,
                batch.first,
                log.written,
            )
            assert record is not None
            must(
                Batch.of(record) == batch,
                "%s %s %s with another batch at %s than the one that was committed",
                who,
                does,
                key,
                batch.first,
            )
        must(not found, "%s %s %s with batches at %s that were never committed", who, does, key, tuple(found))

    # --- clients ---

    def acknowledged(self, key: Key, payload: bytes, number: int = 0) -> None:
        """A producer is told that its message is stored (0: it isn't told where)."""
        books = self.of(key)
        if books.lossy:
            return
        books.acknowledged[payload] = number
        numbers = books.payloads.get(payload, [])
        must(bool(numbers), "%s of %s is acknowledged before it is committed", payload, key)
        if number:
            must(
                numbers == [number],
                "%s of %s is acknowledged at %s and stored at %s",
                payload,
                key,
                number,
                numbers,
            )

    def refused(self, key: Key, payloads: list[bytes]) -> None:
        """A producer that never repeats is told that these are not stored."""
        books = self.of(key)
        for payload in payloads if not books.lossy else ():
            must(payload not in books.payloads, "%s of %s is refused, and is committed", payload, key)
            books.refused.add(payload)

    def read(self, key: Key, number: int, payload: bytes) -> None:
        """A consumer is shown a message."""
        books = self.of(key)
        must(
            books.lossy or number in books.payloads.get(payload, []),
            "a consumer of %s is shown %s at %s, which is not committed",
            key,
            payload,
            number,
        )

    def check_acknowledged(self) -> None:
        """At the end: an idempotent producer's message is there exactly once."""
        for key, books in self.partitions.items():
            for payload, number in books.acknowledged.items() if not books.lossy else ():
                numbers = books.payloads.get(payload, [])
                must(not number or numbers == [number], "%s of %s is stored at %s", payload, key, numbers)

    def shown_end(self, key: Key, end: int) -> None:
        """A client is shown where the partition ends."""
        books = self.of(key)
        must(end <= books.end, "a client is shown the end %s of %s, committed is %s", end, key, books.end)
        must(
            end >= books.shown,
            "a client is shown the end %s of %s, after %s was shown",
            end,
            key,
            books.shown,
        )
        books.shown = max(books.shown, end)


def records(log: PartitionLog, after: int, through: int) -> Iterator[Record]:
    """The index records of the batches that begin behind `after` and not behind `through`."""
    for _, record in _placed(log, after, through):
        yield record


def stored(log: PartitionLog, after: int, through: int) -> Iterator[tuple[Record, bytes]]:
    """The same with the batches' bytes."""
    for segment, record in _placed(log, after, through):
        file = segment.log_end.file
        yield record, file.files.disk.read_at(file.files.use(file), record.length, record.position)


def _placed(log: PartitionLog, after: int, through: int) -> Iterator[tuple[Segment, Record]]:
    bases = [segment.base for segment in log.segments]
    for segment in log.segments[max(bisect_right(bases, after + 1) - 1, 0) :]:
        if segment.base > through:
            return
        index = segment.index
        start = index.containing(after + 1) if index.count else 0
        for record in index.records(max(start, 0)):
            if record.first > through:
                return
            if record.first > after:
                yield segment, record
