"""The book of one partition: all messages that were ever committed, and the answers to clients."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

from tests.simulation.books.changed_byte import ChangedByte
from tests.simulation.books.stored_batches import Batch, messages
from tests.simulation.world.world import must

Key = tuple[int, int]
"""(topic id, partition)"""


@dataclass(slots=True)
class Committed:
    """Of one partition, for ever; but a lossy election begins it anew."""

    key: Key
    firsts: list[int] = field(default_factory=list)
    """Of the batches, rising."""
    batches: list[Batch] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    """Of each batch: the leader epoch in which it was committed, which may be later than the batch's own."""
    numbers: list[int] = field(default_factory=list)
    """Of the messages, rising."""
    payloads: dict[bytes, list[int]] = field(default_factory=dict)
    """By message: the numbers that it has. More than one where a producer that is not idempotent repeats."""
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    """Messages whose producer was told that they are stored; where, 0: it wasn't told."""
    refused: set[bytes] = field(default_factory=set)
    """Messages of which a producer was told that they are not stored."""
    leaders: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By leader epoch: the broker and the process that led in it."""
    unsynced_through: int = 0
    """Up to here messages were committed, at least in part, without an fsync."""
    marked: int = 0
    """The greatest mark of any leader: behind the last batch where a mended log ends in a hole."""
    shown: dict[int, int] = field(default_factory=dict)
    """By leader epoch: the greatest end that any client was shown by its leader."""
    start: int = 1
    """The first number that is known: a lossy election's leader may begin later."""

    compacts: bool = False
    """Of each key the newest message stays, by the topic's settings; older ones may be there, or not."""
    keys: dict[int, bytes] = field(default_factory=dict)
    """Of a partition that compacts: the key of each message."""
    newest: dict[bytes, int] = field(default_factory=dict)
    """And the last number of each key."""
    tombstones: set[int] = field(default_factory=set)
    """And those of its messages that delete their keys: they go, too, after a while."""
    retains: bool = False
    """Old messages go, by the topic's settings."""
    retained: int = 0
    """And no later ones than up to here: no leader's retention has gone further."""
    unseen: list[tuple[int, int]] = field(default_factory=list)
    """Numbers, first to last, that were committed and taken by retention in one event: the books saw none."""
    deleted: int = 0
    """The greatest number that a client asked to delete up to, without it: a log may begin there."""
    positions: dict[str, int] = field(default_factory=dict)
    """By group: the position whose keeping was acknowledged last."""

    spoiled: set[str] = field(default_factory=set)
    """Brokers whose disks have changed bytes of it, until their logs are whole again: what is not whole there
    has not been found yet."""
    changed: dict[str, list[ChangedByte]] = field(default_factory=dict)
    """By broker: of those, what changed while its process ran."""
    was_spoiled: bool = False
    """Bytes of it have changed, once, somewhere."""

    elections: int = 0
    """Lossy ones, those included in which nothing can have been lost."""
    generation: int = 0
    """Lossy elections so far that may have lost something."""
    lossy_epoch: int = 0
    """Of the last one. What leaders of earlier epochs do isn't judged any more."""
    waits: bool = False
    """For the replica that was chosen to lead: what it has when it does is what counts from there on."""
    before: dict[bytes, set[int]] = field(default_factory=dict)
    """Messages that were committed before a lossy election, and where: there they may be, or not."""

    @property
    def is_trimmed(self) -> bool:
        """Old messages go, by the topic's settings or because a client asks for it."""
        return self.retains or self.deleted > 0

    def note_unseen(self, first_available: int) -> None:
        """Notes what a leader's log, which begins there, lacks of what was committed in the last event."""
        if self.retains and first_available - 1 > self.end:
            self.unseen.append((self.end + 1, first_available - 1))

    def may_be_unseen(self, number: int) -> bool:
        """Whether the message with this number, or any message (0), may have come and gone in one event."""
        return any(first <= number <= last for first, last in self.unseen) if number else bool(self.unseen)

    @property
    def end(self) -> int:
        """The last committed number."""
        return self.batches[-1].last if self.batches else self.start - 1

    def end_before(self, epoch: int) -> int:
        """The last number that was committed before this leader epoch began."""
        at = bisect_left(self.epochs, epoch)
        return self.batches[at - 1].last if at else self.start - 1

    @property
    def may_show_changed_bytes(self) -> bool:
        """Whether a process runs that may not have found yet what changed on its disk."""
        return any(each.may_be_shown for changed in self.changed.values() for each in changed)

    def is_spoiled(self, who: str) -> bool:
        """Whether bytes of this broker's replica have changed, and nothing has mended them so far as the disk
        tells. A process may have the good ones in its memory."""
        return any(each.is_there for each in self.changed.get(who, ()))

    def commit(self, batch: Batch, epoch: int) -> int:
        """The next batch is committed, by the leader of this epoch; how many messages that are."""
        must(batch.first > self.end, "%s is committed again at %s", self.key, batch.first)
        self.firsts.append(batch.first)
        self.batches.append(batch)
        self.epochs.append(max(epoch, self.epochs[-1] if self.epochs else 0))
        before = len(self.numbers)
        for number, key, value in messages(batch.content, batch.data):
            must(value not in self.refused, "%s was refused, and is committed in %s", value, self.key)
            self.payloads.setdefault(value, []).append(number)
            self.numbers.append(number)
            if self.compacts:
                self.keys[number] = key
                self.newest[key] = number
                if not value:
                    self.tombstones.add(number)
        return len(self.numbers) - before

    def epoch_of(self, number: int) -> int:
        """The leader epoch in which the committed batch with this number was written; 0: there is none."""
        at = bisect_right(self.firsts, number) - 1
        return self.batches[at].content.leader_epoch if at >= 0 and number <= self.batches[at].last else 0

    def delete(self, number: int) -> None:
        """A client asks to delete all messages before this one."""
        self.deleted = max(self.deleted, number)
        self.retained = max(self.retained, number)

    def next_from(self, number: int) -> int:
        """The first committed message from this number on; 0: none."""
        at = bisect_left(self.numbers, number)
        return self.numbers[at] if at < len(self.numbers) else 0

    def must_be_there(self, first: int, last: int) -> list[int]:
        """The messages of this stretch that no later one has superseded."""
        numbers = self.numbers[bisect_left(self.numbers, first) : bisect_right(self.numbers, last)]
        return [
            number
            for number in numbers
            if self.newest.get(self.keys.get(number, b"")) == number and number not in self.tombstones
        ]

    def had_newer(self, key: bytes | memoryview | None, value: bytes | memoryview, number: int) -> bool:
        """Whether this is a message from before the lossy election, and a later one of its key was chosen:
        who was chosen may have compacted it away, and the others need not."""
        was_there = number in self.before.get(bytes(value), ())
        return was_there and self.newest.get(bytes(key or b""), 0) > number

    def remember_before(self, payloads: dict[bytes, list[int]]) -> None:
        """These may be lost in a lossy election, or have been."""
        for value, numbers in payloads.items():
            self.before.setdefault(value, set()).update(numbers)

    def lossy(self, epoch: int) -> None:
        """An election in this epoch may have lost messages: nothing is promised of what was before."""
        self.generation += 1
        self.lossy_epoch = epoch
        self.waits = True
        self.remember_before(self.payloads)
        self.firsts, self.batches, self.epochs, self.numbers = [], [], [], []
        self.payloads, self.acknowledged, self.shown = {}, {}, {}
        self.keys, self.newest, self.tombstones = {}, {}, set()
        self.start, self.unsynced_through, self.retained, self.marked = 1, 0, self.deleted, 0
