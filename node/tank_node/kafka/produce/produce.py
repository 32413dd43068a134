"""Produce (0): appends a batch to each partition of a request, and answers with their results.

This is the way of requests whose form is new to their connection; `produce_forms` takes those that follow.
"""

from typing import TYPE_CHECKING, Final

from tank_node.broker.broker import Topic
from tank_node.broker.topic_ids import served_topic
from tank_node.kafka.errors import KafkaError, of_fault, of_refusal
from tank_node.kafka.produce.produce_answer import ProduceAnswer
from tank_node.kafka.produce.produce_forms import learn
from tank_node.kafka.produce.produced_records import InTransaction, checked_batch
from tank_node.kafka.produce.request_room import RequestIsFull, RequestRoom
from tank_node.kafka.topic_names import is_internal
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Acked
from tank_protos.generated.kafka.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tank_protos.generated.kafka.produce_response import TopicProduceResponse
from tank_protos.kafka.errors import InvalidRecords

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_COUNTED_ACKS_BELOW: Final = 3
"""Before this version, `acks` may be any number of replicas."""
_BATCHES_SINCE: Final = 3
"""The first version in which each partition needs a batch; a message set before it may be empty."""
_IDS_SINCE: Final = 13
"""The first version that names topics by their ids."""


def produce(call: "KafkaCall", body: memoryview) -> None:
    """Appends each batch, with its own result. Raises NoAnswer."""
    session = call.session
    request = ProduceRequest.decode(body, call.version)
    reply = ProduceAnswer(call, is_silent=request.acks == 0)
    # Without a time to wait, a batch that isn't complete at once is not in time.
    timeout_ms = min(max(request.timeout_ms, 1), session.limits.max_wait_ms)
    room = RequestRoom()
    for wanted in request.topic_data:
        topic, error = _topic_of(call, wanted)
        answer = TopicProduceResponse(wanted.name, wanted.topic_id)
        reply.response.responses.append(answer)
        for entry in wanted.partition_data:
            token = reply.expect(answer, topic, entry.index)
            if topic is None:
                reply.fail(token, error)
            else:
                _append(reply, token, call, request.acks, timeout_ms, topic, entry, room)
        if topic is not None and len(request.topic_data) == len(wanted.partition_data) == 1:
            learn(call, body, request, topic, timeout_ms)
    session.broker.tick.unpacked_bytes += room.unpacked_bytes
    reply.close()


def _topic_of(call: "KafkaCall", wanted: TopicProduceData) -> tuple[Topic | None, KafkaError]:
    """The topic that a request names, or the error for it."""
    broker = call.session.broker
    if call.version < _IDS_SINCE:
        name, error = wanted.name, KafkaError.UNKNOWN_TOPIC_OR_PARTITION
        topic = broker.topics.get(name)
    else:
        topic, error = served_topic(broker, wanted.topic_id), KafkaError.UNKNOWN_TOPIC_ID
        name = "" if topic is None else topic.name
    return (None, KafkaError.INVALID_TOPIC) if is_internal(name) else (topic, error)


def _partition_of(
    reply: ProduceAnswer, token: int, call: "KafkaCall", acks: int, topic: Topic, number: int
) -> Partition | None:
    """The partition to append a batch to; None after it completed the batch with an error."""
    if acks < -1 or (acks > 1 and call.version >= _COUNTED_ACKS_BELOW):
        reply.fail(token, KafkaError.INVALID_REQUIRED_ACKS)
        return None
    partition = topic.partitions.get(number)
    if partition is None:
        absence = topic.absence(number) if number >= 0 else Refusal.UNKNOWN_PARTITION
        reply.fail(token, of_refusal(absence))
    elif not partition.takes(_acked(acks)):
        reply.fail(token, of_refusal(partition.refusal), partition=partition)
    else:
        return partition
    return None


def _acked(acks: int) -> Acked:
    """When a batch is complete. A client that counts more replicas than one gets all that are in sync: there
    are never fewer."""
    return Acked.WRITTEN if 0 <= acks <= 1 else Acked.COMMITTED


def _append(
    reply: ProduceAnswer,
    token: int,
    call: "KafkaCall",
    acks: int,
    timeout_ms: int,
    topic: Topic,
    entry: PartitionProduceData,
    room: RequestRoom,
) -> None:
    """Appends one batch, or completes it with its error."""
    partition = _partition_of(reply, token, call, acks, topic, entry.index)
    if partition is None:
        return
    if call.version < _BATCHES_SINCE and entry.records is not None and not len(entry.records):
        reply.stores_nothing(token, partition)
        return
    session, tick = call.session, partition.tick
    broker = session.broker
    try:
        batch = checked_batch(
            entry.records, call.version, topic.view.settings, tick.now_ms, session.metrics, room
        )
    except InvalidRecords as invalid:
        name = f"a batch for {topic.name}/{entry.index}: {invalid}"
        broker.refusals.note(invalid.reason, name, tick.monotonic_ms)
        reply.fail(token, of_fault(invalid.fault), str(invalid), invalid.index, partition)
        return
    except RequestIsFull as full:
        session.metrics.refused["request_is_full"] += 1
        reply.fail(token, KafkaError.REQUEST_TIMED_OUT, str(full), partition=partition)
        return
    except InTransaction as refused:
        reply.fail(token, KafkaError.INVALID_TXN_STATE, str(refused), partition=partition)
        return
    producer = batch.producer
    if producer is not None and broker.link.view.producer_ended(producer.producer_id):
        reply.fail(token, KafkaError.INVALID_PRODUCER_EPOCH, partition=partition)
    else:
        reply.appends(token, partition, batch.append_ms)
        partition.append(
            batch.data,
            reply,
            token,
            max_timestamp_ms=batch.max_timestamp_ms,
            producer=producer,
            timeout_ms=timeout_ms,
            acked=_acked(acks),
        )
