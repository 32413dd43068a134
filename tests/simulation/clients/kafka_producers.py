"""Simulated producers of Kafka's protocol, idempotent ones and others, of all ages."""

from tank_node.kafka.errors import KafkaError
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from tank_protos.generated.kafka.produce_request import (
    PartitionProduceData,
    TopicProduceData,
    TopicProduceDataCollection,
)
from tank_protos.generated.kafka.produce_response import PartitionProduceResponse
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.record_batch import NO_PRODUCER, ProducerFields
from tests.simulation.books.kafka_ages import IDEMPOTENT, Age, any_age
from tests.simulation.books.message_books import Key, MessageBooks
from tests.simulation.clients.clients import Target
from tests.simulation.clients.kafka_batches import encoded
from tests.simulation.clients.kafka_clients import KafkaClient
from tests.simulation.clients.kafka_lines import body_of
from tests.simulation.clients.producers import ACK_TIMEOUT_MS, IdempotentProducer, Producer, Sent
from tests.simulation.world.world import World, must

ALL = -1
_COUNTED = 2
"""So many replicas: clients before 0.11 may say how many."""
_COUNTED_BELOW = 3
_IDS_SINCE = 13
_TRANSACTION_TIMEOUT_MS = 60_000
LONG_AGO_MS = 1
"""A time that every topic takes, whatever its leader's clock says."""
CODECS = (KafkaCodec.NONE, KafkaCodec.NONE, KafkaCodec.NONE, KafkaCodec.GZIP, KafkaCodec.SNAPPY)

NOT_STORED = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.INVALID_TIMESTAMP,
    }
)
"""Errors after which a batch that is sent once is never stored. The last one comes of a clock that is
hours wrong."""
UNKNOWN_OUTCOMES = frozenset(
    {
        KafkaError.NOT_LEADER_OR_FOLLOWER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.STORAGE_ERROR,
    }
)
SEQUENCES = {
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER: ErrorCode.OUT_OF_ORDER_SEQUENCE,
    KafkaError.UNKNOWN_PRODUCER_ID: ErrorCode.UNKNOWN_PRODUCER,
}
"""The errors of an idempotent producer's sequence, as TANK's clients get them."""
_ANOTHER = 0xFFFF
"""Stands for any other error, where TANK's codes are looked at."""


class _KafkaProduces(KafkaClient):
    """How all of them send a batch, and read what became of it."""

    _codec = KafkaCodec.NONE

    def _send_batch(
        self,
        number: int,
        values: list[bytes],
        keys: list[bytes] | None,
        timestamp_ms: int,
        producer: ProducerFields = NO_PRODUCER,
        acks: int = ALL,
    ) -> None:
        version = self.age.produce
        data = encoded(version, values, keys, timestamp_ms, self._codec, producer)
        topic = TopicProduceData(
            self.target.topic, partition_data=[PartitionProduceData(self.target.partition, data)]
        )
        if version >= _IDS_SINCE:
            topic.name, topic.topic_id = "", self.line.topic_id
        request = ProduceRequest(
            acks=acks, timeout_ms=ACK_TIMEOUT_MS, topic_data=TopicProduceDataCollection([topic])
        )
        self.line.ask(request, version, number, self.target)

    def _result(self, payload: memoryview) -> PartitionProduceResponse:
        """What became of it. A leader that the answer names is gone to."""
        version = self.age.produce
        answer = ProduceResponse.decode(body_of(ProduceResponse.ID, payload, version), version)
        (topic,) = answer.responses
        (result,) = topic.partition_responses
        must(result.index == self.target.partition, "%s is told of partition %s", self.name, result.index)
        error = KafkaError(result.error_code)
        if error and error is not KafkaError.DUPLICATE_SEQUENCE_NUMBER:
            self.world.counts[f"kafka produces refused: {error.name.lower()}"] += 1
            known = error in NOT_STORED or error in UNKNOWN_OUTCOMES or error in SEQUENCES
            must(known, "%s is refused with %s", self.name, error.name)
            must(result.base_offset == -1, "%s is told %s with an error", self.name, result.base_offset)
        self._answer = answer
        return result

    _answer: ProduceResponse | None = None
    """The last one."""

    def look_elsewhere(self) -> None:
        """At the leader that the last error names, or at one that another broker knows."""
        answer, self._answer = self._answer, None
        if answer is not None:
            named = answer.responses[0].partition_responses[0].current_leader
            addresses = {each.node_id: (each.host, each.port) for each in answer.node_endpoints}
            if self.line.take_error(named.leader_id, named.leader_epoch, addresses):
                self.line.reconnect()
                return
        self.line.turn_away()


