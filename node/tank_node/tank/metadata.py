"""Our own messages (ids from 64 on) that only the controllers can answer: passed to them, and answered when
their outcome comes.

A request under way keeps its decoded values, never views of the receive buffer, which is reused meanwhile.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tank_node.cluster.link import (
    NewTopic,
    ProducerOutcome,
    TopicAlteration,
    TopicOutcome,
)
from tank_node.tank.asking import asking
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    AlterTopicRequest,
    AlterTopicResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicRequest,
    DeleteTopicResponse,
    InitProducerRequest,
    InitProducerResponse,
    ReserveProducerIdsRequest,
    ReserveProducerIdsResponse,
)

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession


def init_producer(session: "TankSession", payload: memoryview) -> None:
    """Asks for a producer id."""
    request = InitProducerRequest.decode(payload)
    finish = asking(session, payload)

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
    finish = asking(session, payload)

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
    finish = asking(session, payload)

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
    finish = asking(session, payload)

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
    finish = asking(session, payload)

    def done(outcome: TopicOutcome) -> None:
        finish(DeleteTopicResponse(request.request_id, outcome.error, outcome.message))

    session.broker.link.requests.delete_topic(request.name, done)
