"""Consume (2): stored batches go out as ranges of files; without any, the request waits.

docs/protocol/README.md has the answer of each case; docs/tank-compatibility.md has the differences from TANK.
"""

from typing import TYPE_CHECKING, Final, TypeAlias

from tank_node.metrics import OK
from tank_node.output import Output
from tank_node.partition.numbering import FIRST_AVAILABLE
from tank_node.partition.partition import Partition
from tank_node.partition.reach import Reach
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Waiter
from tank_node.segment.segment import FileRange
from tank_node.tank import redirect
from tank_node.tank.converted_chunk import ConvertedChunk
from tank_node.tank.redirect import KNOWS_LEADERS
from tank_protos.error_codes import ConsumeFlag
from tank_protos.generated.tank import ConsumeRequest
from tank_protos.generated.tank.fast_writers import (
    bounds_entry,
    consume_head,
    data_entry,
    flag_entry,
    leader_entry,
    records_entry,
    sparse_entry,
    topic_head,
    unknown_topic,
)
from tank_protos.wire.errors import OutOfRange

if TYPE_CHECKING:
    from tank_node.broker.broker import Broker
    from tank_node.tank.converted_chunks import ChunkConverter
    from tank_node.tank.session import TankSession

PREFERS_THIS_BROKER: Final = 1
"""A flag of a request: the client prefers to read from this broker, even where that is an in-sync
follower."""
TAKES_RECORD_BATCHES: Final = 2
"""A flag of a request: the client reads the record batches of topics of Kafka's format as they are stored."""
_NO_PARTITION: Final = 0xFFFF
"""The partition number that marks an unknown topic in an answer. No partition has this number."""


class RemoteResult:
    """The part of an answer that the leader of a partition, another broker, has sent for it."""

    __slots__ = ("chunk", "entry", "error")

    def __init__(self, entry: bytes, chunk: bytes = b"", error: str = "") -> None:
        self.entry = entry
        """The partition's entry in the answer's header."""
        self.chunk = chunk
        self.error = error
        """The error's name for the metrics; empty without an error."""


class FetchTarget:
    """One partition of a request, and its result."""

    __slots__ = (
        "as_stored", "fetch_bytes", "found", "number", "partition", "preferred_at", "sequence_number"
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        partition: Partition | None,
        sequence_number: int,
        fetch_bytes: int,
        *,
        as_stored: bool,
    ) -> None:
        self.number = number
        self.partition = partition
        """None: this broker has no replica of it open."""
        self.as_stored = as_stored
        """Whether the client takes record batches; else they are converted for it."""
        self.sequence_number = sequence_number
        self.fetch_bytes = fetch_bytes
        self.found: FileRange | ConvertedChunk | Reach | ConsumeFlag | RemoteResult = Reach.WAIT
        self.preferred_at: Broker | None = None
        """This broker, if the client prefers to read here though another broker leads the partition, and
        could do so when the request came; else None."""

    @property
    def is_readable(self) -> bool:
        """Whether the partition can be read at this broker now."""
        partition = self.partition
        return partition is not None and (not partition.unreadable or self.follows(partition))

    @property
    def is_converted(self) -> bool:
        """Whether stored batches become bundles in the answer."""
        partition = self.partition
        return partition is not None and partition.stores_record_batches and not self.as_stored

    def follows(self, partition: Partition) -> bool:
        """Whether the partition is read from this broker's follower now. `partition`: the target's own."""
        broker = self.preferred_at
        return broker is not None and partition.unreadable and broker.may_show(partition)


class RemoteTarget(FetchTarget):
    """A partition that another broker leads, with the ends that the leader has named. It isn't read here."""

    __slots__ = ("first_available", "is_shown", "mark")

    def __init__(self, wanted: FetchTarget) -> None:
        super().__init__(
            wanted.number, None, wanted.sequence_number, wanted.fetch_bytes, as_stored=wanted.as_stored
        )
        self.is_shown = False
        """Whether the leader has named `first_available` and `mark`."""
        self.first_available = 0
        self.mark = 0


Topics: TypeAlias = list[tuple[str, int, list[FetchTarget] | None]]
"""The topics of a request, in its order: name, count of partitions, and the partitions; None for an unknown
topic."""


def consume(session: "TankSession", payload: memoryview) -> None:
    """Answers from this broker's own replicas, or lets the request wait."""
    request = ConsumeRequest.decode(payload)
    session.client_id = request.client_id
    redirect.check_mark(session, request.client_version)
    consume_here(session, payload, request, resolve(session, request))


