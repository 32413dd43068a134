"""Consume (2): what is stored goes out as ranges of files; where nothing is, the request waits.

How each case is answered is in the wire reference, section 4; where we differ from it, in
docs/tank-compatibility.md.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

from tank_node.log.segment import Stretch
from tank_node.metrics import OK
from tank_node.output import Output
from tank_node.partition.numbering import FIRST_AVAILABLE
from tank_node.partition.partition import Partition, Reach
from tank_node.partition.waiters import Waiter
from tank_node.tank import redirect
from tank_node.tank.redirect import KNOWS_LEADERS
from tank_protos.error_codes import ConsumeFlag, ErrorCode
from tank_protos.generated.tank import ConsumeRequest
from tank_protos.wire.errors import OutOfRange

if TYPE_CHECKING:
    from tank_node.broker.broker import Broker
    from tank_node.tank.session import TankSession

PREFERS_THIS_BROKER: Final = 1
"""In a request's flags: what this broker has in sync is to be read here."""
_UNKNOWN_TOPIC: Final = b"\xff\xff"
_NO_PARTITION: Final = 0xFFFF
"""What `_UNKNOWN_TOPIC` reads as. No partition has this number, and no answer can name it."""
_start: Final = Struct("<BIIIB").pack
_flag: Final = Struct("<HB").pack
data_entry: Final = Struct("<HBQQI").pack
sparse_entry: Final = Struct("<HBQI").pack
bounds_entry: Final = Struct("<HBQQIQ").pack


class Relayed:
    """What another broker, which leads a partition, has sent for it."""

    __slots__ = ("chunk", "entry", "error")

    def __init__(self, entry: bytes, chunk: bytes = b"", error: str = "") -> None:
        self.entry = entry
        """The partition's part of the header."""
        self.chunk = chunk
        self.error = error
        """For the metrics; empty: there is none."""


class Wanted:
    """One partition of a request, and what was found."""

    __slots__ = ("fetch_bytes", "found", "number", "partition", "preferred_at", "sequence_number")

    def __init__(
        self, number: int, partition: Partition | None, sequence_number: int, fetch_bytes: int
    ) -> None:
        self.number = number
        self.partition = partition
        """None: it is not here."""
        self.sequence_number = sequence_number
        self.fetch_bytes = fetch_bytes
        self.found: Stretch | Reach | ConsumeFlag | Relayed = Reach.WAIT
        self.preferred_at: Broker | None = None
        """This broker, where the client prefers what it has to what the partition's leader has, and it could
        be read here when the request came."""

    @property
    def is_readable(self) -> bool:
        """Whether it can be read here now."""
        partition = self.partition
        return partition is not None and (not partition.unreadable or self.follows(partition))

    def follows(self, partition: Partition) -> bool:
        """Whether it is read here now though another broker leads it. partition: its own."""
        broker = self.preferred_at
        return broker is not None and partition.unreadable and broker.may_show(partition)


class WantedElsewhere(Wanted):
    """One that another broker leads, and what it has shown of it so far: nothing is read of it here."""

    __slots__ = ("first_available", "is_shown", "mark")

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted.number, None, wanted.sequence_number, wanted.fetch_bytes)
        self.is_shown = False
        """Whether the next two are known."""
        self.first_available = 0
        self.mark = 0


Topics: TypeAlias = list[tuple[str, int, list[Wanted] | None]]
"""Of a request, in its order: name, how many partitions it named, and these; None for an unknown topic."""


def consume_here(
    session: "TankSession", payload: memoryview, request: ConsumeRequest, topics: Topics
) -> None:
    """Answers at once when any partition has data or an error, or the client doesn't wait; else
    registers the wait. `topics`: what `resolve` makes of the request."""
    if len(topics) == 1 and (wanted := topics[0][2]) and len(wanted) == 1 and wanted[0].partition is not None:
        session.fetches.learn(payload, request, wanted[0].partition)
    ready = look(topics, session.answer_bytes, redirects=request.client_version >= KNOWS_LEADERS)
    wait_ms = min(request.max_wait_ms, session.limits.max_wait_ms)
    if ready or not wait_ms:
        session.metrics.consumed_now += 1
        hide_ends(topics, redirects=request.client_version >= KNOWS_LEADERS)
        answer(session, request.request_id, topics, woken=False)
        return
    partitions = _partitions(topics)
    entries = sum(count for _, count, _ in topics)
    if not session.may_wait(partitions, entries):
        hide_ends(topics, redirects=request.client_version >= KNOWS_LEADERS)
        answer(session, request.request_id, topics, woken=False)
        return
    if _is_deaf(topics):
        wait_ms = min(wait_ms, session.limits.deaf_wait_ms)
    min_bytes = min(request.min_bytes, session.fetch_bytes)
    FetchWait(session, request, topics, min_bytes).begin(partitions, wait_ms)


