"""IdempotentProduce (66): stores each bundle once, and answers with the messages' numbers. `record_batches`
does the same with record batches."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tank_node.broker.broker import Topic
from tank_node.metrics import OK
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Completion, ProducerStamp
from tank_node.tank.acks import completion_for, has_in_sync
from tank_node.tank.converted_produce import append_converted
from tank_node.tank.errors import error_code, error_name
from tank_node.tank.redirect import leader_of
from tank_protos.generated.tank import (
    IdempotentPartition,
    IdempotentPartitionResult,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopicResult,
    ProduceRecordBatchesRequest,
    ProduceRecordBatchesResponse,
    RecordBatchesPartition,
    RecordBatchesPartitionResult,
    RecordBatchesTopicResult,
)
from tank_protos.wire.errors import OutOfRange

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession


ProduceOnceRequest: TypeAlias = IdempotentProduceRequest | ProduceRecordBatchesRequest
_Entry: TypeAlias = IdempotentPartition | RecordBatchesPartition


class EntryAppend(Protocol):
    """Appends the batches of a request, each as one kind of request wants it."""

    def append(
        self,
        topic: Topic,
        partition: Partition,
        entry: "_Entry",
        completion: Completion,
        token: int,
        *,
        producer: ProducerStamp | None,
        timeout_ms: int,
    ) -> None:
        """Completes the token at once, or when the batch is stored."""


class NumberedReply:
    """The answer to an idempotent produce: sent, with the numbers, when its last batch is complete."""

    __slots__ = ("answer", "missing", "name", "outcome", "results", "session")

    def __init__(
        self,
        session: "TankSession",
        answer: IdempotentProduceResponse | ProduceRecordBatchesResponse,
        name: str,
    ) -> None:
        self.session = session
        self.answer = answer
        self.name = name
        """The request's name in the metrics."""
        self.results: list[IdempotentPartitionResult | RecordBatchesPartitionResult] = []
        self.outcome = OK
        """The first error among the results."""
        self.missing = 1
        """The number of batches that are not complete yet, plus 1 until `close`."""
        session.in_flight += 1

    def topic(self, name: str) -> IdempotentTopicResult | RecordBatchesTopicResult:
        answer = self.answer
        if isinstance(answer, IdempotentProduceResponse):
            result = IdempotentTopicResult(name)
            answer.topics.append(result)
            return result
        of_records = RecordBatchesTopicResult(name)
        answer.topics.append(of_records)
        return of_records

    def expect(self, topic: IdempotentTopicResult | RecordBatchesTopicResult, partition: int) -> int:
        """Adds a result for the next batch, and returns its token."""
        if isinstance(topic, IdempotentTopicResult):
            result = IdempotentPartitionResult(partition)
            topic.partitions.append(result)
            self.results.append(result)
        else:
            of_records = RecordBatchesPartitionResult(partition)
            topic.partitions.append(of_records)
            self.results.append(of_records)
        self.missing += 1
        return len(self.results) - 1

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        result = self.results[token]
        result.error, result.first, result.last = error_code(refusal), first, last
        if refusal:
            name = error_name(refusal)
            self.session.metrics.errors[self.name, name] += 1
            if self.outcome is OK:
                self.outcome = name
        self._one_less()

    def elsewhere(self, token: int, topic: str, number: int) -> None:
        """Completes a batch whose partition another broker leads, with that broker's address if known."""
        if (leader := leader_of(self.session, topic, number)) is not None:
            result = self.results[token]
            result.leader_host, result.leader_port = leader.address(outside=self.session.is_outside)
        self.complete(token, Refusal.OTHER_LEADER, 0, 0)

    def close(self) -> None:
        """Ends the reading of the request: `expect` is not called any more."""
        self._one_less()

    def _one_less(self) -> None:
        self.missing -= 1
        if not self.missing:
            self.session.in_flight -= 1
            self.session.answer(self.answer, self.outcome)


