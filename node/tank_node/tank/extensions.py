"""Our own messages (ids from 0x40 on) that the node answers by itself."""

from functools import partial
from typing import TYPE_CHECKING

from tank_node.broker.broker import Topic
from tank_node.log.errors import StorageError
from tank_node.metrics import OK
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Producer, Waiter
from tank_node.tank.acks import has_in_sync, settler_for
from tank_node.tank.end_waits import when_settled
from tank_node.tank.errors import error_name, outcome_of
from tank_node.tank.redirect import leader_of
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    AwaitEndsRequest,
    AwaitEndsResponse,
    DescribedBroker,
    DescribedPartition,
    DescribedSetting,
    DescribedTopic,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
    Feature,
    FeaturesRequest,
    FeaturesResponse,
    FindByTimeRequest,
    FindByTimeResponse,
    FoundTime,
    IdempotentPartitionResult,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopicResult,
    Limit,
    ReachedEnd,
)
from tank_protos.wire.errors import OutOfRange

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

NOBODY = 0xFFFF
UNKNOWN = 2**64 - 1

FEATURES = (
    "init_producer", "idempotent_produce", "find_by_time", "describe_topics", "create_topics", "alter_topic",
    "delete_topic", "commit_positions", "fetch_positions", "list_groups", "await_ends",
    "describe_broker", "describe_cluster", "reserve_producer_ids",
)  # fmt: skip


def features(session: "TankSession", payload: memoryview) -> None:
    """What this broker knows and bounds."""
    request = FeaturesRequest.decode(payload)
    session.knows_hosts = True
    view = session.broker.link.view
    answer = FeaturesResponse(
        request_id=request.request_id,
        cluster_id=view.cluster_id,
        broker_id=view.broker_id,
        features=[Feature(name, 0, 0) for name in FEATURES],
        limits=[Limit(name, value) for name, value in session.limits.published()],
    )
    session.answer(answer)


# --- idempotent produce --------------------------------------------------------------------------


class NumberedReply:
    """The answer to an idempotent produce: sent, with the numbers, when its last bundle is settled."""

    __slots__ = ("answer", "missing", "outcome", "results", "session")

    def __init__(self, session: "TankSession", request_id: int) -> None:
        self.session = session
        self.answer = IdempotentProduceResponse(request_id=request_id)
        self.results: list[IdempotentPartitionResult] = []
        self.outcome = OK
        """The first error among the results."""
        self.missing = 1
        """Bundles not settled yet, and 1 until `close`."""
        session.in_flight += 1

    def topic(self, name: str) -> IdempotentTopicResult:
        result = IdempotentTopicResult(name)
        self.answer.topics.append(result)
        return result

    def expect(self, topic: IdempotentTopicResult, partition: int) -> int:
        """The token of the next bundle."""
        result = IdempotentPartitionResult(partition)
        topic.partitions.append(result)
        self.results.append(result)
        self.missing += 1
        return len(self.results) - 1

    def settle(self, token: int, error: int, first: int, last: int) -> None:
        result = self.results[token]
        result.error, result.first, result.last = error, first, last
        if error:
            name = error_name(error)
            self.session.metrics.errors["idempotent_produce", name] += 1
            if self.outcome is OK:
                self.outcome = name
        self._one_less()

    def elsewhere(self, token: int, topic: str, number: int) -> None:
        """Another broker leads: tells which, if it is known."""
        if (leader := leader_of(self.session, topic, number)) is not None:
            result = self.results[token]
            result.leader_host, result.leader_port = leader.address(outside=self.session.is_outside)
        self.settle(token, ErrorCode.OTHER_LEADER, 0, 0)

    def close(self) -> None:
        """The whole request was read: nothing more will be expected."""
        self._one_less()

    def _one_less(self) -> None:
        self.missing -= 1
        if not self.missing:
            self.session.in_flight -= 1
            self.session.answer(self.answer, self.outcome)


