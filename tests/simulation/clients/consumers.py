"""Simulated consumers: read messages, commit positions, and compare the messages with the books."""

from tank_protos import bundle
from tank_protos.error_codes import ConsumeFlag, ErrorCode
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    FetchPositionsRequest,
    FetchPositionsResponse,
    PositionToCommit,
)
from tank_protos.generated.tank.consume_response import FetchedPartition
from tank_protos.wire.errors import WireError
from tests.simulation.books.message_books import Key
from tests.simulation.clients.clients import Client
from tests.simulation.world.world import must

WAIT_MS = 1000
ONE_MESSAGE = 1
MOST_BYTES = 1 << 20
HASTE_US = 20_000
"""The pause between requests of a consumer that reads a whole log again."""


class Consumer(Client):
    """Reads a partition from its beginning on, in order, without a gap."""

    next = 1
    """The number that comes next."""
    sizes_bytes: tuple[int, ...] = (ONE_MESSAGE, 300, MOST_BYTES)
    """It asks for one of these at once, by chance."""
    flags = 0
    """Of its requests."""
    _strayed = False
    """It was shown messages that a lossy election may have taken."""
    _ends: dict[int, int]
    _began = 0
    """The generation of the books in which it began."""

    def _ask(self, number: int) -> None:
        if self._began != self.generation or self._strayed:  # what it has read may be gone
            self._began, self.next, self._strayed = self.generation, 1, False
        entry = ConsumePartition(self.target.partition, self.next, self.world.random.choice(self.sizes_bytes))
        topic = ConsumeTopic(self.target.topic, [entry])
        self._ends = self.books.ends_shown(self.target.key)
        self.send(ConsumeRequest(self.version, number, self.name, WAIT_MS, 0, self.flags, [topic]), number)

    def _take(self, message_id: int, payload: memoryview, key: Key, epoch: int) -> None:
        assert message_id == ConsumeResponse.ID
        answer = ConsumeResponse.decode(payload)
        [topic] = answer.topics
        if self.generation != self.partition_books.generation:
            return
        if topic.unknown or key != self.target.key:
            self.line.turn_away()
            return
        [entry] = topic.partitions
        # With messages comes the mark as this leader knows it; an answer without any shows the end.
        has_data = entry.flag in (ConsumeFlag.DATA, ConsumeFlag.SPARSE)
        shows_end = entry.flag == ConsumeFlag.OUT_OF_BOUNDS or (has_data and not entry.chunk_length)
        if shows_end and not self._strayed and not self.flags:
            self.books.shown_end(key, entry.high_water_mark, epoch, self._ends, self.generation)
        if has_data:
            self._take_data(entry, bytes(answer.chunks))
            if self._strayed:  # by a leader of before the election
                self.line.turn_away()
        elif entry.flag == ConsumeFlag.OUT_OF_BOUNDS:
            self._out_of_bounds(entry, epoch)
            self.ask()  # at once, and there: retention goes on
        else:
            self.line.turn_away()

    def _out_of_bounds(self, entry: FetchedPartition, epoch: int) -> None:
        if self._begins_later(entry.first_available, epoch):
            self.world.counts["consumers that were too late"] += 1
            self.next = entry.first_available
        elif epoch < max(self.partition_books.leaders, default=0):
            # It was replaced and hasn't heard of it: what came since it lacks, and can't tell.
            self.world.counts["consumers sent wrong by a leader of before"] += 1
            self.line.turn_away()
        else:
            must(False, "%s asks for %s, one behind what it read, and is told it is out of bounds",
                 self.name, self.next)  # fmt: skip

    def _begins_later(self, first_available: int, epoch: int) -> bool:
        """Whether nothing that must be there lies between what was asked for and the first one that is."""
        books = self.partition_books
        if books.compacts:
            return self.next < first_available and not books.must_be_there(self.next, first_available - 1)
        following = books.next_from(self.next)
        # A leader of before a lossy election isn't judged: nobody knows what its retention took.
        taken = first_available <= books.retained or (books.is_trimmed and epoch < books.lossy_epoch)
        return self.next < first_available and (taken or not following or following >= first_available)

    def _take_data(self, entry: FetchedPartition, chunks: bytes) -> None:
        if self.partition_books.may_show_changed_bytes and not self._is_committed(entry, chunks):
            self.world.counts["consumers shown changed bytes"] += 1
            self.line.turn_away()
            return
        self.answered += 1
        number = entry.base_sequence_number
        for one in bundle.bundles(memoryview(chunks)):
            for message in bundle.decode(one, number):
                number = message.sequence_number + 1
                if message.sequence_number >= self.next:
                    self._read(message.sequence_number, bytes(message.key or b""), bytes(message.value))

    def _is_committed(self, entry: FetchedPartition, chunks: bytes) -> bool:
        """Whether all that is shown can be decoded, counts (or did before a lossy election), and leaves out
        nothing that must be there."""
        books, number, expected = self.partition_books, entry.base_sequence_number, self.next
        try:
            for one in bundle.bundles(memoryview(chunks)):
                for message in bundle.decode(one, number):
                    shown, value = message.sequence_number, bytes(message.value)
                    number = shown + 1
                    if shown < self.next:
                        continue
                    if shown not in books.payloads.get(value, ()) and value not in books.before:
                        return False
                    if books.must_be_there(expected, shown - 1):
                        return False
                    expected = number
        except WireError:
            return False
        return True

    def _read(self, number: int, key: bytes, value: bytes) -> None:
        books = self.partition_books
        if self.books.read(self.target.key, number, value):
            expected = books.next_from(self.next)
            superseded = books.compacts and not books.must_be_there(self.next, number - 1)
            must(
                number == expected or superseded or self._strayed,
                "%s is shown %s, and expected %s",
                self.name,
                number,
                expected,
            )
        elif not (books.compacts and books.had_newer(key, value, number)):
            self._strayed = True
        # Else the replica that a lossy election chose had compacted it away, and this one keeps it.
        self.next = number + 1
        self.world.counts["messages read"] += 1

    @property
    def has_all(self) -> bool:
        """Whether it has read everything that is committed."""
        books = self.partition_books
        if self._strayed or self._began != books.generation:
            return False
        if books.compacts:
            return not books.must_be_there(self.next, books.end)
        return not books.next_from(self.next)

    def read_again(self) -> None:
        """From the first message on, with its next request, and in haste: a log that is long by now, read in
        small pieces, is to be read within the time in which the cluster comes to rest."""
        self._began = -1
        self._pause_us = min(self._pause_us, HASTE_US)