def resolve(session: "TankSession", request: ConsumeRequest) -> Topics:
    """Finds what a request names. Nothing is read yet."""
    known = session.broker.topics
    most = session.fetch_bytes
    prefers_this = bool(request.flags & PREFERS_THIS_BROKER)
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
            one = Wanted(number, partition, entry.sequence_number, fetch_bytes)
            if partition is None:
                if number == _NO_PARTITION:
                    raise OutOfRange("partition 65535 cannot be asked for: its number means an unknown topic")
                one.found = _ABSENT[topic.absence(number)]
            elif prefers_this and partition.unreadable and partition.can_tell(one.sequence_number):
                one.preferred_at = session.broker if session.broker.may_show(partition) else None
            wanted.append(one)
        topics.append((asked.name, len(wanted), wanted))
    return topics


_ABSENT = {
    ErrorCode.UNKNOWN_PARTITION: ConsumeFlag.UNKNOWN_PARTITION,
    ErrorCode.NO_LEADER: ConsumeFlag.NO_LEADER,
    ErrorCode.OTHER_LEADER: ConsumeFlag.OTHER_LEADER,
    ErrorCode.STORAGE: ConsumeFlag.NOT_OPENED,
}


def look(topics: Topics, left: int, *, redirects: bool, at_least: int = 0) -> bool:
    """Reads every partition that is here, about `left` bytes of all together; whether there is something to
    answer. `redirects`: the client knows the flags 0xfb to 0xfd."""
    ready = False
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
                if one.preferred_at is not None and one.follows(partition):
                    found = partition.fetch_as_follower(one.sequence_number, most)
                else:
                    found = partition.fetch(one.sequence_number, most)
                one.found = found
                if isinstance(found, Stretch):
                    left -= found.length
                elif found is Reach.UNREADABLE:
                    one.found = _refused(partition)
            if not redirects and one.found in _NEW_FLAGS:
                one.found = Reach.WAIT
            if one.found is not Reach.WAIT:
                ready = True
    return ready


def _refused(partition: Partition) -> ConsumeFlag:
    return _REFUSED.get(partition.refusal, ConsumeFlag.NOT_OPENED)


_REFUSED: Final = {
    ErrorCode.UNKNOWN_PARTITION: ConsumeFlag.UNKNOWN_PARTITION,
    ErrorCode.NO_LEADER: ConsumeFlag.NO_LEADER,
    ErrorCode.OTHER_LEADER: ConsumeFlag.OTHER_LEADER,
}
"""Why a partition that is here can't be read, where that is no trouble of its log."""


def hide_ends(topics: Topics, *, redirects: bool) -> None:
    """An empty answer shows the mark. Of a leader that is so new that an earlier one may have shown a higher
    one, it says that there is no leader yet; clients of the old document know no such answer."""
    for _, _, wanted in topics:
        for one in wanted or ():
            partition = one.partition
            if one.found is not Reach.WAIT or partition is None or one.preferred_at is not None:
                continue
            if redirects and not partition.settled:
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


def _is_deaf(topics: Topics) -> bool:
    """Whether something is waited for that can't be read here now, so that nothing would tell of its data."""
    return any(not one.is_readable for _, _, wanted in topics if wanted is not None for one in wanted)


def answer(session: "TankSession", request_id: int, topics: Topics, *, woken: bool) -> None:
    """Queues the header and the chunks. In the answer to a wait, bases are shaped as TANK does there."""
    head = bytearray()
    chunks: list[Output] = []
    has_ranges = False
    size = relayed = 0
    errors: list[str] = []
    for name, count, wanted in topics:
        raw = name.encode("utf-8", "surrogateescape")
        head.append(len(raw))
        head += raw
        head.append(count)
        if wanted is None:
            head += _UNKNOWN_TOPIC
            errors.append("unknown_topic")
            continue
        for one in wanted:
            found = one.found
            if isinstance(found, Stretch):
                size += found.length
                chunks.append(found)
                has_ranges = True
            elif isinstance(found, Relayed):
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
    length = len(head) + 5
    session.send(_start(2, 4 + length + size, length, request_id, len(topics)) + head)
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
    """The same for one that another broker leads: where, if that can be said."""
    address = redirect.address_of(session, topic, number)
    if address is None:
        return _flag(number, ConsumeFlag.NO_LEADER)
    return _flag(number, ConsumeFlag.OTHER_LEADER) + redirect.packed(address)