def idempotent_produce(session: "TankSession", payload: memoryview) -> None:
    """Appends bundles once each, and tells their numbers. Without a producer id: only the numbers."""
    _bound_entries(payload, session.limits.produce_entries)
    request = IdempotentProduceRequest.decode(payload)
    reply = NumberedReply(session, request.request_id)
    required_acks = request.required_acks
    ended = request.producer_id and session.broker.link.view.producer_ended(request.producer_id)
    for wanted in request.topics:
        topic = session.broker.topics.get(wanted.name)
        result = reply.topic(wanted.name)
        for entry in wanted.partitions:
            token = reply.expect(result, entry.partition)
            partition = None if topic is None else topic.partitions.get(entry.partition)
            if _is_led_elsewhere(topic, partition, entry.partition):
                reply.elsewhere(token, wanted.name, entry.partition)
            elif topic is None or partition is None:
                error = ErrorCode.UNKNOWN_TOPIC if topic is None else topic.absence(entry.partition)
                reply.settle(token, error, 0, 0)
            elif ended:
                reply.settle(token, ErrorCode.STALE_PRODUCER_EPOCH, 0, 0)
            elif required_acks and not partition.refusal and not has_in_sync(partition, required_acks):
                reply.settle(token, ErrorCode.NOT_ENOUGH_REPLICAS, 0, 0)
            else:
                assert isinstance(entry.bundle, memoryview)
                producer = (
                    Producer(request.producer_id, request.producer_epoch, entry.sequence % 2**31)
                    if request.producer_id
                    else None
                )
                partition.append(
                    entry.bundle,
                    settler_for(reply, partition, required_acks) if required_acks else reply,
                    token,
                    max_timestamp_ms=entry.max_timestamp_ms,
                    producer=producer,
                    timeout_ms=request.ack_timeout_ms,
                )
    reply.close()


def _is_led_elsewhere(topic: Topic | None, partition: Partition | None, number: int) -> bool:
    if topic is None:
        return False
    refusal = topic.absence(number) if partition is None else partition.refusal
    return refusal is ErrorCode.OTHER_LEADER


_ENTRY_BYTES = 15


def _bound_entries(payload: memoryview, most: int) -> None:
    """Raises OutOfRange for a request so large that its entries could be more than `most`, when they are.

    Two-byte counts allow four thousand million of them; each becomes an object when decoded. A walk over
    the lengths finds out.
    """
    if len(payload) <= most * _ENTRY_BYTES:
        return
    entries = 0
    try:
        at = 6 + payload[5] + 15
        topics = int.from_bytes(payload[at : at + 2], "little")
        at += 2
        for _ in range(topics):
            at += 1 + payload[at]
            count = int.from_bytes(payload[at : at + 2], "little")
            at += 2
            entries += count
            if entries > most:
                raise OutOfRange(f"a request of more than {most} bundles")
            for _ in range(count):
                at += 14
                length = shift = 0
                while True:
                    byte = payload[at]
                    at += 1
                    length |= (byte & 0x7F) << shift
                    shift += 7
                    if byte < 0x80 or shift > 28:
                        break
                at += length
    except IndexError:
        return  # too short: the decoder says how


# --- ends and times ------------------------------------------------------------------------------


def find_by_time(session: "TankSession", payload: memoryview) -> None:
    """The first batch at or after a time, of what consumers may see."""
    request = FindByTimeRequest.decode(payload)
    topic = session.broker.topics.get(request.topic)
    partitions = topic.partitions if topic is not None else {}
    asked = [partitions.get(asked.partition) for asked in request.partitions]
    when_settled(session, asked, partial(_found_by_time, session, request))


def _found_by_time(session: "TankSession", request: FindByTimeRequest) -> None:
    topic = session.broker.topics.get(request.topic)
    answer = FindByTimeResponse(request_id=request.request_id)
    if topic is None:
        answer.error = ErrorCode.UNKNOWN_TOPIC
        answer.message = f"there is no topic {request.topic}; create it first, or check the name"
    else:
        for asked in request.partitions:
            answer.partitions.append(_find(topic, asked.partition, asked.timestamp_ms))
    session.answer(answer, outcome_of(answer.error))


def _find(topic: Topic, number: int, timestamp_ms: int) -> FoundTime:
    partition = topic.partitions.get(number)
    if partition is None:
        return FoundTime(number, topic.absence(number))
    if partition.unreadable or not partition.settled:
        return FoundTime(number, partition.refusal or ErrorCode.NO_LEADER)
    try:
        sequence_number, found_ms = partition.log.find_time(timestamp_ms)
    except StorageError:
        return FoundTime(number, ErrorCode.STORAGE)
    end = partition.high_water_mark + 1
    if sequence_number >= end:
        sequence_number, found_ms = end, 0
    return FoundTime(number, ErrorCode.NONE, sequence_number, found_ms)


