"""ListOffsets (2): the ends of partitions, and records by their times.

Version 0 asks for a list of offsets, of which all but the newest are where segments begin.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from tank_node.kafka.errors import KafkaError, of_refusal, outcome_of
from tank_node.kafka.led import led_by_us, record_epoch, replica_of
from tank_node.kafka.settling import KafkaPause, when_settled
from tank_node.limits import LOOKED_UP_PARTITIONS, SEARCHED_MESSAGES, SEARCHED_PARTITIONS
from tank_node.log.log import LogState
from tank_node.log.time_search import TimeSearch
from tank_node.metrics import OK
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.segment.errors import StorageError
from tank_protos.generated.kafka import ListOffsetsRequest, ListOffsetsResponse
from tank_protos.generated.kafka.list_offsets_request import ListOffsetsPartition
from tank_protos.generated.kafka.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

LATEST: Final = -1
EARLIEST: Final = -2
GREATEST_TIME: Final = -3
EARLIEST_HERE: Final = -4
LAST_TIERED: Final = -5
_SINCE: Final = {LATEST: 0, EARLIEST: 0, GREATEST_TIME: 7, EARLIEST_HERE: 8, LAST_TIERED: 9}
"""The first version with each time that has a special meaning."""
_LIST: Final = 0
"""The version that asks for a list."""
_EPOCHS_SINCE: Final = 4
_NOT_AVAILABLE_SINCE: Final = 5
"""The first version in which clients know OFFSET_NOT_AVAILABLE."""
_CONSUMER: Final = -1
_DEBUGGER: Final = -2
"""Replica ids: a consumer, and a reader of any replica. From 0 on they are the ids of followers."""
_MOST_TIME: Final = 2**63 - 1
"""The greatest timestamp in a message. Those of TANK's messages may be greater."""


def list_offsets(call: "KafkaCall", body: memoryview) -> None:
    """Answers for each partition with an offset, or with a list in version 0; waits for partitions whose
    leader doesn't know their end so far."""
    request = ListOffsetsRequest.decode(body, call.version)
    search = _Search(call, request)
    when_settled(call, search.unsettled(), search.answer)


