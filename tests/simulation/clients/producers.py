"""Simulated producers: write messages, and compare the answers with the books.

A message's value has its producer's name and a counter, so every message is unique. An idempotent producer
sends a batch until it knows the outcome; another producer never sends a batch twice.
"""

from collections import deque
from dataclasses import dataclass

from tank_protos import bundle
from tank_protos.error_codes import ErrorCode, ProduceError
from tank_protos.generated.tank import (
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    InitProducerRequest,
    InitProducerResponse,
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
)
from tests.simulation.books.message_books import Key, MessageBooks
from tests.simulation.clients.client_lines import PATIENCE_US
from tests.simulation.clients.clients import Client, Target
from tests.simulation.world.world import World, must

ACK_TIMEOUT_MS = 3000
IN_FLIGHT = 5
"""Batches of one idempotent producer: more, the protocol does not allow."""
KEYS = 4
"""Of keyed messages: few, so that most are superseded."""


class Producer(Client):
    """Not idempotent: never sends anything twice."""

    def __init__(
        self,
        world: World,
        books: MessageBooks,
        target: Target,
        pause_us: int,
        name: str,
        required_acks: int = 0,
        *,
        keyed: bool = False,
    ) -> None:
        super().__init__(world, books, target, pause_us, name)
        self.required_acks = required_acks
        self.keyed = keyed
        self._count = 0
        self._sent: list[bytes] = []

    def _values(self) -> list[bytes]:
        values = []
        for _ in range(self.world.random.choice((1, 1, 3))):
            self._count += 1
            values.append(b"%s:%d" % (self.name.encode(), self._count))
        return values

    def _keys(self, values: list[bytes]) -> list[bytes] | None:
        return [b"k%d" % (hash_of(value) % KEYS) for value in values] if self.keyed else None

    def _bundle(self, values: list[bytes], timestamp_ms: int) -> bytes:
        return bundle.encode(values, timestamps=timestamp_ms, keys=self._keys(values))

    def _ask(self, number: int) -> None:
        self._sent = self._values()
        batch = memoryview(bundle.as_batch(self._bundle(self._sent, self.world.now_ms())))
        topic = ProduceTopic(self.target.topic, [ProducePartition(self.target.partition, batch)])
        self.send(
            ProduceRequest(self.version, number, self.name, self.required_acks, ACK_TIMEOUT_MS, [topic]),
            number,
        )

    def _take(self, message_id: int, payload: memoryview, key: Key, epoch: int) -> None:
        assert message_id == ProduceResponse.ID
        error = ProduceResponse.decode(payload).results[0].error
        if error == ProduceError.NONE:
            self.answered += 1
            self.world.counts["produces acknowledged"] += 1
            self._stored_at(key)
            return
        self.world.counts[f"produces refused: {error:#x}"] += 1
        if error != ProduceError.NOT_ACKNOWLEDGED_IN_TIME:
            self.world.say(self.name, "is refused %s by %#x", self._sent[0], error)
            self.books.refused(key, self._sent)
        self._refused(error)

    def _stored_at(self, key: Key) -> None:
        for value in self._sent:
            self.books.acknowledged(key, value)

    def _refused(self, error: int) -> None:
        if error != ProduceError.NOT_ENOUGH_REPLICAS:
            self.line.turn_away()