def await_ends(session: "TankSession", payload: memoryview) -> None:
    """How far partitions reach; waits until one reaches further than the client knows."""
    request = AwaitEndsRequest.decode(payload)
    partitions: list[Partition] = []
    at_once = not request.max_wait_ms
    for known in request.partitions:
        topic = session.broker.topics.get(known.topic)
        partition = None if topic is None else topic.partitions.get(known.partition)
        if partition is None or partition.unreadable:
            at_once = True
            break
        partitions.append(partition)
        if not partition.settled:
            continue
        if partition.high_water_mark > known.high_water_mark:
            at_once = True
            break
        at_once = at_once or known.high_water_mark == UNKNOWN
    waited_for = tuple(dict.fromkeys(partitions))
    if at_once or not partitions or not session.may_wait(waited_for, len(partitions)):
        _answer_ends(session, request)
    else:
        EndsWait(session, request).begin(waited_for)


def _answer_ends(session: "TankSession", request: AwaitEndsRequest) -> None:
    ends = []
    for known in request.partitions:
        topic = session.broker.topics.get(known.topic)
        if topic is None:
            ends.append(ReachedEnd(ErrorCode.UNKNOWN_TOPIC))
            continue
        partition = topic.partitions.get(known.partition)
        if partition is None:
            ends.append(ReachedEnd(topic.absence(known.partition)))
        elif partition.unreadable or not partition.settled:
            ends.append(ReachedEnd(partition.refusal or ErrorCode.NO_LEADER))
        else:
            ends.append(ReachedEnd(ErrorCode.NONE, partition.log.first_available, partition.high_water_mark))
    answer = AwaitEndsResponse(request_id=request.request_id, partitions=ends)
    session.answer(answer)


class EndsWait(Waiter[Partition]):
    """A client that waits for the end of any of its partitions to move."""

    __slots__ = ("request", "session")

    def __init__(self, session: "TankSession", request: AwaitEndsRequest) -> None:
        super().__init__()
        self.session = session
        self.request = request

    def begin(self, partitions: tuple[Partition, ...]) -> None:
        self.entries = len(self.request.partitions)
        wait_ms = min(self.request.max_wait_ms, self.session.limits.max_wait_ms)
        self.session.begin_wait(self, partitions, wait_ms)

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        if partition.settled:
            self.expired()

    def settled(self, partition: Partition) -> None:
        self.expired()

    def lost(self, partition: Partition) -> None:
        self.expired()

    def expired(self) -> None:
        self.session.end_wait(self)
        _answer_ends(self.session, self.request)


# --- topics --------------------------------------------------------------------------------------


def describe_topics(session: "TankSession", payload: memoryview) -> None:
    """Brokers, and topics with all their settings and partitions."""
    request = DescribeTopicsRequest.decode(payload)
    broker = session.broker
    brokers = [
        DescribedBroker(b.broker_id, *b.address(outside=session.is_outside), b.rack)
        for _, b in sorted(broker.link.view.brokers.items())
    ]
    described = []
    for name in request.names or sorted(broker.topics):
        topic = broker.topics.get(name)
        if topic is None:
            described.append(DescribedTopic(error=ErrorCode.UNKNOWN_TOPIC, name=name))
        else:
            described.append(_describe(session, topic))
    answer = DescribeTopicsResponse(request_id=request.request_id, brokers=brokers, topics=described)
    session.answer(answer)


def _describe(session: "TankSession", topic: Topic) -> DescribedTopic:
    view = topic.view
    partitions = []
    for placed in view.partitions:
        partition = topic.partitions.get(placed.partition)
        first = mark = size = UNKNOWN
        if partition is not None:
            first = partition.log.first_available
            mark = partition.high_water_mark if partition.settled and not partition.unreadable else UNKNOWN
            size = partition.log.size_bytes
        partitions.append(
            DescribedPartition(
                partition=placed.partition,
                leader=placed.leader or NOBODY,
                leader_epoch=placed.leader_epoch,
                replicas=list(placed.replicas),
                in_sync=list(placed.in_sync),
                first_available=first,
                high_water_mark=mark,
                size_bytes=size,
            )
        )
    settings = view.settings.describe(session.broker.default_flush, view.replication_factor)
    return DescribedTopic(
        name=view.name,
        topic_id=view.topic_id,
        replication_factor=view.replication_factor,
        settings=[DescribedSetting(key, value, int(is_default)) for key, value, is_default in settings],
        partitions=partitions,
    )
