"""DeleteTopics (20): deletes topics with their data, by name or by id."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.broker.topic_ids import NO_TOPIC, topic_by_uuid, topic_uuid
from tank_node.cluster.link import TopicOutcome
from tank_node.cluster.view import TopicView
from tank_node.kafka.errors import KafkaError, first_error, of_controllers, outcome_of
from tank_node.kafka.topic_changes import change_topics
from tank_node.kafka.topic_names import is_internal
from tank_protos.generated.kafka import (
    DeletableTopicResult,
    DeletableTopicResultCollection,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_STRUCTS_SINCE: Final = 6
"""The first version that may name topics by id."""


def delete_topics(call: "KafkaCall", body: memoryview) -> None:
    """Deletes each topic of the request. The answer comes when all are gone from this broker's view, or after
    the request's timeout."""
    request = DeleteTopicsRequest.decode(body, call.version)
    if call.version >= _STRUCTS_SINCE:
        named = request.topics
    else:
        named = [DeleteTopicState(name=name) for name in request.topic_names]
    deletion = _TopicDeletion(call)
    times = Counter((each.name, each.topic_id) for each in named)
    for each in named:
        if times[each.name, each.topic_id] == 1:
            deletion.add(each)
        elif times.pop((each.name, each.topic_id), 0):
            deletion.refuse(each, KafkaError.INVALID_REQUEST, "the topic is in the request several times")
    deletion.begin(request.timeout_ms)


class _TopicDeletion:
    """The topics of one request."""

    def __init__(self, call: "KafkaCall") -> None:
        self._call = call
        self._view = call.session.broker.link.view
        self._topics: dict[str, TopicView] = {}
        self._results: list[DeletableTopicResult] = []
        self._asked: dict[str, DeletableTopicResult] = {}

    def refuse(self, named: DeleteTopicState, error: KafkaError, message: str) -> None:
        self._results.append(
            DeletableTopicResult(named.name, named.topic_id, error_code=error, error_message=message)
        )

    def add(self, named: DeleteTopicState) -> None:
        name, uuid = named.name, named.topic_id
        if (name is None) == (uuid == NO_TOPIC):
            self.refuse(named, KafkaError.INVALID_REQUEST, "a topic is named by its name or by its id")
            return
        topic = topic_by_uuid(self._view, uuid) if name is None else self._view.topic(name)
        if topic is None:
            by_name = KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            error = KafkaError.UNKNOWN_TOPIC_ID if name is None else by_name
            self.refuse(named, error, "there is no such topic")
        elif is_internal(topic.name):
            self.refuse(named, KafkaError.INVALID_TOPIC, "brokers keep their own records in this topic")
        elif topic.name in self._topics:
            self.refuse(named, KafkaError.INVALID_REQUEST, "the topic is in the request by name and by id")
        else:
            self._topics[topic.name] = topic
            uuid = topic_uuid(self._view.cluster_id, topic.topic_id)
            result = self._asked[topic.name] = DeletableTopicResult(topic.name, uuid)
            self._results.append(result)

    def begin(self, timeout_ms: int) -> None:
        delete = self._call.session.broker.link.requests.delete_topic
        asks: dict[str, Callable[[Callable[[TopicOutcome], None]], None]] = {
            name: partial(delete, name) for name in self._topics
        }
        change_topics(self._call, asks, self._is_gone, self._finish, timeout_ms)

    def _is_gone(self, name: str, _: TopicOutcome) -> bool:
        return self._view.topic_by_id(self._topics[name].topic_id) is None

    def _finish(self, outcomes: dict[str, TopicOutcome]) -> None:
        for name, outcome in outcomes.items():
            result = self._asked[name]
            result.error_code = of_controllers(outcome.error)
            result.error_message = outcome.message or None
        response = DeleteTopicsResponse(responses=DeletableTopicResultCollection(self._results))
        self._call.answer(response, outcome_of(first_error(self._results)))
