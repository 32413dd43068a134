"""FindByTime (67) and AwaitEnds (75): the first message from a time on, and the ends of partitions."""

from functools import partial
from typing import TYPE_CHECKING

from tank_node.broker.broker import Topic
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Waiter
from tank_node.segment.errors import StorageError
from tank_node.tank.end_waits import when_end_known
from tank_node.tank.errors import error_code, outcome_of
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    AwaitEndsRequest,
    AwaitEndsResponse,
    FindByTimeRequest,
    FindByTimeResponse,
    FoundTime,
    ReachedEnd,
)

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

UNKNOWN = 2**64 - 1
"""Stands in a message for a number or size that isn't known."""


def find_by_time(session: "TankSession", payload: memoryview) -> None:
    """Answers with the first batch at or after a time, among those that consumers may see."""
    request = FindByTimeRequest.decode(payload)
    topic = session.broker.topics.get(request.topic)
    partitions = topic.partitions if topic is not None else {}
    asked = [partitions.get(asked.partition) for asked in request.partitions]
    when_end_known(session, asked, partial(_found_by_time, session, request))


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
        return FoundTime(number, error_code(topic.absence(number)))
    if partition.unreadable or not partition.end_known:
        return FoundTime(number, error_code(partition.refusal or Refusal.NO_LEADER))
    try:
        sequence_number, found_ms = partition.log.find_time(timestamp_ms)
    except StorageError:
        return FoundTime(number, ErrorCode.STORAGE)
    end = partition.high_water_mark + 1
    if sequence_number >= end:
        sequence_number, found_ms = end, 0
    return FoundTime(number, ErrorCode.NONE, sequence_number, found_ms)


def await_ends(session: "TankSession", payload: memoryview) -> None:
    """Answers with the ends of partitions, as soon as one of them is above the end that the client knows."""
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
        if not partition.end_known:
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
            ends.append(ReachedEnd(error_code(topic.absence(known.partition))))
        elif partition.unreadable or not partition.end_known:
            ends.append(ReachedEnd(error_code(partition.refusal or Refusal.NO_LEADER)))
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
        if partition.end_known:
            self.expired()

    def end_known(self, partition: Partition) -> None:
        self.expired()

    def lost(self, partition: Partition) -> None:
        self.expired()

    def expired(self) -> None:
        self.session.end_wait(self)
        _answer_ends(self.session, self.request)
