"""Our own messages (ids from 0x40 on) that only the controller can answer: asked there, answered when it has.

A request in flight keeps its numbers and names, never its bytes: those are gone when the controller answers.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from tank_node.cluster.link import (
    CommitOutcome,
    GroupsOutcome,
    NewTopic,
    Position,
    PositionsOutcome,
    ProducerOutcome,
    TopicAlteration,
    TopicOutcome,
)
from tank_node.tank.errors import outcome_of
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    AlterTopicRequest,
    AlterTopicResponse,
    CommitPositionsRequest,
    CommitPositionsResponse,
    CommitResult,
    CommittedPosition,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    FetchPositionsRequest,
    FetchPositionsResponse,
    InitProducerRequest,
    InitProducerResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ReserveProducerIdsRequest,
    ReserveProducerIdsResponse,
)
from tank_protos.wire.message import Message

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession


class Refusable(Message, Protocol):
    """An answer with one error for all of it."""

    error: int


def _asking(session: "TankSession", payload: memoryview) -> "Callable[[Refusable], None]":
    """Counts a request as under way; what is returned sends its answer."""
    size = len(payload)
    session.in_flight += 1
    session.asked_bytes += size

    def finish(answer: Refusable) -> None:
        session.in_flight -= 1
        session.asked_bytes -= size
        session.answer(answer, outcome_of(answer.error))

    return finish


def init_producer(session: "TankSession", payload: memoryview) -> None:
    """A producer id."""
    request = InitProducerRequest.decode(payload)
    finish = _asking(session, payload)

    def done(outcome: ProducerOutcome) -> None:
        finish(
            InitProducerResponse(
                request_id=request.request_id,
                error=outcome.error,
                message=outcome.message,
                producer_id=outcome.producer_id,
                producer_epoch=outcome.producer_epoch,
            ),
        )

    session.broker.link.init_producer(request.name, request.generation, done)


def reserve_producer_ids(session: "TankSession", payload: memoryview) -> None:
    """Producer ids that follow each other."""
    request = ReserveProducerIdsRequest.decode(payload)
    finish = _asking(session, payload)

    def done(outcome: ProducerOutcome) -> None:
        count = 0 if outcome.error else outcome.count
        finish(
            ReserveProducerIdsResponse(
                request.request_id, outcome.error, outcome.message, outcome.producer_id, count
            )
        )

    session.broker.link.reserve_producer_ids(request.count, done)


def _repeated(keys: Iterable[str]) -> str:
    """What is wrong with these keys of settings; empty when none is there twice."""
    for key, times in Counter(keys).items():
        if times > 1:
            return f"setting {key[:60]!a} is there {times} times: say it once"
    return ""


def create_topics(session: "TankSession", payload: memoryview) -> None:
    """Creates a topic; it can be used when the answer comes."""
    request = CreateTopicsRequest.decode(payload)
    finish = _asking(session, payload)

    def done(outcome: TopicOutcome) -> None:
        answer = CreateTopicsResponse(request.request_id, outcome.error, outcome.message, outcome.topic_id)
        finish(answer)

    if repeated := _repeated(setting.key for setting in request.settings):
        done(TopicOutcome(ErrorCode.INVALID_SETTING, repeated))
        return
    topic = NewTopic(
        name=request.name,
        partitions=request.partitions,
        replication_factor=request.replication_factor,
        settings={setting.key: setting.value for setting in request.settings},
        validate_only=bool(request.validate_only),
    )
    session.broker.link.create_topic(topic, done)


def alter_topic(session: "TankSession", payload: memoryview) -> None:
    """Changes settings, adds partitions."""
    request = AlterTopicRequest.decode(payload)
    finish = _asking(session, payload)

    def done(outcome: TopicOutcome) -> None:
        finish(AlterTopicResponse(request.request_id, outcome.error, outcome.message))

    if repeated := _repeated(setting.key for setting in request.settings):
        done(TopicOutcome(ErrorCode.INVALID_SETTING, repeated))
        return
    change = TopicAlteration(
        name=request.name,
        partitions=request.partitions,
        settings={setting.key: setting.value for setting in request.settings},
        validate_only=bool(request.validate_only),
    )
    session.broker.link.alter_topic(change, done)


def delete_topic(session: "TankSession", payload: memoryview) -> None:
    """Deletes a topic with its data."""
    request = DeleteTopicRequest.decode(payload)
    finish = _asking(session, payload)

    def done(outcome: TopicOutcome) -> None:
        finish(DeleteTopicResponse(request.request_id, outcome.error, outcome.message))

    session.broker.link.delete_topic(request.name, done)


def commit_positions(session: "TankSession", payload: memoryview) -> None:
    """Keeps how far a group has read."""
    request = CommitPositionsRequest.decode(payload)
    finish = _asking(session, payload)
    request_id = request.request_id

    def done(outcome: CommitOutcome) -> None:
        results = [CommitResult(error) for error in outcome.results]
        finish(CommitPositionsResponse(request_id, outcome.error, outcome.message, results))

    positions = [Position(p.topic, p.partition, p.sequence_number, p.metadata) for p in request.positions]
    session.broker.link.commit_positions(request.group, positions, done)


def fetch_positions(session: "TankSession", payload: memoryview) -> None:
    """How far a group has read."""
    request = FetchPositionsRequest.decode(payload)
    finish = _asking(session, payload)
    request_id = request.request_id

    def done(outcome: PositionsOutcome) -> None:
        positions = [
            CommittedPosition(p.topic, p.partition, p.sequence_number, p.metadata, p.committed_ms)
            for p in outcome.positions
        ]
        finish(FetchPositionsResponse(request_id, outcome.error, outcome.message, positions))

    session.broker.link.fetch_positions(request.group, request.topics, done)


def list_groups(session: "TankSession", payload: memoryview) -> None:
    """All groups that have positions."""
    request = ListGroupsRequest.decode(payload)
    finish = _asking(session, payload)

    def done(outcome: GroupsOutcome) -> None:
        finish(ListGroupsResponse(request.request_id, outcome.error, outcome.message, outcome.groups))

    session.broker.link.list_groups(done)