def consume_here(
    session: "TankSession", payload: memoryview, request: ConsumeRequest, topics: Topics
) -> None:
    """Answers at once when any partition has data or an error, or the client doesn't wait; else lets the
    request wait. `topics`: the result of `resolve`."""
    if len(topics) == 1 and (wanted := topics[0][2]) and len(wanted) == 1:
        partition = wanted[0].partition
        if partition is not None and not partition.stores_record_batches:
            session.fetches.learn(payload, request, partition)
    ready = look(topics, session.answer_bytes, redirects=request.client_version >= KNOWS_LEADERS)
    wait_ms = min(request.max_wait_ms, session.limits.max_wait_ms)
    if ready or not wait_ms:
        session.metrics.consumed_now += 1
        hide_unknown_ends(topics, redirects=request.client_version >= KNOWS_LEADERS)
        answer(session, request.request_id, topics, woken=False)
        return
    partitions = _partitions(topics)
    entries = sum(count for _, count, _ in topics)
    if not session.may_wait(partitions, entries):
        hide_unknown_ends(topics, redirects=request.client_version >= KNOWS_LEADERS)
        answer(session, request.request_id, topics, woken=False)
        return
    if _hears_nothing_new(topics):
        wait_ms = min(wait_ms, session.limits.deaf_wait_ms)
    min_bytes = min(request.min_bytes, session.fetch_bytes)
    FetchWait(session, request, topics, min_bytes).begin(partitions, wait_ms)


def resolve(session: "TankSession", request: ConsumeRequest) -> Topics:
    """Finds the topics and partitions that a request names. Reads no batches yet."""
    known = session.broker.topics
    most = session.fetch_bytes
    prefers_this = bool(request.flags & PREFERS_THIS_BROKER)
    as_stored = bool(request.flags & TAKES_RECORD_BATCHES)
    topics: Topics = []
    for asked in request.topics:
        topic = known.get(asked.name)
        if topic is None:
            topics.append((asked.name, len(asked.partitions), None))
            continue
        wanted = []
        for entry in asked.partitions:
            number = entry.partition
            partition = topic.partitions.get(number)
            fetch_bytes = min(entry.fetch_size, most)
            one = FetchTarget(number, partition, entry.sequence_number, fetch_bytes, as_stored=as_stored)
            if partition is None:
                if number == _NO_PARTITION:
                    raise OutOfRange("partition 65535 doesn't exist: its number marks an unknown topic")
                one.found = _flag_of(topic.absence(number))
            elif prefers_this and partition.unreadable and partition.can_tell(one.sequence_number):
                one.preferred_at = session.broker if session.broker.may_show(partition) else None
            wanted.append(one)
        topics.append((asked.name, len(wanted), wanted))
    return topics


def look(topics: Topics, left: int, *, redirects: bool, at_least: int = 0) -> bool:
    """Reads every partition that this broker has, about `left` bytes in all. Returns whether any has data or
    an error to answer. `redirects`: whether the client knows the flags 0xfb to 0xfd."""
    ready = False
    converter: ChunkConverter | None = None
    for _, _, wanted in topics:
        if wanted is None:
            ready = True
            continue
        for one in wanted:
            partition = one.partition
            if partition is not None:
                if left <= 0:
                    one.found = Reach.WAIT
                    continue
                most = min(max(one.fetch_bytes, at_least), left)
                if one.is_converted:
                    converter = converter or _converter(partition)
                    if converter.is_spent:
                        one.found = Reach.WAIT
                        continue
                    most = converter.most(most)
                if one.preferred_at is not None and one.follows(partition):
                    found = partition.fetch_as_follower(one.sequence_number, most)
                else:
                    found = partition.fetch(one.sequence_number, most)
                one.found = found
                if isinstance(found, FileRange):
                    left -= found.length
                    if converter is not None and one.is_converted:
                        one.found = converter.convert(partition, found)
                if one.found is Reach.UNREADABLE:
                    one.found = _flag_of(partition.refusal)
            if not redirects and one.found in _NEW_FLAGS:
                one.found = Reach.WAIT
            if one.found is not Reach.WAIT:
                ready = True
    return ready


def _converter(partition: Partition) -> "ChunkConverter":
    from tank_node.tank.converted_chunks import ChunkConverter  # see segment.batch_formats.format_of

    return ChunkConverter(partition.limits.converted_answer_bytes)


