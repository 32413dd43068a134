"""DeleteRecords (21): raises the first offsets of partitions. Kafka Streams uses it on repartition topics.

A deletion is answered when it outlives this broker's end: its disk says the new log start, and all in-sync
followers have it, one of which would lead next.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tank_node.kafka.errors import KafkaError, of_refusal, outcome_of
from tank_node.kafka.led import led_by_us
from tank_node.kafka.settling import when_settled
from tank_node.kafka.topic_names import is_internal
from tank_node.log.log import LogState
from tank_node.metrics import OK
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Waiter
from tank_node.segment.errors import StorageError
from tank_protos.generated.kafka import DeleteRecordsRequest, DeleteRecordsResponse
from tank_protos.generated.kafka.delete_records_request import DeleteRecordsPartition
from tank_protos.generated.kafka.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
    DeleteRecordsTopicResultCollection,
)
from tank_protos.topic_settings import CleanupPolicy

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_HIGH_WATERMARK: Final = -1
"""Stands in a request for the high-water mark: all committed records are deleted."""
_UNKNOWN: Final = -1
"""Stands in an answer for the first offset, with an error."""


def delete_records(call: "KafkaCall", body: memoryview) -> None:
    """Deletes the records of each partition below its offset. Waits before it where the leader doesn't know
    its high-water mark, and after it until the deletion is safe, or the request's timeout has passed."""
    request = DeleteRecordsRequest.decode(body, call.version)
    deletion = _Deletion(call, request)
    when_settled(call, deletion.unsettled(), deletion.begin)


class _Deletion:
    """One request, and its answer as it grows."""

    __slots__ = ("_call", "_open", "_request", "_results")

    def __init__(self, call: "KafkaCall", request: DeleteRecordsRequest) -> None:
        self._call = call
        self._request = request
        self._results = [
            (topic.name, asked, DeleteRecordsPartitionResult(asked.partition_index, _UNKNOWN))
            for topic in request.topics
            for asked in topic.partitions
        ]
        self._open: list[tuple[Partition, int, DeleteRecordsPartitionResult]] = []
        """(partition, its new log start, result) of deletions that may not be safe so far."""

    def unsettled(self) -> list[Partition]:
        """The partitions whose high-water marks decide on the answer."""
        found = []
        for name, asked, _ in self._results:
            partition = self._partition(name, asked)
            if isinstance(partition, Partition) and not 0 <= asked.offset <= partition.high_water_mark:
                found.append(partition)
        return found

    def begin(self) -> None:
        """Deletes, and begins to wait."""
        for name, asked, result in self._results:
            partition = self._partition(name, asked)
            if isinstance(partition, KafkaError):
                result.error_code = partition
                continue
            number = (partition.high_water_mark if asked.offset == _HIGH_WATERMARK else asked.offset) + 1
            if not 0 < number <= partition.high_water_mark + 1:
                known = partition.end_known
                result.error_code = (
                    KafkaError.OFFSET_OUT_OF_RANGE if known else KafkaError.LEADER_NOT_AVAILABLE
                )
                continue
            try:
                partition.start.raise_to(number, partition.leadership)
            except StorageError as error:
                partition.note_error(error)
                result.error_code = KafkaError.STORAGE_ERROR
                continue
            self._open.append((partition, max(number, partition.log.first_available), result))
        if self._open:
            DeletionWait(self._call, self._open, self.answer).begin(self._request.timeout_ms)
        else:
            self.answer()

    def _partition(self, topic_name: str, asked: DeleteRecordsPartition) -> Partition | KafkaError:
        broker = self._call.session.broker
        if is_internal(topic_name):
            return KafkaError.INVALID_TOPIC
        partition = led_by_us(broker, topic_name, asked.partition_index)
        if isinstance(partition, KafkaError):
            return partition
        if broker.topics[topic_name].view.settings.cleanup_policy is CleanupPolicy.CLEANUP:
            return KafkaError.POLICY_VIOLATION  # the newest record of each key is to stay
        if partition.log.state is not LogState.ACTIVE:
            return KafkaError.STORAGE_ERROR
        return partition

    def answer(self) -> None:
        """Answers with the results."""
        outcome = OK
        topics: dict[str, DeleteRecordsTopicResult] = {}
        for topic in self._request.topics:
            topics.setdefault(topic.name, DeleteRecordsTopicResult(topic.name))
        for name, _, result in self._results:
            topics[name].partitions.append(result)
            if result.error_code:
                outcome = outcome_of(result.error_code)
        answered = DeleteRecordsTopicResultCollection(topics.values())
        self._call.answer(DeleteRecordsResponse(topics=answered), outcome)


class DeletionWait(Waiter[Partition]):
    """Deletions that are done in memory, and wait for disk and followers."""

    __slots__ = ("_answer", "_asked", "_call", "_deletions", "_saved")

    def __init__(
        self,
        call: "KafkaCall",
        deletions: list[tuple[Partition, int, DeleteRecordsPartitionResult]],
        answer: Callable[[], None],
    ) -> None:
        super().__init__()
        self._call = call
        self._deletions = deletions
        self._answer = answer
        self._asked = self._saved = False
        """Whether the checkpoint that says the log starts was asked for, and is written."""

    def begin(self, timeout_ms: int) -> None:
        """Begins to wait, at most this long."""
        session = self._call.session
        partitions = tuple(dict.fromkeys(partition for partition, _, _ in self._deletions))
        if not session.may_wait(partitions, len(self._deletions)):
            timeout_ms = 0
        self.entries = len(self._deletions)
        self._call.on_close = self.gone
        session.begin_wait(self, partitions, min(max(timeout_ms, 0), session.limits.max_wait_ms))
        for partition, number, _ in self._deletions:
            partition.start.watchers[self.look] = None
            # Behind the synced end a log start doesn't survive a crash: see recovery.
            session.broker.flusher.request(partition.log, number - 1)
        self.look()

    def look(self) -> None:
        """Answers if all deletions are safe, and asks for the checkpoint when the disk may say them."""
        waiting = [each for each in self._deletions if not each[2].error_code]
        if not self._asked and all(partition.log.synced >= number - 1 for partition, number, _ in waiting):
            self._asked = True
            broker = self._call.session.broker
            broker.data_folder.write_checkpoint_with(broker.flusher, self._written)
            return
        if self.done or not self._saved:
            return
        if all(partition.start.lowest(partition.leadership) >= number for partition, number, _ in waiting):
            self._end(KafkaError.NONE)

    def _written(self, ok: bool) -> None:
        if self.done:
            return
        self._saved = ok
        if ok:
            self.look()
        else:
            self._end(KafkaError.STORAGE_ERROR)

    def _end(self, error: KafkaError) -> None:
        """Ends the wait, and answers with this error for the deletions that have none of their own."""
        self.gone()
        for partition, number, result in self._deletions:
            if result.error_code:
                continue
            if error and not (self._saved and partition.start.lowest(partition.leadership) >= number):
                result.error_code = error
            else:
                result.low_watermark = max(partition.log.first_available, 1) - 1
        self._answer()

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        """Does nothing: a raised log start doesn't depend on the high-water mark."""

    def lost(self, partition: Partition) -> None:
        for lost, _, result in self._deletions:
            if lost is partition:
                result.error_code = of_refusal(partition.refusal or Refusal.NO_LEADER)
        self.look()

    def expired(self) -> None:
        self._end(KafkaError.REQUEST_TIMED_OUT)

    def gone(self) -> None:
        """Ends the wait without an answer. What was deleted stays so."""
        self._call.session.end_wait(self)
        for partition, _, _ in self._deletions:
            partition.start.watchers.pop(self.look, None)
