"""Simulated consumers of Kafka's protocol, of all ages: read messages, and compare them with the books.

From 2.1 on a consumer has a way to find that what it has read was lost, and doesn't begin again then: it goes
on where its log and the leader's went apart, and what it has from before that is in the leader's log.
"""

from collections.abc import Mapping
from enum import Enum

from tank_node.kafka.errors import KafkaError
from tank_protos.generated.kafka import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from tank_protos.generated.kafka.fetch_request import FetchPartition, FetchTopic
from tank_protos.generated.kafka.fetch_response import PartitionData
from tank_protos.generated.kafka.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from tank_protos.generated.kafka.list_offsets_response import ListOffsetsPartitionResponse
from tank_protos.generated.kafka.offset_for_leader_epoch_request import (
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicCollection,
)
from tank_protos.kafka.errors import InvalidRecords
from tests.simulation.books.kafka_ages import Age, any_age
from tests.simulation.books.message_books import Key, MessageBooks
from tests.simulation.books.stored_batches import Message
from tests.simulation.clients.clients import Target
from tests.simulation.clients.consumers import MOST_BYTES, WAIT_MS, Consumer
from tests.simulation.clients.kafka_batches import decoded
from tests.simulation.clients.kafka_clients import KafkaClient
from tests.simulation.clients.kafka_lines import body_of
from tests.simulation.world.world import World, must

_CONSUMER = -1
_LATEST, _EARLIEST = -1, -2
_SESSIONS_SINCE = 7
_IDS_SINCE = 13
_OFFSET_EPOCHS_SINCE = 4
"""The first version of ListOffsets that says which leader epoch the client knows."""
_END_EPOCHS_SINCE = 2
"""And of OffsetForLeaderEpoch."""
_REPLICA_SINCE = 3
_NO_SESSION = (0, -1)
_NEW_SESSION = (0, 0)
OUT_OF_RANGE = KafkaError.OFFSET_OUT_OF_RANGE

