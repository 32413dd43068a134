"""Those who write and read messages, and compare what they are told with the books.

A message's value names its producer and counts: every message is like no other. A producer has one request
under way. One that is idempotent sends it until it knows the outcome; another never sends one twice.
"""

from dataclasses import dataclass

from tank_protos import bundle
from tank_protos.error_codes import ConsumeFlag, ErrorCode, ProduceError
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    InitProducerRequest,
    InitProducerResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.simulation.client_lines import PATIENCE_US, ClientLine
from tests.simulation.message_books import Key, MessageBooks
from tests.simulation.world import MS, World, must

CLIENT_VERSION = 3
WAIT_MS = 1000


@dataclass(slots=True, frozen=True)
class Target:
    """A partition of a topic that exists."""

    topic: str
    topic_id: int
    partition: int

    @property
    def key(self) -> Key:
        """As the books have it."""
        return self.topic_id, self.partition


class Client:
    """What all of them do: ask, wait, and turn to another broker when it takes too long."""

    def __init__(self, world: World, books: MessageBooks, target: Target, pause_us: int) -> None:
        self.world = world
        self.books = books
        self.target = target
        self.active = True
        self.retired = False
        """Its topic is about to be deleted: nothing that it is told counts any more."""
        self.answered = 0
        """Requests that ended well."""
        self.line: ClientLine
        self._pause_us = pause_us
        self._request = 0
        self._waiting = False

    def act(self) -> None:
        """The next request, when none is under way; again and again."""
        if self.retired:
            return
        self.world.after(self.world.between(1, 2 * self._pause_us), None, self.act)
        if not self.line.is_open:
            if self.active or self._unsure():
                self.line.connect()
        elif not self._waiting and (self.active or self._unsure()):
            self._request += 1
            self._waiting = True
            number = self._request
            self._ask(number)
            self.world.after(PATIENCE_US, None, lambda: self._give_up(number))

    def _give_up(self, number: int) -> None:
        if self._waiting and self._request == number:
            self.line.turn_away()

    def retire(self) -> None:
        """It asks nothing any more."""
        self.retired = True
        self._waiting = False
        self.line.hang_up()

    def lost(self) -> None:
        """The connection is gone."""
        if self._waiting:
            self._waiting = False
            self._unanswered()

    def heard(self, message_id: int, payload: memoryview) -> None:
        """An answer."""
        if not self._waiting:
            return
        self._waiting = False
        self._take(message_id, payload)

    def _unsure(self) -> bool:
        """Whether it has to go on asking even when it is to begin nothing new."""
        return False

    def _ask(self, number: int) -> None:
        raise NotImplementedError

    def _take(self, message_id: int, payload: memoryview) -> None:
        raise NotImplementedError

    def _unanswered(self) -> None:
        """Nobody knows what became of the request."""


class Producer(Client):
    """Not idempotent: never sends anything twice."""

    _count = 0

    def __init__(self, world: World, books: MessageBooks, target: Target, pause_us: int, name: str) -> None:
        super().__init__(world, books, target, pause_us)
        self.name = name
        self._sent: list[bytes] = []

    def _values(self) -> list[bytes]:
        values = []
        for _ in range(self.world.random.choice((1, 1, 3))):
            self._count += 1
            values.append(b"%s:%d" % (self.name.encode(), self._count))
        return values

    def _ask(self, number: int) -> None:
        self._sent = self._values()
        batch = memoryview(bundle.as_batch(bundle.encode(self._sent, timestamps=self.world.now_ms())))
        topic = ProduceTopic(self.target.topic, [ProducePartition(self.target.partition, batch)])
        self.line.send(ProduceRequest(CLIENT_VERSION, number, self.name, 0, 3000, [topic]))

    def _take(self, message_id: int, payload: memoryview) -> None:
        assert message_id == ProduceResponse.ID
        error = ProduceResponse.decode(payload).results[0].error
        if error == ProduceError.NONE:
            self.answered += 1
            self.world.counts["produces acknowledged"] += 1
            for value in self._sent:
                self.books.acknowledged(self.target.key, value)
            return
        self.world.counts[f"produces refused: {error:#x}"] += 1
        if error != ProduceError.NOT_ACKNOWLEDGED_IN_TIME:
            self.world.say(self.name, "is refused %s by %#x", self._sent[0], error)
            self.books.refused(self.target.key, self._sent)
        if error != ProduceError.NOT_ENOUGH_REPLICAS:
            self.line.turn_away()