def _entry(one: Wanted, woken: bool) -> bytes:
    """A partition's part of the header."""
    found, partition = one.found, one.partition
    if isinstance(found, ConsumeFlag):
        return _flag(one.number, found)
    if isinstance(found, Relayed):
        return found.entry
    if isinstance(one, WantedElsewhere):
        return data_entry(one.number, ConsumeFlag.DATA, 0 if woken else one.first_available, one.mark, 0)
    if partition is None:  # a client of the old document has waited for what is not here
        return data_entry(one.number, ConsumeFlag.DATA, 0, 0, 0)
    mark = partition.high_water_mark
    if isinstance(found, Stretch):
        if found.sparse_first and not woken:
            return sparse_entry(one.number, ConsumeFlag.SPARSE, mark, found.length)
        return data_entry(one.number, ConsumeFlag.DATA, found.first, mark, found.length)
    first = partition.log.first_available
    if found is Reach.OUT_OF_BOUNDS:
        return bounds_entry(one.number, ConsumeFlag.OUT_OF_BOUNDS, 0, mark, 0, first)
    return data_entry(one.number, ConsumeFlag.DATA, 0 if woken else first, mark, 0)


class FetchWait(Waiter[Partition]):
    """A consume request that found nothing. It ends when `min_bytes` were appended to its partitions
    together, with an empty answer at its deadline, or when a partition is lost."""

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
        """It reads its partitions. Reading can find damage, by which all who wait there are `lost`, this one
        too: it ends once, when it has read."""
        self.began_us = session.broker.tick.monotonic_us
        self.numbers: dict[Partition, int] = {}
        """The lowest number that this request waits for in each partition."""

    def begin(self, partitions: tuple[Partition, ...], wait_ms: int) -> None:
        """Registers it: from now on "the end" and "the first" are numbers."""
        for _, _, wanted in self.topics:
            for one in wanted or ():
                if (partition := one.partition) is not None:
                    number = partition.next_number(one.sequence_number)
                    lowest = self.numbers.get(partition, number)
                    self.numbers[partition] = min(lowest, number)
                    # A log that never held a message may begin anywhere: who waits wants that number.
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
        # What came since the wait began is sent whole, as TANK does: min_bytes may be more than fetch_size.
        at_least = min(self.gathered, self.session.fetch_bytes)
        self._look(at_least)

    def settled(self, partition: Partition) -> None:
        self._look(0)  # a number beyond the end is told so now

    def _look(self, at_least: int) -> None:
        self.looking = True
        ready = look(self.topics, self.session.answer_bytes, redirects=self.redirects, at_least=at_least)
        was_lost, self.looking = not self.looking, False
        if ready or was_lost:
            self._finish()

    def lost(self, partition: Partition) -> None:
        if self._still_follows(partition):
            return
        if self.looking or self.done:
            self.looking = False  # tells `_look`
            return
        self.looking = True  # others may be found damaged now
        look(self.topics, self.session.answer_bytes, redirects=self.redirects)
        self._finish()

    def expired(self) -> None:
        # Empty even if something came: fewer bytes than the client wants to be woken for.
        for _, _, wanted in self.topics:
            for one in wanted or ():
                if (partition := one.partition) is not None:
                    preferred = one.preferred_at is not None and not one.is_readable
                    one.found = _refused(partition) if preferred else Reach.WAIT
        self._finish()

    def _still_follows(self, partition: Partition) -> bool:
        """Whether something that is read here, though another broker leads it, goes on to be: what the view
        said anew of it was no loss."""
        for _, _, wanted in self.topics:
            for one in wanted or ():
                if one.partition is partition and one.preferred_at is not None:
                    return one.follows(partition)
        return False

    def _finish(self) -> None:
        hide_ends(self.topics, redirects=self.redirects)
        self._end()
        answer(self.session, self.request_id, self.topics, woken=True)

    def _end(self) -> None:
        session = self.session
        session.end_wait(self)
        waited_us = session.broker.tick.monotonic_us - self.began_us
        session.metrics.wait_latency.add(waited_us / 1_000_000)