class KafkaProducer(_KafkaProduces, Producer):
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
        age: Age | None = None,
    ) -> None:
        super().__init__(world, books, target, pause_us, name, required_acks, keyed=keyed)
        self.age = age or any_age(world)
        self._acks = ALL
        self._says_times = True
        """It says when it sends; until a leader, whose clock is wrong, finds that too late."""
        if self.age.produce < _COUNTED_BELOW:
            self._acks = world.random.choice((ALL, _COUNTED))
        if self.age.produce >= _COUNTED_BELOW:
            self._codec = world.random.choice(CODECS)

    def _ask(self, number: int) -> None:
        if not self.line.knows_leader:
            self._ask_for_leader(number)
            return
        self._sent = self._values()
        self._send_batch(number, self._sent, self._keys(self._sent), self._time_ms(), acks=self._acks)

    def _time_ms(self) -> int:
        return self.world.now_ms() if self._says_times else LONG_AGO_MS

    def _take(self, message_id: int, payload: memoryview, key: Key, epoch: int) -> None:
        if self._is_of_leader(message_id, payload):
            return
        result = self._result(payload)
        error = KafkaError(result.error_code)
        if not error:
            self.answered += 1
            self.world.counts["kafka produces acknowledged"] += 1
            for at, value in enumerate(self._sent):
                self.books.acknowledged(key, value, result.base_offset + 1 + at)
            return
        if error in NOT_STORED:
            self.books.refused(key, self._sent)
        if error is KafkaError.INVALID_TIMESTAMP:
            self._says_times = False
        if error is not KafkaError.NOT_ENOUGH_REPLICAS:
            self.look_elsewhere()


class KafkaIdempotentProducer(_KafkaProduces, IdempotentProducer):
    """Sends each batch until it knows that it is stored, to whoever leads then; several may be under way."""

    def __init__(
        self,
        world: World,
        books: MessageBooks,
        target: Target,
        pause_us: int,
        name: str,
        *,
        keyed: bool = False,
        in_flight: int = 1,
        age: Age | None = None,
    ) -> None:
        super().__init__(world, books, target, pause_us, name, keyed=keyed, in_flight=in_flight)
        self.age = age or any_age(world, IDEMPOTENT)
        self._codec = world.random.choice(CODECS)

    def _knows_leader(self) -> bool:
        if not self.line.knows_leader and not self._asked_for_leader:
            self._ask_for_leader(self._number())
        return self.line.knows_leader

    def _give_up(self, number: int) -> None:
        if number == self._asked_for_leader:
            self.line.turn_away()
        else:
            super()._give_up(number)

    def _ask_for_id(self) -> None:
        request = InitProducerIdRequest(None, _TRANSACTION_TIMEOUT_MS)
        self.line.ask(request, self.age.init_producer, self._asks_for_id, self.target)

    def _produce(self, sent: Sent) -> None:
        fields = ProducerFields(self._producer_id, self._epoch, sent.sequence)
        self._send_batch(sent.request, sent.values, self._keys(sent.values), LONG_AGO_MS, fields)

    def heard(self, message_id: int, payload: memoryview) -> None:
        if self.retired or self._is_of_leader(message_id, payload):
            return
        if message_id == self._asks_for_id:
            version = self.age.init_producer
            body = body_of(InitProducerIdResponse.ID, payload, version)
            made = InitProducerIdResponse.decode(body, version)
            self._take_id(made.error_code, made.producer_id, made.producer_epoch)
            return
        result = self._result(payload)
        error = KafkaError(result.error_code)
        if error in (KafkaError.NONE, KafkaError.DUPLICATE_SEQUENCE_NUMBER):  # stored, there or somewhere
            self.world.counts["idempotent kafka produces acknowledged"] += 1
            self._take_result(message_id, ErrorCode.NONE, result.base_offset + 1)
        else:
            self._take_result(message_id, SEQUENCES.get(error, _ANOTHER), 0)
