"""A client of Kafka's protocol that deletes the oldest messages of its partition now and then."""

from tank_node.kafka.errors import KafkaError
from tank_protos.generated.kafka import DeleteRecordsRequest, DeleteRecordsResponse
from tank_protos.generated.kafka.delete_records_request import DeleteRecordsPartition, DeleteRecordsTopic
from tests.simulation.books.kafka_ages import AGES, any_age
from tests.simulation.books.message_books import Key, MessageBooks
from tests.simulation.clients.clients import Client, Target
from tests.simulation.clients.kafka_clients import KafkaClient
from tests.simulation.clients.kafka_lines import body_of
from tests.simulation.world.world import World, must

TIMEOUT_MS = 2000
KEPT = (0, 3, 20)
"""Messages that stay, by chance."""
_DELETES = tuple(age for age in AGES if age.delete_records >= 0)
_ERRORS = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_OR_FOLLOWER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.STORAGE_ERROR,
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)


class KafkaDeleter(KafkaClient, Client):
    """One of them. It asks rarely, so one answer shows that it is served."""

    shows_health = 1

    def __init__(self, world: World, books: MessageBooks, target: Target, pause_us: int, name: str) -> None:
        super().__init__(world, books, target, pause_us, name)
        self.age = any_age(world, _DELETES)
        self.offset = 0
        """The first offset that is to stay, in the request that was sent last."""
        self.deleted = 0
        """The greatest one that it was told is the first now."""

    def _ask(self, number: int) -> None:
        if not self.line.knows_leader:
            self._ask_for_leader(number)
            return
        books = self.partition_books
        self.ask_to_delete(number, max(books.end - self.world.random.choice(KEPT), 0))

    def ask_to_delete(self, number: int, offset: int) -> None:
        """Sends the request."""
        self.offset = offset
        self.partition_books.delete(offset + 1)
        wanted = DeleteRecordsPartition(self.target.partition, offset)
        request = DeleteRecordsRequest([DeleteRecordsTopic(self.target.topic, [wanted])], TIMEOUT_MS)
        self.line.ask(request, self.age.delete_records, number, self.target)

    def _take(self, message_id: int, payload: memoryview, key: Key, epoch: int) -> None:
        if self._is_of_leader(message_id, payload):
            return
        version = self.age.delete_records
        body = body_of(DeleteRecordsResponse.ID, payload, version)
        (topic,) = DeleteRecordsResponse.decode(body, version).topics
        (result,) = topic.partitions
        error = KafkaError(result.error_code)
        if error:
            self.world.counts[f"deletions refused: {error.name.lower()}"] += 1
            must(error in _ERRORS, "%s is refused with %s", self.name, error.name)
            self.look_elsewhere()
            return
        self.answered += 1
        self.world.counts["deletions answered"] += 1
        must(result.low_watermark >= self.offset, "%s is told the beginning %s, it asked for %s",
             self.name, result.low_watermark, self.offset)  # fmt: skip
        self.deleted = max(self.deleted, result.low_watermark)