FETCH_ERRORS = frozenset(
    {
        KafkaError.NONE,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError.NOT_LEADER_OR_FOLLOWER,
        KafkaError.STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_ID,
    }
)
"""After any other Java's consumer ends."""
SESSION_ERRORS = frozenset(
    {
        KafkaError.FETCH_SESSION_ID_NOT_FOUND,
        KafkaError.INVALID_FETCH_SESSION_EPOCH,
        KafkaError.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class Question(Enum):
    """What a consumer's request under way asks for."""

    LEADER = 0
    RECORDS = 1
    BEGINNING = 2
    END = 3
    END_OF_EPOCH = 4


class KafkaConsumer(KafkaClient, Consumer):
    """Reads a partition from its beginning on, in order, without a gap."""

    sizes_bytes = (1, 300, MOST_BYTES)
    asks_for_end = 0.03
    """How often it asks for the end instead of records."""
    _question = Question.LEADER

    def __init__(
        self,
        world: World,
        books: MessageBooks,
        target: Target,
        pause_us: int,
        name: str,
        age: Age | None = None,
    ) -> None:
        super().__init__(world, books, target, pause_us, name)
        self.age = age or any_age(world)
        self._says_epochs = self.age.knows_epochs
        self.last_epoch = -1
        """The leader epoch of the last record that it has; -1: it has none, or doesn't know."""
        self.held: list[tuple[int, bytes, int]] = []
        """What it has read, where it can tell that some of it was lost: number, value and leader epoch."""
        self.truncations = 0
        """How often it was told where the leader's log and its own go apart."""
        self._compared_epoch = -1
        """The leader epoch in which its position was compared with the leader's log."""
        self._is_beyond = False
        """It was told that its position is out of range: it asks for the beginning."""
        self._session = _NEW_SESSION
        self._is_in_session = False
        self._known_to_session: FetchPartition | None = None
        """What the session knows of the partition."""
        self._asked_epoch = -1
        """The leader epoch that the request under way says; -1: it says none."""

    # --- questions ---

    def _ask(self, number: int) -> None:
        if not self.line.knows_leader:
            self._question = Question.LEADER
            self._ask_for_leader(number)
            return
        if self._begins_again():
            self.next, self.last_epoch, self._compared_epoch = 1, -1, -1
            self._began, self._strayed, self._is_beyond = self.generation, False, False
            self.held = []
        self._ends = self.books.ends_shown(self.target.key)
        if self._is_beyond:
            self._ask_for_offset(number, Question.BEGINNING, _EARLIEST)
        elif self._must_compare():
            self._ask_for_end_of_epoch(number)
        elif self.world.chance(self.asks_for_end):
            self._ask_for_offset(number, Question.END, _LATEST)
        else:
            self._ask_for_records(number)

    def _begins_again(self) -> bool:
        """Whether it reads from the first message on: it is told to, or can't know whether what it has read
        is still there."""
        if self._began < 0:
            return True
        return not self._says_epochs and (self._began != self.generation or self._strayed)

    def _must_compare(self) -> bool:
        """Whether it has to ask where the epoch of its last record ends, since there is another leader."""
        if self.age.says_last_epoch or not self._says_epochs or self.last_epoch < 0:
            return False
        return self._compared_epoch != self.line.epoch

    def _epoch_if(self, says: bool) -> int:
        self._asked_epoch = self.line.epoch if says else -1
        return self._asked_epoch

    def _ask_for_offset(self, number: int, question: Question, time: int) -> None:
        self._question = question
        version = self.age.list_offsets
        asked = ListOffsetsPartition(self.target.partition)
        asked.timestamp = time
        if version >= _OFFSET_EPOCHS_SINCE:
            asked.current_leader_epoch = self._epoch_if(True)
        else:
            self._epoch_if(False)
        if version == 0:
            asked.max_num_offsets = 1
        topic = ListOffsetsTopic(self.target.topic, [asked])
        self.line.ask(ListOffsetsRequest(_CONSUMER, topics=[topic]), version, number, self.target)

    def _ask_for_end_of_epoch(self, number: int) -> None:
        self._question = Question.END_OF_EPOCH
        version = self.age.end_of_epoch
        asked = OffsetForLeaderPartition(self.target.partition)
        asked.current_leader_epoch = self._epoch_if(version >= _END_EPOCHS_SINCE)
        asked.leader_epoch = self.last_epoch
        topics = OffsetForLeaderTopicCollection([OffsetForLeaderTopic(self.target.topic, [asked])])
        request = OffsetForLeaderEpochRequest(topics=topics)
        if version >= _REPLICA_SINCE:
            request.replica_id = _CONSUMER
        self.line.ask(request, version, number, self.target)

    def _ask_for_records(self, number: int) -> None:
        self._question = Question.RECORDS
        version, age = self.age.fetch, self.age
        wanted = FetchPartition(self.target.partition)
        wanted.current_leader_epoch = self._epoch_if(age.knows_epochs)
        wanted.fetch_offset = self.next - 1
        if age.says_last_epoch:
            wanted.last_fetched_epoch = self.last_epoch
        wanted.partition_max_bytes = self.world.random.choice(self.sizes_bytes)
        request = FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1)
        if version >= 3:
            request.max_bytes = MOST_BYTES
        if version >= 4:
            request.isolation_level = int(self.world.chance(0.5))
        if version >= _SESSIONS_SINCE:
            request.session_id, request.session_epoch = self._session
        self._is_in_session = version >= _SESSIONS_SINCE and self._session[1] > 0
        if not self._is_in_session or wanted != self._known_to_session:
            topic = FetchTopic(self.target.topic, partitions=[wanted])
            if version >= _IDS_SINCE:
                topic.topic, topic.topic_id = "", self.line.topic_id
            request.topics = [topic]
        self._known_to_session = wanted
        self.line.ask(request, version, number, self.target)

    def lost(self) -> None:
        self._session = _NEW_SESSION  # at another broker, or the same one: it begins anew
        super().lost()

    # --- answers ---

    def _take(self, message_id: int, payload: memoryview, key: Key, epoch: int) -> None:
        if self._is_of_leader(message_id, payload):
            return
        epoch = self._asked_epoch if self._asked_epoch >= 0 else epoch
        match self._question:
            case Question.RECORDS:
                self._take_fetched(payload, key, epoch)
            case Question.END_OF_EPOCH:
                self._take_end_of_epoch(payload, key, epoch)
            case _:
                self._take_offset(payload, key, epoch)

    def _counts(self, key: Key) -> bool:
        """Whether an answer is of the topic and the generation of the books that it was asked in."""
        if key != self.target.key:
            self.look_elsewhere()
            return False
        return self.generation == self.partition_books.generation

    def _take_offset(self, payload: memoryview, key: Key, epoch: int) -> None:
        version = self.age.list_offsets
        answer = ListOffsetsResponse.decode(body_of(ListOffsetsResponse.ID, payload, version), version)
        (topic,) = answer.topics
        (found,) = topic.partitions
        if found.error_code:
            self.world.counts[f"offsets refused: {KafkaError(found.error_code).name.lower()}"] += 1
            self.look_elsewhere()
            return
        if not self._counts(key):
            return
        offset = _offset_in(version, found)
        if self._question is Question.BEGINNING:
            self._go_to_beginning(offset + 1, epoch)
        else:
            self._shown_end(key, offset, epoch)

    def _go_to_beginning(self, first: int, epoch: int) -> None:
        """It is told where the partition begins, after its position was out of range."""
        self._is_beyond = False
        self.last_epoch, self.held = -1, []  # nothing is known of the epoch of what it goes on behind
        if self._may_have_lost(epoch):
            self.next = first
        elif first <= self.next <= self.partition_books.retained:
            self.world.counts["kafka consumers that were too late for one replica"] += 1
        elif self._begins_later(first, epoch):
            self.world.counts["kafka consumers that were too late"] += 1
            self.next = first
        elif self._asked_epoch < 0 and epoch < max(self.partition_books.leaders, default=0):
            self.world.counts["consumers sent wrong by a leader of before"] += 1
            self.look_elsewhere()
        else:
            must(False, "%s was out of range at %s, one behind what it read; the log begins at %s",
                 self.name, self.next, first)  # fmt: skip

    def _may_have_lost(self, epoch: int) -> bool:
        """Whether what it has read may be gone, or not be in the log of a leader of before."""
        books = self.partition_books
        return self._strayed or self._began != books.generation or books.waits or epoch < books.lossy_epoch

    def _shown_end(self, key: Key, end: int, epoch: int) -> None:
        """It is shown the end. Where it didn't say the epoch, another one may have begun meanwhile."""
        books = self.partition_books
        if self._asked_epoch >= 0:
            self.books.shown_end(key, end, epoch, self._ends, self.generation)
        elif not books.waits and epoch >= books.lossy_epoch:
            most = max(books.end, books.marked)
            must(end <= most, "%s is shown the end %s, committed is %s", self.name, end, most)

    def _take_end_of_epoch(self, payload: memoryview, key: Key, epoch: int) -> None:
        version = self.age.end_of_epoch
        body = body_of(OffsetForLeaderEpochResponse.ID, payload, version)
        (topic,) = OffsetForLeaderEpochResponse.decode(body, version).topics
        (found,) = topic.partitions
        if found.error_code:
            self.world.counts[f"ends of epochs refused: {KafkaError(found.error_code).name.lower()}"] += 1
            self.look_elsewhere()
            return
        if not self._counts(key):
            return
        self._compared_epoch = self._asked_epoch
        if found.end_offset < 0:
            self._apart(epoch, -1, 0)
        elif found.end_offset < self.next - 1 or found.leader_epoch < self.last_epoch:
            self._apart(epoch, found.leader_epoch, found.end_offset)

    def _apart(self, epoch: int, last_epoch: int, end: int) -> None:
        """It is told that the leader's log goes another way from this offset on."""
        must(
            self._may_have_lost(epoch),
            "%s is told by the leader of epoch %s that what it read up to %s (of epoch %s) ends at %s",
            self.name,
            epoch,
            self.next - 1,
            self.last_epoch,
            end,
        )
        end = min(end, self.next - 1)
        self.truncations += 1
        self.world.counts["kafka consumers told of a truncation"] += 1
        self.next, self.last_epoch = end + 1, last_epoch
        # It hears where that epoch ends in the leader's log, and not where its own later ones begin: what it
        # has read of those may be something else (KIP-320).
        self.held = [one for one in self.held if one[0] <= end and one[2] <= last_epoch]

    # --- records ---

    def _take_fetched(self, payload: memoryview, key: Key, epoch: int) -> None:
        version = self.age.fetch
        answer = FetchResponse.decode(body_of(FetchResponse.ID, payload, version), version)
        error = KafkaError(answer.error_code)
        if error:
            must(error in SESSION_ERRORS, "%s is refused with %s", self.name, error.name)
            self.world.counts[f"fetch sessions refused: {error.name.lower()}"] += 1
            self._session = _NEW_SESSION if self.world.chance(0.5) else _NO_SESSION
            return
        if version >= _SESSIONS_SINCE and self._session != _NO_SESSION:
            self._session = _NEW_SESSION
            if answer.session_id:
                known = self._known_epoch + 1 if self._is_in_session else 1
                self._known_epoch = known
                self._session = answer.session_id, known
        entries = [entry for topic in answer.responses for entry in topic.partitions]
        if not entries:
            must(self._is_in_session, "%s is told of no partition", self.name)
            if self._counts(key):
                self._agreed(epoch)
            return
        (entry,) = entries
        addresses = {each.node_id: (each.host, each.port) for each in answer.node_endpoints}
        self._take_entry(entry, key, epoch, addresses)

    _known_epoch = 0
    """Of the fetch session."""

    def _take_entry(
        self, entry: PartitionData, key: Key, epoch: int, addresses: Mapping[int, tuple[str, int]]
    ) -> None:
        error = KafkaError(entry.error_code)
        if error is KafkaError.CORRUPT_MESSAGE and self.partition_books.may_show_changed_bytes:
            self.look_elsewhere()
            return
        must(error in FETCH_ERRORS, "%s is refused with %s", self.name, error.name)
        if error:
            self.world.counts[f"fetches refused: {error.name.lower()}"] += 1
        if error is OUT_OF_RANGE:
            self._is_beyond = True
        elif error:
            leader = entry.current_leader
            if not self.line.take_error(leader.leader_id, leader.leader_epoch, addresses):
                self.look_elsewhere()
        elif self._counts(key):
            if entry.diverging_epoch.end_offset >= 0:
                must(not entry.records, "%s is given records of another log", self.name)
                self._apart(epoch, entry.diverging_epoch.epoch, entry.diverging_epoch.end_offset)
                return
            self._agreed(epoch)
            if entry.records:
                self._take_records(bytes(entry.records), entry.high_watermark)
            elif not self._strayed:
                self._shown_end(key, entry.high_watermark, epoch)

    def _agreed(self, epoch: int) -> None:
        """The leader of this epoch serves its position: all that it holds is in that leader's log."""
        books = self.partition_books
        if self._began < 0 or (self._began == books.generation and not self._strayed):
            return
        if books.waits or epoch < books.lossy_epoch or self._asked_epoch < 0:
            self._strayed = True  # by a leader of before
            return
        # Damage leaves holes where messages were: then nothing stands there.
        others = [
            (number, value)
            for number, value, _ in self.held
            if books.next_from(number) == number not in books.payloads.get(value, ())
        ]
        must(not others, "%s was not told that others stand where it read %s", self.name, tuple(others[:3]))
        self.world.counts["kafka consumers that went on behind a lossy election"] += 1
        self._began, self._strayed = books.generation, False

    def _take_records(self, data: bytes, mark: int) -> None:
        books = self.partition_books
        try:
            batches = list(decoded(self.age.fetch, data))
        except InvalidRecords as error:
            if not books.may_show_changed_bytes:
                must(False, "%s is shown what it can't read: %s", self.name, str(error))
            batches = [(-1, 0, [])]
        if books.may_show_changed_bytes and not self._are_committed(batches):
            self.world.counts["consumers shown changed bytes"] += 1
            self.look_elsewhere()
            return
        self.answered += 1
        for epoch, last, found in batches:
            must(last <= mark, "%s is shown %s, above the mark %s", self.name, last, mark)
            for number, key, value in found:
                if number >= self.next:
                    self._read(number, key, value)
                    if self._says_epochs:
                        self.held.append((number, value, epoch))
            written = books.epoch_of(found[-1].number) if found else epoch
            must(
                epoch < 0 or self._strayed or epoch == written,
                "%s is shown the batch up to %s as of epoch %s, it is of %s", self.name, last, epoch, written,
            )  # fmt: skip
            self.last_epoch = epoch
            self.next = max(self.next, last + 1)

    def _are_committed(self, batches: list[tuple[int, int, list[Message]]]) -> bool:
        """As for TANK's consumers."""
        books, expected = self.partition_books, self.next
        for _, _, found in batches:
            for number, _, value in found:
                if number < self.next:
                    continue
                if number not in books.payloads.get(value, ()) and value not in books.before:
                    return False
                if books.must_be_there(expected, number - 1):
                    return False
                expected = number + 1
        return any(found for _, _, found in batches)


def _offset_in(version: int, found: ListOffsetsPartitionResponse) -> int:
    """The only offset of an answer."""
    if version:
        return found.offset
    (offset,) = found.old_style_offsets
    return offset