class IdempotentProducer(Producer):
    """Sends a batch until it knows that it is stored, and goes on with the next."""

    def __init__(self, world: World, books: MessageBooks, target: Target, pause_us: int, name: str) -> None:
        super().__init__(world, books, target, pause_us, name)
        self._producer_id = 0
        self._epoch = 0
        self._sequence = 0
        self._tries = 0

    def _unsure(self) -> bool:
        return bool(self._sent)

    def _ask(self, number: int) -> None:
        if not self._producer_id:
            self.line.send(InitProducerRequest(0, number, "", 0))
            return
        if not self._sent:
            self._sent = self._values()
            self._tries = 0
        self._tries += 1
        batch = memoryview(bundle.as_batch(bundle.encode(self._sent, timestamps=1)))
        entry = IdempotentPartition(self.target.partition, self._sequence, 1, batch)
        topic = IdempotentTopic(self.target.topic, [entry])
        self.line.send(
            IdempotentProduceRequest(0, number, self.name, 0, 3000, self._producer_id, self._epoch, [topic])
        )

    def _take(self, message_id: int, payload: memoryview) -> None:
        if message_id == InitProducerResponse.ID:
            made = InitProducerResponse.decode(payload)
            if made.error == ErrorCode.NONE:
                self._producer_id, self._epoch = made.producer_id, made.producer_epoch
            else:
                self.line.turn_away()
            return
        assert message_id == IdempotentProduceResponse.ID
        result = IdempotentProduceResponse.decode(payload).topics[0].partitions[0]
        if result.error == ErrorCode.NONE:
            self._stored(result.first)
            return
        self.world.counts[f"idempotent produces refused: {result.error:#x}"] += 1
        forgotten = result.error in (ErrorCode.OUT_OF_ORDER_SEQUENCE, ErrorCode.UNKNOWN_PRODUCER)
        if forgotten and self.books.of(self.target.key).lossy:
            self._producer_id = self._sequence = 0  # it begins anew
            self._sent = []
            return
        must(not forgotten, "%s's memory was lost: its batch is refused with %s", self.name, result.error)
        self.line.turn_away()

    def _stored(self, first: int) -> None:
        self.answered += 1
        self.world.counts["idempotent produces acknowledged"] += 1
        if self._tries > 1:
            self.world.counts["idempotent produces repeated"] += 1
        for at, value in enumerate(self._sent):
            self.books.acknowledged(self.target.key, value, first + at if first else 0)
        self._sequence = (self._sequence + len(self._sent)) % 2**31
        self._sent = []


class Consumer(Client):
    """Reads a partition from its beginning on, in order, without a gap."""

    def __init__(self, world: World, books: MessageBooks, target: Target, pause_us: int, name: str) -> None:
        super().__init__(world, books, target, pause_us)
        self.name = name
        self.next = 1
        """The number that comes next."""

    def _ask(self, number: int) -> None:
        entry = ConsumePartition(
            self.target.partition, self.next, self.world.random.choice((1, 300, 1 << 20))
        )
        topic = ConsumeTopic(self.target.topic, [entry])
        self.line.send(ConsumeRequest(CLIENT_VERSION, number, self.name, WAIT_MS, 0, 0, [topic]))

    def _take(self, message_id: int, payload: memoryview) -> None:
        assert message_id == ConsumeResponse.ID
        answer = ConsumeResponse.decode(payload)
        [topic] = answer.topics
        if topic.unknown:
            self.line.turn_away()
            return
        [entry] = topic.partitions
        if entry.flag not in (ConsumeFlag.DATA, ConsumeFlag.SPARSE):
            beyond = entry.flag == ConsumeFlag.OUT_OF_BOUNDS
            if self.books.of(self.target.key).lossy:
                self.next, beyond = 1, False
            must(not beyond, "%s asks for %s, one behind what it read, and is told it is out of bounds",
                 self.name, self.next)  # fmt: skip
            self.line.turn_away()
            return
        self.answered += 1
        number = entry.base_sequence_number
        for one in bundle.bundles(memoryview(answer.chunks)):
            for message in bundle.decode(one, number):
                number = message.sequence_number + 1
                if message.sequence_number >= self.next:
                    self._read(message.sequence_number, bytes(message.value))

    def _read(self, number: int, value: bytes) -> None:
        lossy = self.books.of(self.target.key).lossy
        must(number == self.next or lossy, "%s is shown %s, and expected %s", self.name, number, self.next)
        self.books.read(self.target.key, number, value)
        self.next = number + 1
        self.world.counts["messages read"] += 1


PAUSES_US = (20 * MS, 60 * MS, 200 * MS)
"""Between two looks at whether something is to be asked."""
