"""Iggy's consumers that stand alone: they poll behind what is stored, store how far they came, and look it
up. A consumer whose request was not answered goes on under another name: so it always knows what may be
stored.
"""

from dataclasses import dataclass, field
from enum import Enum

from tank_node.coordinators.iggy.consumer_ids import named_consumer
from tank_protos.generated.iggy import (
    DeleteConsumerOffsetRequest,
    GetConsumerOffsetRequest,
    GetConsumerOffsetResponse,
    IggyConsumer,
    PollMessagesRequest,
    StoreConsumerOffsetRequest,
)
from tank_protos.iggy.eras import B3
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import ConsumerKind, PollingKind
from tests.simulation.iggy.iggy_ledger import IggyLedger
from tests.simulation.iggy.iggy_marks import MarkPlace
from tests.simulation.iggy.iggy_visitor import STREAM, IggyVisitor
from tests.simulation.world.iggy_meant import IggyMeant
from tests.simulation.world.world import must
from tests.support.iggy.iggy_polls import read_poll

_NOTHING = 0
"""Stands for no stored offset: the message that comes next is the first one."""


class Asks(Enum):
    """What a request under way asks for."""

    POLL = 0
    """Behind what is stored; what is polled is stored."""
    READ = 1
    """The same; what is polled is stored by a request of its own."""
    STORE = 2
    GET = 3
    DELETE = 4


@dataclass(slots=True)
class _Known:
    """What a consumer knows of its offset in one partition of one topic."""

    place: MarkPlace
    generation: int
    """Of the partition's books."""
    floor: int
    may_be: set[int] = field(default_factory=lambda: {_NOTHING})
    """The offsets of the next message, one of which is stored."""
    ever: set[int] = field(default_factory=lambda: {_NOTHING})
    """All that were ever stored: a leader that was replaced, and has yet to hear of it, knows an older
    one."""
    last: int = -1
    """The offset of the last message that was read and is not stored; -1: none."""