class Mirror(Producer):
    """Gives its messages their own numbers: mostly above what it has seen of the end, with holes."""

    _next = 1

    def _ask(self, number: int) -> None:
        chance = self.world.random
        self._next = max(self._next, self.partition_books.end + 1) + chance.choice((0, 0, 1, 30, 400))
        self._sent = self._values()
        if chance.random() < 0.5:
            batch = self._bundle(self._sent, self.world.now_ms())
        else:
            numbers = [self._next + 3 * at for at in range(len(self._sent))]
            batch = bundle.encode_sparse(
                numbers, self._sent, timestamps=self.world.now_ms(), keys=self._keys(self._sent)
            )
        entry = ProduceBasePartition(self.target.partition, len(batch), self._next, batch)
        topic = ProduceBaseTopic(self.target.topic, [entry])
        self.send(
            ProduceWithBaseSeqNumRequest(
                self.version, number, self.name, self.required_acks, ACK_TIMEOUT_MS, [topic]
            ),
            number,
        )

    def _stored_at(self, key: Key) -> None:
        self.world.counts["messages with numbers of their own"] += len(self._sent)
        self.books.acknowledged(key, self._sent[0], self._next)
        for value in self._sent[1:]:
            self.books.acknowledged(key, value)

    def _refused(self, error: int) -> None:
        if error == ErrorCode.SEQUENCE_NUMBER_NOT_ABOVE_END:
            self._next += 20
            return
        super()._refused(error)


@dataclass(slots=True)
class Sent:
    """A batch of an idempotent producer whose outcome isn't known."""

    sequence: int
    values: list[bytes]
    tries: int = 0
    request: int = 0
    """Under which it is under way; 0: it isn't."""


