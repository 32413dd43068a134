"""Our own messages (ids from 64 on) that only the controllers can answer: passed to them, and answered when
their outcome comes.

A request under way keeps its decoded values, never views of the receive buffer, which is reused meanwhile.
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
    """An answer with one error code for the whole request."""

    error: int


def _asking(session: "TankSession", payload: memoryview) -> "Callable[[Refusable], None]":
    """Counts a request as under way. Returns the function that sends its answer."""
    size = len(payload)
    session.in_flight += 1
    session.asked_bytes += size

    def finish(answer: Refusable) -> None:
        session.in_flight -= 1
        session.asked_bytes -= size
        session.answer(answer, outcome_of(answer.error))

    return finish


def init_producer(session: "TankSession", payload: memoryview) -> None:
    """Asks for a producer id."""
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

    session.broker.link.requests.init_producer(request.name, request.generation, done)


def reserve_producer_ids(session: "TankSession", payload: memoryview) -> None:
    """Asks for producer ids in a row."""
    request = ReserveProducerIdsRequest.decode(payload)
    finish = _asking(session, payload)

    def done(outcome: ProducerOutcome) -> None:
        count = 0 if outcome.error else outcome.count
        finish(
            ReserveProducerIdsResponse(
                request.request_id, outcome.error, outcome.message, outcome.producer_id, count
            )
        )

    session.broker.link.requests.reserve_producer_ids(request.count, done)


def _repeated(keys: Iterable[str]) -> str:
    """An error message that names a key which occurs more than once; empty: there is none."""
    for key, times in Counter(keys).items():
        if times > 1:
            return f"setting {key[:60]!a} is in the request {times} times: set it once"
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
    session.broker.link.requests.create_topic(topic, done)


def alter_topic(session: "TankSession", payload: memoryview) -> None:
    """Changes a topic's settings, or adds partitions."""
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
    session.broker.link.requests.alter_topic(change, done)


def delete_topic(session: "TankSession", payload: memoryview) -> None:
    """Deletes a topic with its data."""
    request = DeleteTopicRequest.decode(payload)
    finish = _asking(session, payload)

    def done(outcome: TopicOutcome) -> None:
        finish(DeleteTopicResponse(request.request_id, outcome.error, outcome.message))

    session.broker.link.requests.delete_topic(request.name, done)


def commit_positions(session: "TankSession", payload: memoryview) -> None:
    """Commits a group's positions."""
    request = CommitPositionsRequest.decode(payload)
    finish = _asking(session, payload)
    request_id = request.request_id

    def done(outcome: CommitOutcome) -> None:
        results = [CommitResult(error) for error in outcome.results]
        finish(CommitPositionsResponse(request_id, outcome.error, outcome.message, results))

    positions = [Position(p.topic, p.partition, p.sequence_number, p.metadata) for p in request.positions]
    session.broker.link.requests.commit_positions(request.group, positions, done)


def fetch_positions(session: "TankSession", payload: memoryview) -> None:
    """Asks for a group's positions."""
    request = FetchPositionsRequest.decode(payload)
    finish = _asking(session, payload)
    request_id = request.request_id

    def done(outcome: PositionsOutcome) -> None:
        positions = [
            CommittedPosition(p.topic, p.partition, p.sequence_number, p.metadata, p.committed_ms)
            for p in outcome.positions
        ]
        finish(FetchPositionsResponse(request_id, outcome.error, outcome.message, positions))

    session.broker.link.requests.fetch_positions(request.group, request.topics, done)


def list_groups(session: "TankSession", payload: memoryview) -> None:
    """Asks for the names of all groups that have positions."""
    request = ListGroupsRequest.decode(payload)
    finish = _asking(session, payload)

    def done(outcome: GroupsOutcome) -> None:
        finish(ListGroupsResponse(request.request_id, outcome.error, outcome.message, outcome.groups))

    session.broker.link.requests.list_groups(done)