def _flag_of(refusal: Refusal) -> ConsumeFlag:
    """The flag for a partition that this broker doesn't have, or can't read."""
    return _FLAGS.get(refusal, ConsumeFlag.NOT_OPENED)


_FLAGS: Final = {
    Refusal.UNKNOWN_PARTITION: ConsumeFlag.UNKNOWN_PARTITION,
    Refusal.NO_LEADER: ConsumeFlag.NO_LEADER,
    Refusal.OTHER_LEADER: ConsumeFlag.OTHER_LEADER,
}
"""The flags for other reasons than the partition's log."""


def hide_unknown_ends(topics: Topics, *, redirects: bool) -> None:
    """Marks partitions without data as leaderless while their new leader doesn't know the end: an empty
    answer would show a high-water mark that may be lower than one shown before. Not for clients of the old
    document (`redirects` is False), which don't know this flag."""
    for _, _, wanted in topics:
        for one in wanted or ():
            partition = one.partition
            if one.found is not Reach.WAIT or partition is None or one.preferred_at is not None:
                continue
            if redirects and not partition.end_known:
                one.found = ConsumeFlag.NO_LEADER


_NEW_FLAGS: Final = (ConsumeFlag.NOT_OPENED, ConsumeFlag.NO_LEADER, ConsumeFlag.OTHER_LEADER)


def _partitions(topics: Topics) -> tuple[Partition, ...]:
    return tuple(
        {
            one.partition: None
            for _, _, wanted in topics
            if wanted is not None
            for one in wanted
            if one.partition is not None and one.is_readable
        }
    )


def _hears_nothing_new(topics: Topics) -> bool:
    """Whether the request waits for a partition that can't be read here now, so that new data in it would not
    wake the request."""
    return any(not one.is_readable for _, _, wanted in topics if wanted is not None for one in wanted)


def answer(session: "TankSession", request_id: int, topics: Topics, *, woken: bool) -> None:
    """Queues the header and the chunks. `woken`: the request has waited; TANK's base numbers differ then."""
    head = bytearray()
    chunks: list[Output] = []
    has_ranges = False
    size = relayed = 0
    errors: list[str] = []
    for name, count, wanted in topics:
        if wanted is None:
            head += unknown_topic(name, count)
            errors.append("unknown_topic")
            continue
        head += topic_head(name, count)
        for one in wanted:
            found = one.found
            if isinstance(found, FileRange):
                size += found.length
                chunks.append(found)
                has_ranges = True
            elif isinstance(found, ConvertedChunk):
                size += len(found.data)
                relayed += len(found.data)
                chunks.append(found.data)
            elif isinstance(found, RemoteResult):
                size += len(found.chunk)
                relayed += len(found.chunk)
                if found.chunk:
                    chunks.append(found.chunk)
                if found.error:
                    errors.append(found.error)
            elif found is not Reach.WAIT:
                errors.append(found.name.lower())
            if found is ConsumeFlag.OTHER_LEADER:
                head += _elsewhere(session, name, one.number)
            else:
                head += _entry(one, woken)
    session.send(consume_head(request_id, len(topics), len(head), size) + head)
    if chunks:
        session.out += chunks
        session.out_bytes += relayed
        session.has_chunks = session.has_chunks or has_ranges
    metrics = session.metrics
    metrics.consumed_bytes += size
    metrics.requests[2, errors[0] if errors else OK] += 1
    for error in errors:
        metrics.errors["consume", error] += 1


def _elsewhere(session: "TankSession", topic: str, number: int) -> bytes:
    """The entry of a partition that another broker leads: with its address, if the message can carry that."""
    address = redirect.address_of(session, topic, number)
    if address is None:
        return flag_entry(number, ConsumeFlag.NO_LEADER)
    return leader_entry(number, *address)


def _entry(one: FetchTarget, woken: bool) -> bytes:
    """The entry of a partition in the header."""
    found, partition = one.found, one.partition
    if isinstance(found, ConsumeFlag):
        return flag_entry(one.number, found)
    if isinstance(found, RemoteResult):
        return found.entry
    if isinstance(one, RemoteTarget):
        return data_entry(one.number, 0 if woken else one.first_available, one.mark, 0)
    if partition is None:  # a client of the old document has waited for a partition that is not here
        return data_entry(one.number, 0, 0, 0)
    mark = partition.high_water_mark
    if isinstance(found, ConvertedChunk):
        if found.sparse_first and not woken:
            return sparse_entry(one.number, mark, len(found.data))
        return data_entry(one.number, found.first, mark, len(found.data))
    if isinstance(found, FileRange):
        if partition.stores_record_batches:
            return records_entry(one.number, mark, found.length, partition.log.first_available)
        if found.sparse_first and not woken:
            return sparse_entry(one.number, mark, found.length)
        return data_entry(one.number, found.first, mark, found.length)
    first = partition.log.first_available
    if found is Reach.OUT_OF_BOUNDS:
        return bounds_entry(one.number, 0, mark, 0, first)
    return data_entry(one.number, 0 if woken else first, mark, 0)


