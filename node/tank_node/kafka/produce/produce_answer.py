"""The answer to a Produce request, which is sent when the last of its batches is complete."""

from typing import TYPE_CHECKING, ClassVar, Final

from tank_node.broker.broker import Topic
from tank_node.kafka.errors import KafkaError, of_refusal, outcome_of
from tank_node.kafka.leaders import NO_BROKER, endpoint_of, leader_elsewhere
from tank_node.metrics import OK
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.replication.role import Role
from tank_protos.generated.kafka.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_STORAGE_SINCE: Final = 4
"""The first version that knows STORAGE_ERROR."""
_LEADERS_SINCE: Final = 10
"""The first version whose answer names the leader of a partition that isn't led here."""
_NO_OFFSET: Final = -1
NO_APPEND_TIME: Final = -1
"""Stands for the time of an append that the records don't have."""
_KIND: Final = "kafka_produce"
"""The name of the request in the counts of errors."""


class NoAnswer(WireError):
    """A request with acks 0 has failed. It has no answer, so that its client only learns it by the end of the
    connection."""

    reason: ClassVar[str] = "failed_without_answer"


def log_start_offset(partition: Partition) -> int:
    """The first offset that a partition has."""
    return max(partition.log.first_available, 1) - 1


class _Part:
    """One partition of a request, and its result."""

    __slots__ = ("append_ms", "end", "partition", "result", "topic")

    def __init__(self, result: PartitionProduceResponse, topic: Topic | None) -> None:
        self.result = result
        self.topic = topic
        """None: this broker knows no such topic."""
        self.partition: Partition | None = None
        """None: there is none here."""
        self.end = 0
        """The log's end before the append: a batch at or below it is the first copy of a repeat."""
        self.append_ms = NO_APPEND_TIME
        """The time of the append, if the records have it."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that the partition has; -1: it isn't here."""
        return _NO_OFFSET if self.partition is None else log_start_offset(self.partition)


class ProduceAnswer:
    """The answer to one request: sent when the last of its batches is complete."""

    __slots__ = ("_call", "_is_silent", "_missing", "_outcome", "_parts", "response")

    def __init__(self, call: "KafkaCall", *, is_silent: bool) -> None:
        self._call = call
        self._is_silent = is_silent
        """Whether no answer is sent, as with acks 0."""
        self.response = ProduceResponse()
        self._parts: list[_Part] = []
        """The batches of the request, by their tokens."""
        self._missing = 1
        """The number of batches that are not complete, plus 1 until `close`."""
        self._outcome = OK
        """The name of the first error among the results."""

    def expect(self, answer: TopicProduceResponse, topic: Topic | None, number: int) -> int:
        """Adds a result for the next batch of the request, and returns its token."""
        result = PartitionProduceResponse(number)
        answer.partition_responses.append(result)
        self._parts.append(_Part(result, topic))
        self._missing += 1
        return len(self._parts) - 1

    def appends(self, token: int, partition: Partition, append_ms: int) -> None:
        """Notes that this batch is appended now. append_ms: the time of the append, if the records have it;
        else NO_APPEND_TIME."""
        part = self._parts[token]
        part.partition, part.append_ms, part.end = partition, append_ms, partition.end()

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        part = self._parts[token]
        partition = part.partition
        assert partition is not None
        if refusal:
            self.fail(token, _error_of(refusal, partition))
        elif not first:
            self.fail(token, KafkaError.DUPLICATE_SEQUENCE_NUMBER)
        else:
            result = part.result
            result.base_offset = first - 1
            result.log_start_offset = part.log_start_offset
            if first > part.end:
                result.log_append_time_ms = part.append_ms
            self._one_less()

    def stores_nothing(self, token: int, partition: Partition) -> None:
        """Completes an empty message set: without an error, and without an offset."""
        part = self._parts[token]
        part.partition = partition
        part.result.base_offset = _NO_OFFSET
        part.result.log_start_offset = part.log_start_offset
        self._one_less()

    def fail(
        self,
        token: int,
        error: KafkaError,
        sentence: str | None = None,
        record: int | None = None,
        partition: Partition | None = None,
    ) -> None:
        """Completes a batch with an error. sentence: for people, what is wrong. record: the place in the
        batch of the record that is wrong."""
        part = self._parts[token]
        part.partition = part.partition or partition
        version = self._call.version
        if error is KafkaError.STORAGE_ERROR and version < _STORAGE_SINCE:
            error = KafkaError.NOT_LEADER_OR_FOLLOWER
        result = part.result
        result.error_code = error
        result.base_offset = _NO_OFFSET
        result.log_start_offset = part.log_start_offset
        result.error_message = sentence
        if record is not None:
            result.record_errors = [BatchIndexAndErrorMessage(record, sentence)]
        if error is KafkaError.NOT_LEADER_OR_FOLLOWER and version >= _LEADERS_SINCE:
            self._name_leader(part)
        name = outcome_of(error)
        self._call.session.metrics.errors[_KIND, name] += self._call.requests
        if self._outcome is OK:
            self._outcome = name
        self._one_less()

    def _name_leader(self, part: _Part) -> None:
        """Adds the partition's leader and its address: without these, clients look for them after a
        pause."""
        if part.topic is None:
            return
        session = self._call.session
        view, number = session.broker.link.view, part.result.index
        partition = part.partition or part.topic.partitions.get(number)
        leader, epoch = leader_elsewhere(view, part.topic.view, number, partition)
        if leader == NO_BROKER:
            return
        part.result.current_leader = LeaderIdAndEpoch(leader, epoch)
        nodes = self.response.node_endpoints
        address = endpoint_of(session, leader)
        if address is not None and nodes.find(leader) is None:
            nodes.append(NodeEndpoint(leader, *address))

    def close(self) -> None:
        """Ends the reading of the request: `expect` is not called any more. Raises NoAnswer."""
        if self._is_silent and self._outcome is not OK:
            raise NoAnswer(f"a request with acks 0: {self._outcome}")
        self._one_less()

    def _one_less(self) -> None:
        self._missing -= 1
        if self._missing:
            return
        call = self._call
        if not self._is_silent:
            call.answer(self.response, self._outcome)
            return
        call.end_silently(self._outcome)
        if self._outcome is not OK:
            call.session.hang_up(NoAnswer.reason)


def _error_of(refusal: Refusal, partition: Partition) -> KafkaError:
    """The error for a partition's refusal, by what is the matter with the partition now."""
    if refusal is not Refusal.NOT_ACKNOWLEDGED_IN_TIME:
        return of_refusal(refusal)
    if partition.role is not Role.LEADER:
        return KafkaError.NOT_LEADER_OR_FOLLOWER
    if partition.refusal is Refusal.NOT_ENOUGH_REPLICAS:
        return KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return of_refusal(partition.refusal or refusal)