class _BundleAppend:
    """Appends bundles, which become record batches where the topic has Kafka's format."""

    __slots__ = ()

    def append(
        self,
        topic: Topic,
        partition: Partition,
        entry: _Entry,
        completion: Completion,
        token: int,
        *,
        producer: ProducerStamp | None,
        timeout_ms: int,
    ) -> None:
        assert isinstance(entry, IdempotentPartition)
        assert isinstance(entry.bundle, memoryview)
        if partition.stores_record_batches:
            append_converted(
                partition, entry.bundle, completion, token, producer=producer, timeout_ms=timeout_ms
            )
            return
        partition.append(
            entry.bundle,
            completion,
            token,
            max_timestamp_ms=entry.max_timestamp_ms,
            producer=producer,
            timeout_ms=timeout_ms,
        )


def idempotent_produce(session: "TankSession", payload: memoryview) -> None:
    """Appends each bundle once, and answers with the numbers. Without a producer id, a bundle that is sent
    twice is stored twice."""
    bound_entries(
        payload, session.limits.produce_entries, IdempotentProduceRequest.count_partitions, _ENTRY_BYTES
    )
    request = IdempotentProduceRequest.decode(payload)
    session.client_id = request.client_id
    reply = NumberedReply(session, IdempotentProduceResponse(request.request_id), "idempotent_produce")
    append_once(session, request, reply, _BundleAppend())


def append_once(
    session: "TankSession", request: ProduceOnceRequest, reply: NumberedReply, appends: EntryAppend
) -> None:
    """Appends the batches of a request, as `appends` does it; those of partitions that are led elsewhere, or
    that a check refuses, are completed here."""
    required_acks = request.required_acks
    ended = request.producer_id and session.broker.link.view.producer_ended(request.producer_id)
    for wanted in request.topics:
        topic = session.broker.topics.get(wanted.name)
        result = reply.topic(wanted.name)
        for entry in wanted.partitions:
            token = reply.expect(result, entry.partition)
            partition = None if topic is None else topic.partitions.get(entry.partition)
            if topic is not None and session.broker.is_internal(topic.name):
                reply.complete(token, Refusal.INTERNAL_TOPIC, 0, 0)
            elif _is_led_elsewhere(topic, partition, entry.partition):
                reply.elsewhere(token, wanted.name, entry.partition)
            elif topic is None or partition is None:
                refusal = Refusal.UNKNOWN_TOPIC if topic is None else topic.absence(entry.partition)
                reply.complete(token, refusal, 0, 0)
            elif ended:
                reply.complete(token, Refusal.STALE_PRODUCER_EPOCH, 0, 0)
            elif required_acks and not partition.refusal and not has_in_sync(partition, required_acks):
                reply.complete(token, Refusal.NOT_ENOUGH_REPLICAS, 0, 0)
            else:
                producer = (
                    ProducerStamp(request.producer_id, request.producer_epoch, entry.sequence % 2**31)
                    if request.producer_id
                    else None
                )
                completion = completion_for(reply, partition, required_acks) if required_acks else reply
                appends.append(
                    topic,
                    partition,
                    entry,
                    completion,
                    token,
                    producer=producer,
                    timeout_ms=request.ack_timeout_ms,
                )
    reply.close()


def _is_led_elsewhere(topic: Topic | None, partition: Partition | None, number: int) -> bool:
    if topic is None:
        return False
    refusal = topic.absence(number) if partition is None else partition.refusal
    return refusal is Refusal.OTHER_LEADER


_ENTRY_BYTES = 15


def bound_entries(
    payload: memoryview, most: int, count: Callable[[memoryview, int], int], entry_bytes: int
) -> None:
    """Raises OutOfRange for a request with more than `most` batches, before it is decoded. `count`: counts
    them, up to a limit. `entry_bytes`: the size of the smallest entry.

    Its two-byte counts allow four thousand million, and each becomes an object. They are only counted in a
    request that is long enough for more than `most`.
    """
    if len(payload) > most * entry_bytes and count(payload, most) > most:
        raise OutOfRange(f"a request of more than {most} batches")
