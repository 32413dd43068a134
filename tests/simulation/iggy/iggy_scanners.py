"""Iggy's clients that read a partition by offsets from its beginning on, in order, without a gap; and look at
its first and last messages in between."""

from dataclasses import dataclass

from tank_protos.generated.iggy import IggyConsumer, PollMessagesRequest
from tank_protos.iggy.eras import B3
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.identifiers import of_name
from tank_protos.iggy.kinds import ConsumerKind, PollingKind
from tests.simulation.books.committed import Key
from tests.simulation.books.message_books import MessageBooks
from tests.simulation.iggy.iggy_ledger import IggyLedger
from tests.simulation.iggy.iggy_visitor import STREAM, IggyVisitor
from tests.simulation.world.iggy_meant import IggyMeant
from tests.simulation.world.world import must
from tests.support.iggy.iggy_polls import read_poll

_COUNTS = (1, 3, 1000)
_LOOKS = 0.15
"""How often it asks for the first or last messages, or by time."""


@dataclass(slots=True)
class Reading:
    """How far a partition was read, in one generation of its books."""

    key: Key
    generation: int
    next: int = 1
    """The number that comes next."""
    has_strayed: bool = False
    """It was shown messages that a lossy election may have taken."""

    def read(self, who: str, books: MessageBooks, messages: list[tuple[int, bytes]]) -> None:
        """These are shown, by offset and payload, where the next one was asked for."""
        committed = books.of(self.key)
        for offset, payload in messages:
            number = offset + 1
            if books.read(self.key, number, payload):
                expected = committed.next_from(self.next)
                must(
                    number == expected or self.has_strayed,
                    "%s is shown %s in %s, and expected %s",
                    who, number, self.key, expected,
                )  # fmt: skip
            else:
                self.has_strayed = True
            self.next = number + 1
            books.world.counts["iggy messages read"] += 1


class IggyScanner(IggyVisitor):
    """One of them."""

    def __init__(self, ledger: IggyLedger, pause_us: int, name: str, topic: str, partition: int) -> None:
        super().__init__(ledger, pause_us, name)
        self._topic = topic
        self._partition = partition
        self._reading: Reading | None = None
        """None: it begins anew."""
        self._kind = PollingKind.OFFSET
        self._asked_at = 1
        self._generation = 0

    def next_request(self) -> None:
        chance = self.world.random
        reading = self._reading
        self._kind, value = PollingKind.OFFSET, 0 if reading is None else reading.next - 1
        if chance.random() < _LOOKS and not self.is_settled:
            self._kind = chance.choice((PollingKind.FIRST, PollingKind.LAST, PollingKind.TIMESTAMP))
            value = 1000 * self.world.now_ms() - chance.randrange(10_000_000)
        self._asked_at = value + 1
        request = PollMessagesRequest(
            IggyConsumer(ConsumerKind.CONSUMER, id=of_name(self.name)), of_name(STREAM), of_name(self._topic),
            1, self._partition, self._kind, value if self._kind is not PollingKind.LAST else 0,
            1000 if self.is_settled else chance.choice(_COUNTS), 0,
        )  # fmt: skip
        self.ask(request, self._topic)

    @property
    def has_nothing(self) -> bool:
        return bool(self.meant.topic_id) and self._partition >= self.meant.partitions

    def taken(self, meant: IggyMeant) -> None:
        self._generation = self.ledger.books.of(self._key).generation

    @property
    def _key(self) -> Key:
        return self.meant.topic_id, self._partition

    def took(self, payload: memoryview) -> None:
        key, books = self._key, self.ledger.books
        committed = books.of(key)
        if self._generation != committed.generation or not key[0]:
            self._reading = None
            return
        if committed.may_show_changed_bytes:  # it is judged again when they were found
            self._reading = None
            return
        polled = read_poll(B3, bytes(payload))
        must(polled.partition == self._partition, "%s gets partition %s", self.name, polled.partition)
        reading = self._reading
        if reading is None or (reading.key, reading.generation) != (key, committed.generation):
            # It has asked by what it knew of another topic of the name, or of what may be lost.
            reading = Reading(key, committed.generation)
            if self._asked_at != 1 or self._kind is not PollingKind.OFFSET:
                self._reading = reading
                for offset, payload_shown in polled.messages:
                    books.read(key, offset + 1, payload_shown)
                return
            self._reading = reading
        if self._kind is not PollingKind.OFFSET:
            Reading(key, committed.generation, has_strayed=True).read(self.name, books, polled.messages)
            return
        reading.read(self.name, books, polled.messages)
        if not committed.waits and polled.messages == [] and not reading.has_strayed:
            most = max(committed.end, committed.marked) - 1
            must(polled.current_offset <= max(most, 0), "%s is shown the end %s, committed is %s",
                 self.name, polled.current_offset, most)  # fmt: skip
        if reading.has_strayed:
            self._reading = None
            self.line.turn_away()

    def refused(self, error: IggyError) -> None:
        if error not in (IggyError.DISCONNECTED, IggyError.UNAUTHENTICATED):
            self._reading = None

    def read_again(self) -> None:
        """From the first message on."""
        self._reading = None

    @property
    def complaint(self) -> str:
        """What it has yet to read; empty: nothing."""
        reading = self._reading
        if self.has_nothing:
            return ""
        if reading is None:
            return f"{self.name} has read nothing"
        committed = self.ledger.books.of(reading.key)
        missing = committed.next_from(reading.next)
        if reading.generation != committed.generation or missing:
            return f"{self.name} has not read {missing} of {reading.key}"
        return ""