class IggyLoner(IggyVisitor):
    """One of them, in one partition."""

    def __init__(self, ledger: IggyLedger, pause_us: int, name: str, topic: str, partition: int) -> None:
        super().__init__(ledger, pause_us, name)
        self._topic = topic
        self._partition = partition
        self._lives = 0
        self._known: _Known | None = None
        self._asks = Asks.POLL
        self._value = 0
        self._before: tuple[int, int, int] = (0, 0, 0)
        """When a broker took the request: the partition's generation, its floor, and how many offsets were
        stored."""

    @property
    def _consumer(self) -> str:
        return f"{self.name}.{self._lives}"

    # --- questions ---

    def next_request(self) -> None:
        chance, known = self.world.random, self._known
        self._asks = chance.choice((Asks.POLL, Asks.POLL, Asks.READ, Asks.GET))
        if known is not None and known.last >= 0:
            self._asks = Asks.STORE
        elif known is not None and chance.random() < 0.03:
            self._asks = chance.choice((Asks.DELETE, Asks.STORE))
        who = IggyConsumer(ConsumerKind.CONSUMER, id=of_name(self._consumer))
        named = (who, of_name(STREAM), of_name(self._topic), 1, self._partition)
        match self._asks:
            case Asks.POLL | Asks.READ:
                auto = int(self._asks is Asks.POLL)
                count = chance.choice((1, 3, 20))
                self.ask(PollMessagesRequest(*named, PollingKind.NEXT, 0, count, auto), self._topic)
            case Asks.STORE:
                assert known is not None
                highest = max(known.may_be)
                self._value = known.last if known.last >= 0 else chance.randrange(highest) if highest else 0
                self.ask(StoreConsumerOffsetRequest(*named, self._value), self._topic)
            case Asks.GET:
                self.ask(GetConsumerOffsetRequest(*named), self._topic)
            case Asks.DELETE:
                self.ask(DeleteConsumerOffsetRequest(*named), self._topic)

    @property
    def has_nothing(self) -> bool:
        return bool(self.meant.topic_id) and self._partition >= self.meant.partitions

    def taken(self, meant: IggyMeant) -> None:
        if not meant.topic_id:
            return
        marks = self.ledger.marks
        place = MarkPlace(named_consumer(self._consumer), meant.topic_id, self._partition)
        books = self.ledger.books.of(place[1:])
        floor = marks.floors.get(place[1:], -1)
        known = self._known
        if known is None or (known.place, known.generation, known.floor) != (place, books.generation, floor):
            known = self._known = _Known(place, books.generation, floor)
        self._before = books.generation, floor, len(marks.history[place])
        if self._asks is Asks.STORE:
            marks.explicit[place].add(self._value + 1)

    # --- answers ---

    def took(self, payload: memoryview) -> None:
        known = self._known
        if known is None or known.place.topic_id != self.meant.topic_id or self._is_over(known):
            self._begin_again()
            return
        match self._asks:
            case Asks.POLL | Asks.READ:
                self._polled(known, payload)
            case Asks.STORE:
                self._stored(known)
            case Asks.GET:
                self._got(known, payload)
            case Asks.DELETE:
                known.may_be = {_NOTHING}
                known.ever.add(_NOTHING)

    def _is_over(self, known: _Known) -> bool:
        """Whether the partition, or what is stored of it, is not what it was when it asked."""
        books, floors = self.ledger.books.of(known.place[1:]), self.ledger.marks.floors
        now = books.generation, floors.get(known.place[1:], -1)
        lost = books.waits or books.may_show_changed_bytes or self.ledger.marks.may_be_lost
        return now != self._before[:2] or lost

    def _is_newest(self, known: _Known) -> bool:
        """Whether the broker that answered is the leader, and has been since it was asked."""
        newest = self.ledger.newest_epoch(known.place[1:])
        return (self._partition, newest) in self.meant.led

    def _polled(self, known: _Known, payload: memoryview) -> None:
        polled = read_poll(B3, bytes(payload))
        books = self.ledger.books
        committed = books.of(known.place[1:])
        must(polled.partition == self._partition, "%s gets partition %s", self.name, polled.partition)
        for offset, shown in polled.messages:
            books.read(known.place[1:], offset + 1, shown)
            self.world.counts["iggy messages read"] += 1
        if not polled.messages:
            return
        first, last = polled.messages[0][0], polled.messages[-1][0]
        begins = known.may_be if self._is_newest(known) else known.ever
        expected = {committed.next_from(each + 1) - 1 for each in begins}
        must(first in expected, "%s polls %s of %s next, and stored was one of %s",
             self._consumer, first, known.place, tuple(sorted(begins)))  # fmt: skip
        if self._asks is Asks.POLL:
            known.may_be.add(last + 1)
            known.ever.add(last + 1)
        else:
            known.last = last

    def _stored(self, known: _Known) -> None:
        """What is answered is in the log, or something newer of this consumer."""
        committed, known.last = self._value + 1, -1
        history = self.ledger.marks.history[known.place][self._before[2] :]
        must(
            any(mark.committed == committed for mark in history),
            "%s is told that %s is stored in %s, and the log has %s",
            self._consumer, self._value, known.place, tuple(history),
        )  # fmt: skip
        known.may_be = {committed}
        known.ever.add(committed)

    def _got(self, known: _Known, payload: memoryview) -> None:
        found = _NOTHING
        if payload:
            answer = GetConsumerOffsetResponse.decode(payload, B3.version)
            must(answer.partition == self._partition, "%s gets partition %s", self.name, answer.partition)
            found = answer.stored_offset + 1
        allowed = known.may_be if self._is_newest(known) else known.ever
        must(found in allowed, "%s is told that %s is stored in %s, and it is one of %s",
             self._consumer, found - 1, known.place, tuple(sorted(allowed)))  # fmt: skip
        self.world.counts["iggy offsets shown"] += 1

    def refused(self, error: IggyError) -> None:
        if self._asks is not Asks.GET:
            self._begin_again()

    def lost(self, *, was_waiting: bool) -> None:
        if was_waiting and self._asks is not Asks.GET:
            self._begin_again()

    def _begin_again(self) -> None:
        """Nobody knows what is stored: another consumer goes on."""
        self._known = None
        self._lives += 1