class _Search:
    """One request, and its answer as it grows."""

    __slots__ = ("_call", "_outcome", "_request", "_room", "_todo", "_topics", "_twice")

    def __init__(self, call: "KafkaCall", request: ListOffsetsRequest) -> None:
        self._call = call
        self._request = request
        named = Counter(
            (topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions
        )
        self._twice = {key for key, count in named.items() if count > 1}
        self._topics = [ListOffsetsTopicResponse(topic.name) for topic in request.topics]
        self._todo = (
            (answered, asked)
            for topic, answered in zip(request.topics, self._topics, strict=True)
            for asked in topic.partitions
        )
        """The partitions without a result so far."""
        self._outcome = OK
        self._room = 0
        """The messages that may be decoded in this tick; other work counts as some."""

    def unsettled(self) -> list[Partition]:
        """The partitions whose ends the answer needs."""
        found = []
        for topic in self._request.topics:
            for asked in topic.partitions:
                partition = self._partition(topic.name, asked)
                if isinstance(partition, Partition) and self._needs_end(asked):
                    found.append(partition)
        return found

    def answer(self) -> None:
        """Answers with what is known now: at once, or after several ticks when the searches take long."""
        self._room = SEARCHED_MESSAGES
        for topic, asked in self._todo:
            self._room -= SEARCHED_MESSAGES // LOOKED_UP_PARTITIONS
            result = self._result(topic.name, asked)
            topic.partitions.append(result)
            if result.error_code:
                self._outcome = outcome_of(result.error_code)
            if self._room <= 0:
                KafkaPause(self._call, self.answer).begin()
                return
        self._call.answer(ListOffsetsResponse(topics=self._topics), self._outcome)

    def _needs_end(self, asked: ListOffsetsPartition) -> bool:
        if self._request.replica_id == _DEBUGGER:
            return False
        return asked.timestamp >= LATEST or asked.timestamp == GREATEST_TIME

    def _partition(self, topic_name: str, asked: ListOffsetsPartition) -> Partition | KafkaError:
        version, time_ms = self._call.version, asked.timestamp
        if (topic_name, asked.partition_index) in self._twice:
            return KafkaError.INVALID_REQUEST
        if self._request.replica_id > _CONSUMER:  # brokers are pushed to, by a protocol of their own
            return KafkaError.CLUSTER_AUTHORIZATION_FAILED
        if time_ms < 0 and version != _LIST and version < _SINCE.get(time_ms, version + 1):
            return KafkaError.UNSUPPORTED_VERSION
        broker, number = self._call.session.broker, asked.partition_index
        if self._request.replica_id != _DEBUGGER:
            return led_by_us(broker, topic_name, number, asked.current_leader_epoch)
        replica = replica_of(broker, topic_name, number)
        if isinstance(replica, Partition) and replica.log.state not in (LogState.ACTIVE, LogState.FAILED):
            return of_refusal(Refusal.DAMAGED)
        return replica

    def _result(self, topic_name: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        result = ListOffsetsPartitionResponse(asked.partition_index)
        partition = self._partition(topic_name, asked)
        if isinstance(partition, KafkaError):
            result.error_code = partition
        elif self._needs_end(asked) and not partition.end_known:
            knows = self._call.version >= _NOT_AVAILABLE_SINCE
            result.error_code = KafkaError.OFFSET_NOT_AVAILABLE if knows else KafkaError.LEADER_NOT_AVAILABLE
        else:
            try:
                if self._call.version == _LIST:
                    now_ms = self._call.session.broker.tick.now_ms
                    most = max(asked.max_num_offsets, 0)
                    self._room -= len(partition.log.segments.list)
                    result.old_style_offsets = _listed(partition, asked.timestamp, now_ms)[:most]
                else:
                    self._fill(result, partition, asked.timestamp)
            except StorageError as error:
                partition.note_error(error)
                result.error_code = KafkaError.STORAGE_ERROR
        return result

    def _fill(self, result: ListOffsetsPartitionResponse, partition: Partition, time_ms: int) -> None:
        """Puts the offset for a time into a result, with the leader epoch of the record there, not with the
        present one: clients ask later where that epoch ended. Raises StorageError."""
        log, mark = partition.log, partition.high_water_mark
        number = 0
        if time_ms == LATEST:
            number = mark + 1
        elif time_ms in (EARLIEST, EARLIEST_HERE):
            number = log.first_available or 1
        elif time_ms != LAST_TIERED:
            search = TimeSearch(log, mark)
            found = search.greatest() if time_ms == GREATEST_TIME else search.first_at(time_ms)
            self._room -= search.walked_messages + SEARCHED_MESSAGES // SEARCHED_PARTITIONS
            if found is not None:
                number = found.number
                result.timestamp = min(found.timestamp_ms, _MOST_TIME)
        if number:
            result.offset = number - 1
            if self._call.version >= _EPOCHS_SINCE:
                result.leader_epoch = record_epoch(partition, number)


def _listed(partition: Partition, time_ms: int, now_ms: int) -> list[int]:
    """The offsets for a time, newest first: the high-water mark, and where segments begin. A time begins at
    the newest segment that was last written at or before it. Raises StorageError."""
    log, mark = partition.log, partition.high_water_mark
    start = max(log.first_available, 1) - 1
    if time_ms == EARLIEST:
        return [start]
    begins: dict[int, int] = {}
    for segment in log.segments.list:
        offset = max(segment.base - 1, start)
        if segment.count and offset < mark:
            begins[offset] = segment.last_append_ms
    offsets = [offset for offset, written_ms in begins.items() if time_ms == LATEST or written_ms <= time_ms]
    if time_ms == LATEST or time_ms >= now_ms:
        offsets.append(max(mark, start))
    return offsets[::-1]
