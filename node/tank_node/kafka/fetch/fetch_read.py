"""Reading for a Fetch: the partitions of a request, and what this broker finds in each."""

from typing import Final

from tank_node.broker.broker import Broker
from tank_node.broker.topic_ids import served_topic, topic_by_uuid
from tank_node.kafka.errors import KafkaError, of_refusal
from tank_node.kafka.fetch.bundle_converter import BundleConverter, Unconvertible
from tank_node.kafka.fetch.epoch_ends import NO_END, end_of
from tank_node.kafka.fetch.partition_read import NOWHERE, PartitionRead
from tank_node.kafka.leaders import leader_elsewhere
from tank_node.kafka.led import record_epoch
from tank_node.log.log import LogState
from tank_node.partition.partition import Partition
from tank_node.partition.reach import Reach
from tank_node.partition.refusal import Refusal
from tank_node.replication.role import Role
from tank_node.segment.errors import StorageError
from tank_node.segment.reading import bytes_of
from tank_node.segment.record import FORMAT_TANK
from tank_node.segment.segment import FileRange
from tank_protos.kafka import message_set
from tank_protos.kafka.codecs import most_unpacked
from tank_protos.kafka.errors import InvalidRecords, RecordsFault
from tank_protos.kafka.limits import MAX_UNPACKED_BYTES
from tank_protos.kafka.record_batch import MAGIC, NO_PRODUCER, NO_TIMESTAMP, RecordBatchHeader, seal

_IDS_SINCE: Final = 13
"""The first version that names topics by their ids."""
_BATCHES_SINCE: Final = 4
"""The first version that may be answered with record batches; before it are message sets."""
_STAMPED_SINCE: Final = 2
"""The first version that may be answered with messages of magic 1."""
_ANSWER_LIMIT_SINCE: Final = 3
"""The first version with max_bytes. Before it, each partition gets one message at least."""
_STORAGE_SINCE: Final = 6
"""The first version that knows STORAGE_ERROR."""
_MOST_DELTA: Final = 2**31 - 1
"""The greatest difference of two offsets in a batch."""