class FetchWait(Waiter[Partition]):
    """A consume request that waits for data. It ends when `min_bytes` were appended to its partitions
    together, when this broker loses one of them, or at its deadline with an empty answer."""

    __slots__ = (
        "began_us",
        "gathered",
        "looking",
        "min_bytes",
        "numbers",
        "redirects",
        "request_id",
        "session",
        "topics",
        "was_lost",
    )

    def __init__(
        self, session: "TankSession", request: ConsumeRequest, topics: Topics, min_bytes: int
    ) -> None:
        super().__init__()
        self.session = session
        self.request_id = request.request_id
        self.redirects = request.client_version >= KNOWS_LEADERS
        self.topics = topics
        self.min_bytes = min_bytes
        self.gathered = 0
        self.looking = False
        """True while this request reads its partitions. Reading may find damage in one or several, and then
        calls `lost` of every request that waits for them, this one included: it ends once, after it has
        read."""
        self.was_lost = False
        """Whether a partition was lost while this request read."""
        self.began_us = session.broker.tick.monotonic_us
        self.numbers: dict[Partition, int] = {}
        """The lowest number that this request waits for in each partition."""

    def begin(self, partitions: tuple[Partition, ...], wait_ms: int) -> None:
        """Begins the wait, and replaces "the end" and "the first" by the numbers that they mean now."""
        for _, _, wanted in self.topics:
            for one in wanted or ():
                if (partition := one.partition) is not None:
                    number = partition.next_number(one.sequence_number)
                    lowest = self.numbers.get(partition, number)
                    self.numbers[partition] = min(lowest, number)
                    # A log that never held a message may begin at any number, which this request wants then.
                    starts_anywhere = number <= 1 and not partition.log.first_available
                    one.sequence_number = FIRST_AVAILABLE if starts_anywhere else number
        self.entries = sum(count for _, count, _ in self.topics)
        self.session.begin_wait(self, partitions, wait_ms)

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        if self.numbers[partition] > partition.high_water_mark:
            return
        self.gathered += appended_bytes
        if self.gathered < self.min_bytes:
            return
        # All data since the wait began is sent, as TANK does: min_bytes may be more than fetch_size.
        at_least = min(self.gathered, self.session.fetch_bytes)
        self._look(at_least)

    def end_known(self, partition: Partition) -> None:
        self._look(0)  # a number beyond the end gets its answer now

    def _look(self, at_least: int) -> None:
        self.looking = True
        ready = look(self.topics, self.session.answer_bytes, redirects=self.redirects, at_least=at_least)
        self.looking = False
        if ready or self.was_lost:
            self._finish()

    def lost(self, partition: Partition) -> None:
        if self._still_follows(partition):
            return
        if self.looking or self.done:
            self.was_lost = True
            return
        self.looking = True  # others may be found damaged now
        look(self.topics, self.session.answer_bytes, redirects=self.redirects)
        self._finish()

    def expired(self) -> None:
        # Empty even if data came: it has fewer bytes than min_bytes.
        for _, _, wanted in self.topics:
            for one in wanted or ():
                if (partition := one.partition) is not None:
                    preferred = one.preferred_at is not None and not one.is_readable
                    one.found = _flag_of(partition.refusal) if preferred else Reach.WAIT
        self._finish()

    def _still_follows(self, partition: Partition) -> bool:
        """Whether the partition, which this request reads from this broker's follower, can still be read
        there after a change of the view."""
        for _, _, wanted in self.topics:
            for one in wanted or ():
                if one.partition is partition and one.preferred_at is not None:
                    return one.follows(partition)
        return False

    def _finish(self) -> None:
        hide_unknown_ends(self.topics, redirects=self.redirects)
        self._end()
        answer(self.session, self.request_id, self.topics, woken=True)

    def _end(self) -> None:
        session = self.session
        session.end_wait(self)
        waited_us = session.broker.tick.monotonic_us - self.began_us
        session.metrics.wait_latency.add(waited_us / 1_000_000)