class FollowersConsumer(Consumer):
    """The same, from whichever broker it has asked, where that is in sync. The end that a follower shows may
    be lower than another's; its messages are judged as all are."""

    flags = 1


class Keeper(Client):
    """Keeps a group's position in a partition, always a higher one, now by this broker, now by that one."""

    _position = 0
    _asked = 0
    """The position that the request under way is to keep; 0: it reads."""
    _kept_since = 0

    def _ask(self, number: int) -> None:
        self._kept_since = self.books.kept(self.target.key, self.name)
        if self.world.chance(0.5):
            self._position += 1
            self._asked = self._position
            entry = PositionToCommit(self.target.topic, self.target.partition, self._asked, "")
            self.send(CommitPositionsRequest(0, number, self.name, positions=[entry]), number)
        else:
            self._asked = 0
            self.send(FetchPositionsRequest(0, number, self.name, [self.target.topic]), number)

    def _take(self, message_id: int, payload: memoryview, key: Key, epoch: int) -> None:
        error = self._judge(message_id, payload, key)
        if error != ErrorCode.NONE:
            self.world.counts[f"positions refused: {error:#x}"] += 1
        if error != ErrorCode.NONE or self.world.chance(0.2):
            self.line.turn_away()

    def _judge(self, message_id: int, payload: memoryview, key: Key) -> int:
        if message_id == CommitPositionsResponse.ID:
            kept = CommitPositionsResponse.decode(payload)
            error = kept.error or kept.results[0].error
            if error == ErrorCode.NONE:
                self.answered += 1
                self.world.counts["positions kept"] += 1
                self.books.keep(key, self.name, self._asked)
            return error
        assert message_id == FetchPositionsResponse.ID
        told = FetchPositionsResponse.decode(payload)
        if told.error == ErrorCode.NONE:  # not of a broker that knows no such topic, or an earlier one
            self.answered += 1
            partition = self.target.partition
            found = max((p.sequence_number for p in told.positions if p.partition == partition), default=0)
            must(
                found >= self._kept_since or self.books.are_positions_lost,
                "%s is told the position %s, after %s was kept",
                self.name,
                found,
                self._kept_since,
            )
        return told.error
