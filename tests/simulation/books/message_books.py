"""The guarantees about messages, checked against books of everything that was ever committed.

A batch is committed when a leader's high-water mark passes it. From then on every later leader has it, at the
same numbers, with the same bytes, and so has every replica whose own mark has reached it. The books are
outside the processes, so no crash changes them. After each event of a broker's process, its partitions that
changed are checked.

A lossy election begins the book of its partition again, with the committed messages of the elected replica.
Leaders of earlier epochs are not checked then, nor are followers before their logs equal the book.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tank_node.log.log import LogState, PartitionLog
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role
from tank_node.segment.record import Record, matches
from tank_protos.wire.names import GROUPS_TOPIC
from tests.simulation.books.committed import Committed, Key
from tests.simulation.books.stored_batches import Batch, is_whole, messages, same, stored
from tests.simulation.world.world import Violation, World, must

__all__ = ["Committed", "Key", "MessageBooks", "Seen"]

DIVERGED = "though both must be the same up to the high-water mark"
"""In the reason of a log that stopped because it had committed other batches than its leader: a bug."""

Moves = tuple[int, Role, int, int, int, LogState]
"""Mark, role, leader epoch, end, last epoch in the log, state: where none moved, nothing happened."""


@dataclass(slots=True)
class Seen:
    """What was found last of one replica, in one life of its process."""

    moves: Moves | None = None
    mark: int = 0
    """Up to here it was compared."""
    stopped_at: int = 0
    """The mark that the process before this one had at its orderly stop; 0: it says nothing."""
    role: Role = Role.NONE
    leader_epoch: int = -1
    end: int = 0
    last_epoch: int = 0
    generation: int = 0
    """Of the books that it was found to agree with."""


class MessageBooks:
    """The books of one story."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.partitions: dict[Key, Committed] = {}
        self.replica: Callable[[int, Key], Partition | None] = lambda broker_id, key: None
        """What of a partition is open at a broker whose process runs."""
        self.on_group_batch: Callable[[Key, Batch], None] = lambda key, batch: None
        """Told of each batch of consumer groups that is committed, or that a lossy election has left."""
        self.on_iggy_batch: Callable[[Key, Batch], None] = lambda key, batch: None
        """The same, for the offsets of Iggy's consumers."""
        self.are_positions_lost = False
        """Whether an election may have lost positions of groups, some of which may be acknowledged still, by
        a coordinator that hasn't heard of it. From then on nothing is promised of positions."""
        self._members: dict[Key, tuple[int, ...]] = {}
        """The in-sync set, as the controllers' log has it."""

    def of(self, key: Key) -> Committed:
        """Those of a partition."""
        books = self.partitions.get(key)
        if books is None:
            books = self.partitions[key] = Committed(key)
        return books

    # --- the controllers' log ---

    def in_sync(self, key: Key, members: tuple[int, ...]) -> None:
        """The controllers' log has this in-sync set now: who is in it has everything that is committed."""
        self._members[key] = members
        self._check_members(key, self.of(key))

    def _check_members(self, key: Key, books: Committed) -> None:
        if books.waits:
            return
        end = books.end
        found = {each: self.replica(each, key) for each in self._members.get(key, ())}
        # While brokers have different defaults, a leader whose own is not to sync lets in who has not synced.
        by_disk = all(r is None or r.role is not Role.LEADER or r.flush_disk for r in found.values())
        for broker_id, replica in found.items():
            if replica is not None and not replica.log.is_impaired:
                log = replica.log
                synced = by_disk and replica.flush_disk and end > books.unsynced_through
                has = log.synced if synced else log.written
                must(has >= end, "%s is in sync in %s with %s, committed is %s", broker_id, key, has, end)

    def _check_member(self, broker_id: int, key: Key, replica: Partition) -> None:
        """A replica that has just been opened: if it counts as in sync, it has everything."""
        books = self.of(key)
        if broker_id in self._members.get(key, ()) and not books.waits and not replica.log.is_impaired:
            has, end = replica.log.written, books.end
            must(has >= end, "%s starts as in sync in %s with %s, committed is %s", broker_id, key, has, end)

    def _check_stopped(self, who: str, partition: Partition, seen: Seen) -> None:
        """A replica that has just been opened, after an orderly stop: its mark is what it was."""
        log, key = partition.log, (partition.log.topic_id, partition.log.partition)
        if log.is_impaired or who in self.of(key).spoiled:
            return
        mark = partition.high_water_mark
        must(mark >= seen.stopped_at, "the mark of %s at %s was %s at its stop, and is %s", key, who,
             seen.stopped_at, mark)  # fmt: skip

    def lossy(self, key: Key, epoch: int, *, may_lose: bool = True) -> None:
        """An election may have lost messages, and says so.

        may_lose: whether anything that has happened can have taken an acknowledged message. Where nothing
        can, a broker may have called its log damaged to be careful: the books go on, nothing may be gone.
        """
        self.world.say("books", "%s had a lossy election, for epoch %s", key, epoch)
        self.of(key).elections += 1
        if may_lose:
            self.world.counts["lossy elections"] += 1
            self.of(key).lossy(epoch)
        else:
            self.world.counts["lossy elections without a loss"] += 1

    # --- replicas ---

    def look(self, who: str, process: tuple[int, int], partition: Partition, seen: Seen) -> None:
        """After an event: what moved at this replica since the last look?"""
        log = partition.log
        last_epoch = log.epochs[-1][0] if log.epochs else 0
        moves = (
            partition.high_water_mark, partition.role, partition.leader_epoch,
            log.written, last_epoch, log.state,
        )  # fmt: skip
        if moves == seen.moves:
            return
        if seen.moves is None:
            self._check_member(process[0], (log.topic_id, log.partition), partition)
            self._check_stopped(who, partition, seen)
        seen.moves = moves
        mark, role, epoch, end, _, state = moves
        key = log.topic_id, log.partition
        books = self.of(key)
        if state is LogState.FAILED:
            must(DIVERGED not in log.reason, "%s at %s has diverged: %s", key, who, log.reason)
        if log.is_impaired and role is not Role.LEADER:
            seen.mark = 0  # it serves nobody, and counts for nothing, until it is filled anew
            return
        if (books.waits or epoch < books.lossy_epoch) and not self._begins(who, partition, books):
            if role is Role.LEADER:
                self._remember_before(books, log, seen.mark, mark)
            seen.mark = mark
            return
        if seen.generation != books.generation:
            if role is not Role.LEADER and not self._agrees(books, log, mark):
                return
            seen.generation, seen.mark = books.generation, 0
        if role is Role.LEADER and (seen.role is not Role.LEADER or seen.leader_epoch != epoch):
            self._check_leader(who, process, key, books, partition)
        must(mark >= seen.mark, "the mark of %s at %s goes back from %s to %s", key, who, seen.mark, mark)
        must(mark <= end, "the mark %s of %s at %s is beyond its log, which ends at %s", mark, key, who, end)
        if role is Role.LEADER and books.retains and log.segments:
            # What is below the active segment and the mark retention may take.
            books.retained = max(books.retained, min(log.segments[-1].base, mark + 1))
        if end < seen.end or last_epoch != seen.last_epoch:  # it was cut: nothing that counts may be another
            self._compare(who, "goes on in", key, books, log, 0, min(seen.mark, books.end))
        if mark > seen.mark:
            self._take(who, key, books, partition, seen.mark)
        seen.mark, seen.role, seen.leader_epoch = mark, role, epoch
        seen.end, seen.last_epoch = end, last_epoch

    def _begins(self, who: str, partition: Partition, books: Committed) -> bool:
        """Whether this is the replica that a lossy election chose, or one that leads after it: what it has
        committed is what everybody has from here on."""
        log, epoch = partition.log, partition.leader_epoch
        if not books.waits or partition.role is not Role.LEADER or epoch < books.lossy_epoch:
            return False
        if who in books.spoiled and not is_whole(log):
            return False  # what it has is not known before it has looked at it
        books.waits = False
        books.start = max(log.first_available, 1)
        for record, data in stored(log, books.start - 1, partition.high_water_mark):
            self._commit(partition, books, Batch.of(record, data), epoch)
        books.unsynced_through = books.end
        self.world.say(who, "begins %s anew, up to %s", books.key, books.end)
        return True

    def _remember_before(self, books: Committed, log: PartitionLog, before: int, mark: int) -> None:
        """A leader that is none any more commits what may be lost; its clients may be told of it."""
        old = Committed(books.key)
        for record, data in stored(log, max(before, log.log_start - 1), mark):
            if matches(record, data):
                old.commit(Batch.of(record, data), 0)
        books.remember_before(old.payloads)

    def _agrees(self, books: Committed, log: PartitionLog, mark: int) -> bool:
        """Whether a replica holds what the books do, as far as it goes."""
        if mark > max(books.end, books.marked):
            return False
        try:
            self._compare("", "", books.key, books, log, 0, min(log.written, books.end))
        except Violation:
            return False
        return True

    def _check_leader(
        self, who: str, process: tuple[int, int], key: Key, books: Committed, partition: Partition
    ) -> None:
        epoch = partition.leader_epoch
        first = books.leaders.setdefault(epoch, process)
        must(first == process, "%s is led in epoch %s by %s and by %s", key, epoch, first, process)
        self.world.counts["partition leaders"] += 1
        self.world.say(who, "leads %s in epoch %s, end %s", key, epoch, partition.log.written)
        # A broker that was away hears of its epochs one after another: only what was before counts for each.
        self._compare(who, "leads", key, books, partition.log, 0, books.end_before(epoch))

    def _take(self, who: str, key: Key, books: Committed, partition: Partition, before: int) -> None:
        """The mark has passed batches: what is new is committed now, what is known must be the same."""
        log, mark = partition.log, partition.high_water_mark
        self._compare(who, "has its mark at", key, books, log, before, min(mark, books.end))
        if mark <= max(books.end, books.marked):
            return
        must(
            partition.role is Role.LEADER,
            "%s follows in %s, and its mark %s is above what any leader has committed",
            who,
            key,
            mark,
        )
        books.note_unseen(log.first_available)
        for record, data in stored(log, books.end, mark):
            batch = Batch.of(record, data)
            epoch = partition.leader_epoch
            self.world.counts["messages committed"] += self._commit(partition, books, batch, epoch)
        books.marked = mark
        if not partition.flush_disk:
            books.unsynced_through = mark
        self.world.say(who, "commits %s up to %s", key, mark)
        self._check_members(key, books)

    def _commit(self, partition: Partition, books: Committed, batch: Batch, epoch: int) -> int:
        """A batch counts as committed from now on; how many messages that are."""
        count = books.commit(batch, epoch)
        if partition.topic_name == GROUPS_TOPIC:
            self.on_group_batch(books.key, batch)
            self.on_iggy_batch(books.key, batch)
        return count

    def _compare(
        self, who: str, does: str, key: Key, books: Committed, log: PartitionLog, after: int, through: int
    ) -> None:
        """This log must hold every committed batch behind `after`, from its start on, up to `through`."""
        if who in books.spoiled:
            if not is_whole(log):
                return
            if not books.is_spoiled(who):
                books.spoiled.discard(who)
        # Not from the log's own start on: what is gone at its front may be lost.
        low = max(after, books.start - 1)
        begin, end = bisect_right(books.firsts, low), bisect_right(books.firsts, through)
        expected = books.batches[begin:end]
        found = {record.first: (record, data) for record, data in stored(log, low, through)}
        for batch in expected:
            record, data = found.pop(batch.first, (None, b""))
            if record is None:
                must(
                    batch.first < books.retained
                    or self._is_superseded(books, batch)
                    or self._will_be_superseded(books, batch, log, through),
                    "%s %s %s without the committed batch at %s (its log ends at %s)",
                    who,
                    does,
                    key,
                    batch.first,
                    log.written,
                )
            elif not same(record, data, batch.content, batch.data):
                must(
                    books.compacts and self._is_compacted(books, batch, record, data),
                    "%s %s %s with another batch at %s than the one that was committed",
                    who,
                    does,
                    key,
                    batch.first,
                )
        unknown = tuple(
            first for first, stored_as in found.items() if not self._was_superseded(books, *stored_as)
        )
        must(not unknown, "%s %s %s with batches at %s that were never committed", who, does, key, unknown)

    def _was_superseded(self, books: Committed, record: Record, data: bytes) -> bool:
        """Whether the replica that a lossy election chose may have compacted this batch away before."""
        return (
            books.compacts
            and matches(record, data)
            and all(books.had_newer(key, value, number) for number, key, value in messages(record, data))
        )

    def _is_superseded(self, books: Committed, batch: Batch) -> bool:
        """Whether compaction may take all of a batch."""
        return books.compacts and not books.must_be_there(batch.first, batch.last)

    def _will_be_superseded(self, books: Committed, batch: Batch, log: PartitionLog, through: int) -> bool:
        """Whether this replica has compacted a batch away because of messages that it holds, which were
        committed before a lossy election and whose committing again is still to come."""
        if not books.compacts or not books.before:
            return False
        later = {
            key
            for record, data in stored(log, through, log.written)
            if matches(record, data)
            for number, key, value in messages(record, data)
            if number in books.before.get(value, ())
        }
        must_be_there = books.must_be_there(batch.first, batch.last)
        return all(books.keys[number] in later for number in must_be_there)

    def _is_compacted(self, books: Committed, batch: Batch, record: Record, data: bytes) -> bool:
        """Whether this is what compaction may leave of a batch. Changed bytes are not."""
        if not matches(record, data) or (record.first, record.last, record.leader_epoch) != (
            batch.first, batch.last, batch.content.leader_epoch
        ):  # fmt: skip
            return False
        found = list(messages(record, data))
        known = all(
            number in books.payloads.get(value, ()) or books.had_newer(key, value, number)
            for number, key, value in found
        )
        kept = {message.number for message in found}
        return known and kept.issuperset(books.must_be_there(batch.first, batch.last))

    # --- clients ---

    def acknowledged(self, key: Key, payload: bytes, number: int = 0) -> None:
        """A producer is told that its message is stored (0: it isn't told where)."""
        books = self.of(key)
        numbers = books.payloads.get(payload, [])
        if payload in books.before:
            return
        if not numbers and books.may_be_unseen(number):
            self.world.counts["messages that retention took before a look"] += 1
            return
        must(bool(numbers), "%s of %s is acknowledged before it is committed", payload, key)
        books.acknowledged[payload] = number
        if number:
            must(
                numbers == [number],
                "%s of %s is acknowledged at %s and stored at %s",
                payload,
                key,
                number,
                numbers,
            )

    def refused(self, key: Key, payloads: Sequence[bytes]) -> None:
        """A producer that never repeats is told that these are not stored."""
        books = self.of(key)
        for payload in payloads:
            must(payload not in books.payloads, "%s of %s is refused, and is committed", payload, key)
            books.refused.add(payload)

    def read(self, key: Key, number: int, payload: bytes) -> bool:
        """A consumer is shown a message; whether it is one of those that count."""
        books = self.of(key)
        counts = number in books.payloads.get(payload, ())
        must(
            counts or payload in books.before,
            "a consumer of %s is shown %s at %s, which is not committed",
            key,
            payload,
            number,
        )
        return counts

    def check_rest(self, who: str, partition: Partition) -> None:
        """At the end: this replica holds everything that was ever committed, and nothing else."""
        log, key = partition.log, (partition.log.topic_id, partition.log.partition)
        books = self.of(key)
        self._compare(who, "rests in", key, books, log, 0, books.end)
        end = log.written
        must(end == books.end, "%s rests in %s with %s, committed is %s", who, key, end, books.end)

    def check_acknowledged(self) -> None:
        """At the end: an idempotent producer's message is there exactly once, by the books: what replicas
        hold is compared with these by `check_rest`."""
        for key, books in self.partitions.items():
            for payload, number in books.acknowledged.items():
                numbers = books.payloads.get(payload, [])
                must(bool(numbers), "%s of %s was acknowledged and is gone", payload, key)
                must(not number or numbers == [number], "%s of %s is stored at %s", payload, key, numbers)

    def ends_shown(self, key: Key) -> dict[int, int]:
        """Somebody asks something whose answer shows the end; give this back with the answer."""
        return dict(self.of(key).shown)

    def shown_end(self, key: Key, end: int, epoch: int, since: dict[int, int], generation: int) -> None:
        """A client is shown where the partition ends, by whoever leads in this epoch.

        A leader that has been replaced and has not heard of it may still show less than its successor did.
        """
        books = self.of(key)
        if books.waits or generation != books.generation:
            return
        if epoch < books.lossy_epoch:
            return
        most = max(books.end, books.marked)
        must(end <= most, "a client is shown the end %s of %s, committed is %s", end, key, most)
        most = max((shown for before, shown in since.items() if before <= epoch), default=0)
        must(
            end >= most,
            "a client is shown the end %s of %s in epoch %s, after %s was shown",
            end,
            key,
            epoch,
            most,
        )
        books.shown[epoch] = max(books.shown.get(epoch, 0), end)

    def kept(self, key: Key, group: str) -> int:
        """The position that was kept last, as far as anybody was told."""
        return self.of(key).positions.get(group, 0)

    def keep(self, key: Key, group: str, position: int) -> None:
        """A client is told that this position is kept: it never goes back from there."""
        positions = self.of(key).positions
        positions[group] = max(positions.get(group, 0), position)