class IdempotentProducer(Producer):
    """Sends each batch until it knows that it is stored; several may be under way at once."""

    def __init__(
        self,
        world: World,
        books: MessageBooks,
        target: Target,
        pause_us: int,
        name: str,
        required_acks: int = 0,
        *,
        keyed: bool = False,
        in_flight: int = 1,
    ) -> None:
        super().__init__(world, books, target, pause_us, name, required_acks, keyed=keyed)
        self._in_flight = in_flight
        self._producer_id = 0
        self._epoch = 0
        self._sequence = 0
        self.unknown: deque[Sent] = deque()
        """Batches without an outcome yet, in order."""
        self._asks_for_id = 0
        """The request for a producer id that is under way."""
        self._elections = 0
        """Lossy ones, when it began with this id: they can have taken nothing of it."""
        self._named = ""
        """The host of the leader that the last answer named; empty: none."""

    def act(self) -> None:
        """What there is room for."""
        if self.retired:
            return
        self.world.after(self.world.between(1, 2 * self._pause_us), None, self.act)
        if not (self.active or self.unknown):
            return
        if self.partition_books.generation != self.generation:
            self._begin_anew()
        if not self.line.is_open:
            self.line.connect()
        elif not self._knows_leader():
            return
        elif not self._producer_id:
            if not self._asks_for_id:
                self._asks_for_id = self._number()
                self._ask_for_id()
        else:
            for sent in self.unknown:
                if not sent.request:
                    self._send(sent)
            room = self._in_flight - len(self.unknown)
            for _ in range(min(room, self.world.random.choice((0, 1, 1, IN_FLIGHT))) if self.active else 0):
                sent = Sent(self._sequence, self._values())
                self._sequence = (self._sequence + len(sent.values)) % 2**31
                self.unknown.append(sent)
                self._send(sent)

    def _knows_leader(self) -> bool:
        """Whether it may ask this broker, which is any where TANK's protocol is spoken."""
        return True

    def _ask_for_id(self) -> None:
        self.send(InitProducerRequest(0, self._asks_for_id, "", 0), self._asks_for_id)

    def _number(self) -> int:
        self._request += 1
        number = self._request
        self.world.after(PATIENCE_US, None, lambda: self._give_up(number))
        return number

    def _send(self, sent: Sent) -> None:
        sent.tries += 1
        sent.request = self._number()
        self._produce(sent)

    def _produce(self, sent: Sent) -> None:
        batch = memoryview(bundle.as_batch(self._bundle(sent.values, 1)))
        entry = IdempotentPartition(self.target.partition, sent.sequence, len(self.unknown), batch)
        topic = IdempotentTopic(self.target.topic, [entry])
        request = IdempotentProduceRequest(
            0, sent.request, self.name, self.required_acks, ACK_TIMEOUT_MS,
            self._producer_id, self._epoch, [topic],
        )  # fmt: skip
        self.send(request, sent.request)

    def _give_up(self, number: int) -> None:
        if number == self._asks_for_id or any(sent.request == number for sent in self.unknown):
            self.line.turn_away()

    def lost(self) -> None:
        """All that was under way has to be sent again, in its order."""
        self._asks_for_id = 0
        for sent in self.unknown:
            sent.request = 0

    def _begin_anew(self) -> None:
        """What it had under way may be there, or not: it has another id from now on."""
        self.generation = self.partition_books.generation
        self._elections = self.partition_books.elections
        self._producer_id = self._sequence = 0
        self.unknown.clear()
        self.line.hang_up()

    def heard(self, message_id: int, payload: memoryview) -> None:
        """An answer to one of those under way."""
        if self.retired:
            return
        if message_id == InitProducerResponse.ID:
            made = InitProducerResponse.decode(payload)
            self._take_id(made.error, made.producer_id, made.producer_epoch)
            return
        assert message_id == IdempotentProduceResponse.ID
        answer = IdempotentProduceResponse.decode(payload)
        result = answer.topics[0].partitions[0]
        self._named = result.leader_host
        self._take_result(answer.request_id, result.error, result.first)

    def _take_id(self, error: int, producer_id: int, epoch: int) -> None:
        self._asks_for_id = 0
        if error == ErrorCode.NONE:
            self._producer_id, self._epoch = producer_id, epoch
        else:
            self.look_elsewhere()

    def _take_result(self, request: int, error: int, first: int) -> None:
        """What became of a batch. first: where it is stored; 0: it is, and nobody knows where."""
        sent = next((one for one in self.unknown if one.request == request), None)
        if sent is None:
            return
        if self.partition_books.generation != self.generation:
            self._begin_anew()
            return
        used, epoch = self.line.used(request)
        if used not in (0, self.target.topic_id):  # it knows an earlier topic of that name
            if error == ErrorCode.NONE:
                self._acknowledged(sent, (used, self.target.partition), first)
            self._begin_anew()
        elif error == ErrorCode.NONE:
            self._stored(sent, first)
            if epoch < self.partition_books.lossy_epoch:  # by a leader of before: its successor lacks it
                self._begin_anew()
        else:
            self._judge_refusal(sent, error, epoch)

    def look_elsewhere(self) -> None:
        """Every second time at the leader that the answer named, where it named one."""
        named, self._named = self._named, ""
        if not (named and self.world.chance(0.5) and self.line.turn_to_host(named)):
            super().look_elsewhere()

    def _judge_refusal(self, sent: Sent, error: int, epoch: int) -> None:
        self.world.counts[f"idempotent produces refused: {error:#x}"] += 1
        forgotten = error in (ErrorCode.OUT_OF_ORDER_SEQUENCE, ErrorCode.UNKNOWN_PRODUCER)
        if forgotten and sent is not self.unknown[0]:
            self.look_elsewhere()  # one before it was refused: they go again together
            return
        if forgotten and self.partition_books.elections > self._elections:
            self._begin_anew()  # it was never acknowledged: it may be lost, and a later one be there
            return
        if forgotten and 0 < epoch < max(self.partition_books.leaders, default=0):
            self.world.counts["idempotent produces refused by a leader of before"] += 1
            self.look_elsewhere()  # it has not heard that it was replaced, nor of what came since
            return
        must(not forgotten, "%s's memory was lost: its batch is refused with %s", self.name, error)
        self.look_elsewhere()

    def _acknowledged(self, sent: Sent, key: Key, first: int) -> None:
        for at, value in enumerate(sent.values):
            self.books.acknowledged(key, value, first + at if first else 0)

    def _stored(self, sent: Sent, first: int) -> None:
        self.answered += 1
        self.world.counts["idempotent produces acknowledged"] += 1
        if sent.tries > 1:
            self.world.counts["idempotent produces repeated"] += 1
        if sent is not self.unknown[0]:
            self.world.counts["idempotent produces answered before an earlier one"] += 1
        self._acknowledged(sent, self.target.key, first)
        self.unknown.remove(sent)


def hash_of(value: bytes) -> int:
    """The same in every process."""
    return sum(value)