class FetchRead:
    """The reading of one request, which may be repeated while the request waits."""

    __slots__ = (
        "_broker", "_budget", "_converted", "_exceeds", "_left", "_magic", "_version", "_work",
        "found_bytes", "is_debugging", "is_decided", "max_bytes", "targets",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        converted: BundleConverter,
        version: int,
        targets: list[PartitionRead],
        max_bytes: int,
        *,
        is_debugging: bool,
    ) -> None:
        self._broker = broker
        self._converted = converted
        self._version = version
        self._magic = 2 if version >= _BATCHES_SINCE else int(version >= _STAMPED_SINCE)
        self.targets = targets
        self.max_bytes = max_bytes
        """The most bytes of all partitions together, but for the first batch."""
        self.is_debugging = is_debugging
        """Whether any replica may be read, up to its own mark, and not the leader's alone."""
        self.found_bytes = 0
        """The bytes that the last `read` found in all partitions; of each at most its limit, or what the
        answer has."""
        self.is_decided = False
        """Whether the last `read` found something that ends a wait whatever the number of bytes: an error, or
        as much as an answer may hold."""
        self._left = self._budget = self._work = 0
        self._exceeds = False
        """Whether the next batch that is found may be larger than the limits."""

    def read(self) -> None:
        """Reads all partitions anew."""
        limits = self._broker.limits
        self._left = self.max_bytes
        spare = (limits.memory_bytes - self._broker.metrics.held_bytes) // 8
        self._budget = max(min(limits.converted_answer_bytes, spare), 1)
        # Also what no answer has room for was unpacked.
        self._work = MAX_UNPACKED_BYTES
        self._exceeds = True
        self.found_bytes = 0
        self.is_decided = False
        for target in self.targets:
            target.release()
            target.available = 0
            partition = target.partition
            if partition is None or partition.unreadable:
                partition = self._place(target)
            if partition is not None and self._may_read(target, partition):
                self._read(target, partition)
            if target.length:
                self.found_bytes += target.available
                self._left -= target.length
                self._exceeds = self._version < _ANSWER_LIMIT_SINCE
            elif target.error or target.diverging is not None:
                self.is_decided = True
        if self.found_bytes and min(self._left, self._budget, self._work) <= 0:
            self.is_decided = True
        self._broker.tick.unpacked_bytes += MAX_UNPACKED_BYTES - self._work

    def release(self) -> None:
        """Forgets what was found: the request waits on."""
        for target in self.targets:
            target.release()

    def partitions(self) -> tuple[Partition, ...]:
        """The partitions that the request may wait for, each once."""
        return tuple({target.partition: None for target in self.targets if target.partition is not None})

    # --- one partition ---------------------------------------------------------------------------

    def _place(self, target: PartitionRead) -> Partition | None:
        """Finds the replica of a target; None after it set the error."""
        broker, number = self._broker, target.number
        target.partition = None
        by_id = self._version >= _IDS_SINCE
        topic = served_topic(broker, target.topic_id) if by_id else broker.topics.get(target.topic)
        if topic is None:
            target.error = KafkaError.UNKNOWN_TOPIC_ID if by_id else KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            return None
        partition = topic.partitions.get(number)
        if partition is None:
            self._refuse(target, topic.absence(number) if number >= 0 else Refusal.UNKNOWN_PARTITION)
            return None
        target.partition = partition
        return partition

    def _may_read(self, target: PartitionRead, partition: Partition) -> bool:
        """Checks role and epochs. False after it set an error, or what the client's log has and this one has
        not."""
        if partition.unreadable and not (self.is_debugging and partition.role is Role.FOLLOWER):
            self._refuse(target, partition.refusal)
            return False
        wanted = target.wanted
        epoch, known = wanted.current_leader_epoch, partition.leader_epoch
        if 0 <= epoch != known:
            if epoch < known:
                target.error = KafkaError.FENCED_LEADER_EPOCH
                target.leader = self._leader(partition)
            else:
                target.error = KafkaError.UNKNOWN_LEADER_EPOCH
            return False
        return wanted.last_fetched_epoch < 0 or self._agrees(target, partition)

    def _agrees(self, target: PartitionRead, partition: Partition) -> bool:
        """Whether the client's log up to its offset is the beginning of this one, as far as its last epoch
        tells."""
        wanted = target.wanted
        if wanted.fetch_offset < partition.log.first_available - 1:
            return True  # it is out of range, whatever its epoch
        found = end_of(partition, wanted.last_fetched_epoch)
        if found == NO_END:
            if partition.end_known:
                target.error = KafkaError.OFFSET_OUT_OF_RANGE
            return False
        epoch, end = found
        if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
            target.diverging = found
            return False
        return True

    def _read(self, target: PartitionRead, partition: Partition) -> None:
        wanted = target.wanted
        limit = max(min(wanted.partition_max_bytes, self._left), 0)
        converts = self._magic < 2 or partition.log.settings.format == FORMAT_TANK
        if converts:
            limit = min(limit, self._budget)
            if self._work <= 0:
                return
        if self._version < _ANSWER_LIMIT_SINCE:
            self._exceeds = self._left > 0 and self._budget > 0
        if self._left <= 0 and not self._exceeds:
            return
        offset = wanted.fetch_offset
        while True:
            found = self._reach(partition, offset, limit)
            if isinstance(found, Reach):
                self._without_batches(target, partition, found)
                return
            if not converts:
                if self._exceeds or found.length <= limit:
                    target.take(found)
                    self._count(target, partition, found, found.last)
                else:
                    found.file.release()
                return
            behind = self._convert(target, partition, found, limit)
            if behind <= offset or target.length or behind >= partition.high_water_mark or self._work <= 0:
                return
            offset = behind  # these batches had no message for a client of old

    def _without_batches(self, target: PartitionRead, partition: Partition, reach: Reach) -> None:
        if reach is Reach.WAIT:
            self._step_over(target, partition)
        elif reach is Reach.OUT_OF_BOUNDS:
            target.error = KafkaError.OFFSET_OUT_OF_RANGE
        else:
            self._refuse(target, _reason(partition))

    def _reach(self, partition: Partition, offset: int, limit: int) -> "FileRange | Reach":
        if offset < 0:
            return Reach.OUT_OF_BOUNDS if partition.end_known else Reach.WAIT
        if partition.role is Role.LEADER:
            return partition.fetch(offset + 1, limit)
        found = partition.fetch_as_follower(offset + 1, limit)
        if found is Reach.UNREADABLE and not partition.can_tell(offset + 1):
            return Reach.OUT_OF_BOUNDS
        return found

    def _step_over(self, target: PartitionRead, partition: Partition) -> None:
        """Gives the client an empty batch, if there is nothing from its offset up to the mark, because damage
        or compaction has left a hole: it goes on behind that, where some clients wait to be. Message sets
        have no such thing. Below the log's start is no hole: a leader that has not settled lets the client
        wait there, too."""
        offset, mark, log = target.wanted.fetch_offset, partition.high_water_mark, partition.log
        start = max(log.first_available, 1) - 1
        if self._magic < 2 or not start <= offset < mark or log.state is LogState.CLOSED:
            return
        last = min(mark - 1, offset + _MOST_DELTA)
        target.batches = [_empty_batch(offset, last, record_epoch(partition, last + 1))]
        target.length = target.available = len(target.batches[0])

    def _convert(self, target: PartitionRead, partition: Partition, found: FileRange, limit: int) -> int:
        """Reads a range, and converts its batches for the client. Returns the offset behind them; -1 after an
        error, which the target has."""
        try:
            data = bytes_of(found)
        except StorageError as error:
            partition.note_error(error)
            self._refuse(target, _reason(partition))
            return -1
        finally:
            found.file.release()
        made_before = self._converted.made_bytes
        try:
            made, behind = [data], found.last
            if partition.log.settings.format == FORMAT_TANK:
                made, number = self._converted.convert(
                    partition, data, found.first, limit, at_least_one=self._exceeds
                )
                behind = number - 1
            if self._magic < 2:
                made, behind = self._message_set(b"".join(made), target.wanted.fetch_offset, limit)
        except Unconvertible:
            target.error = KafkaError.CORRUPT_MESSAGE
            return -1
        except InvalidRecords as invalid:
            # Clients of this age know no other error of records.
            is_codec = invalid.fault is RecordsFault.UNSUPPORTED_CODEC
            target.error = KafkaError.UNSUPPORTED_COMPRESSION_TYPE if is_codec else KafkaError.CORRUPT_MESSAGE
            if not is_codec:
                self._work -= most_unpacked(len(data), MAX_UNPACKED_BYTES)
            return -1
        finally:
            self._work -= self._converted.made_bytes - made_before
        target.batches = made
        target.length = sum(map(len, made))
        self._budget -= target.length
        if target.length:
            self._count(target, partition, found, behind)
        return behind

    def _message_set(self, batches: bytes, offset: int, limit: int) -> tuple[list[bytes], int]:
        """Returns a message set of these batches, and the offset behind it. An empty one has the offset that
        was asked for if its first message is larger than the limit."""
        made = message_set.from_record_batches(batches, self._magic, from_offset=offset, max_bytes=limit)
        self._work -= made.unpacked_bytes
        if not made.data:
            return [], made.next_offset
        metrics = self._broker.metrics
        metrics.converted["message_set"] += 1
        metrics.converted_bytes["message_set"] += len(made.data)
        if len(made.data) > limit and not self._exceeds:
            return [], offset
        return [made.data], made.next_offset

    def _count(self, target: PartitionRead, partition: Partition, found: FileRange, behind: int) -> None:
        """Counts what was found for min_bytes. behind: the offset that a next fetch begins at. If more is
        available there, the partition counts for its limit; in another segment a second read would be needed
        to count it, so that the answer has to do without."""
        target.available = target.length
        if behind >= partition.high_water_mark:
            return
        place = partition.log.cursors.places.get(behind + 1) if behind >= found.last else None
        if place is not None and place[1] >= place[0].index.count:
            self.is_decided = True
        else:
            target.available = max(target.length, target.wanted.partition_max_bytes)

    # --- errors ----------------------------------------------------------------------------------

    def _refuse(self, target: PartitionRead, refusal: Refusal) -> None:
        error = of_refusal(refusal)
        if error is KafkaError.STORAGE_ERROR and self._version < _STORAGE_SINCE:
            error = KafkaError.NOT_LEADER_OR_FOLLOWER
        target.error = error
        if error is KafkaError.NOT_LEADER_OR_FOLLOWER:
            target.leader = self._elsewhere(target)

    def _elsewhere(self, target: PartitionRead) -> tuple[int, int]:
        """The leader of a partition that this broker doesn't lead, with its epoch."""
        view = self._broker.link.view
        if self._version >= _IDS_SINCE:
            topic = topic_by_uuid(view, target.topic_id)
        else:
            topic = view.topic(target.topic)
        if topic is None:
            return NOWHERE
        return leader_elsewhere(view, topic, target.number, target.partition)

    def _leader(self, partition: Partition) -> tuple[int, int]:
        """This broker as the leader of a partition."""
        return self._broker.link.view.broker_id, partition.leader_epoch

    def hide_unknown_ends(self) -> None:
        """Makes partitions without records refer to this broker while it, as a new leader, doesn't know the
        end: their mark may be below one that an earlier leader has shown."""
        for target in self.targets:
            partition = target.partition
            if partition is not None and target.is_empty and target.is_unsettled:
                target.error = KafkaError.NOT_LEADER_OR_FOLLOWER
                target.leader = self._leader(partition)


def _reason(partition: Partition) -> Refusal:
    """Why a read has failed. A partition that is readable may refuse appends for another reason."""
    return partition.refusal if partition.unreadable else Refusal.STORAGE


def _empty_batch(first: int, last: int, epoch: int) -> bytes:
    """A batch of these offsets without records, as compaction leaves them."""
    stamp = NO_TIMESTAMP
    return seal(
        RecordBatchHeader(first, 0, epoch, MAGIC, 0, 0, last - first, stamp, stamp, *NO_PRODUCER, 0), b""
    )
