"""CreatePartitions (37): adds partitions to topics."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tank_node.cluster.link import TopicAlteration, TopicOutcome
from tank_node.cluster.view import NO_LEADER, TopicView
from tank_node.kafka.errors import KafkaError, first_error, of_controllers, outcome_of
from tank_node.kafka.topic_changes import change_topics
from tank_node.kafka.topic_names import is_internal
from tank_node.kafka.topics import assignments
from tank_node.kafka.topics.assignments import InvalidAssignment
from tank_protos.generated.kafka import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def create_partitions(call: "KafkaCall", body: memoryview) -> None:
    """Adds partitions to each topic of the request. The answer comes when this broker's view has them all,
    with leaders, or after the request's timeout."""
    request = CreatePartitionsRequest.decode(body, call.version)
    growth = _Growth(call, validate_only=request.validate_only)
    times = Counter(topic.name for topic in request.topics)
    for topic in request.topics:
        if times[topic.name] == 1:
            growth.add(topic)
        else:
            growth.refuse(topic.name, KafkaError.INVALID_REQUEST, "the topic is in the request several times")
    growth.begin(request.timeout_ms)


class _Growth:
    """The topics of one request."""

    def __init__(self, call: "KafkaCall", *, validate_only: bool) -> None:
        self._call = call
        self._validate_only = validate_only
        self._view = call.session.broker.link.view
        self._changes: dict[str, TopicAlteration] = {}
        self._results: dict[str, CreatePartitionsTopicResult] = {}
        """By name, in the request's order."""

    def refuse(self, name: str, error: KafkaError, message: str) -> None:
        self._results[name] = CreatePartitionsTopicResult(name, error, message)

    def add(self, asked: CreatePartitionsTopic) -> None:
        topic = self._view.topic(asked.name)
        if topic is None:
            self.refuse(asked.name, KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
            return
        if is_internal(asked.name):
            self.refuse(asked.name, KafkaError.INVALID_TOPIC, "brokers keep their own records in this topic")
            return
        present = len(topic.partitions)
        if asked.count <= present:
            message = f"the topic has {present} partitions already, and can only get more"
            self.refuse(asked.name, KafkaError.INVALID_PARTITIONS, message)
            return
        change = TopicAlteration(asked.name, asked.count, validate_only=self._validate_only)
        if asked.assignments is not None:
            change.assignments = [each.broker_ids for each in asked.assignments]
            try:
                _check(change.assignments, topic, asked.count - present)
            except InvalidAssignment as error:
                self.refuse(asked.name, KafkaError.INVALID_REPLICA_ASSIGNMENT, str(error))
                return
        self._changes[asked.name] = change
        self._results[asked.name] = CreatePartitionsTopicResult(asked.name)

    def begin(self, timeout_ms: int) -> None:
        alter = self._call.session.broker.link.requests.alter_topic
        asks: dict[str, Callable[[Callable[[TopicOutcome], None]], None]] = {
            name: partial(alter, change) for name, change in self._changes.items()
        }
        change_topics(self._call, asks, self._is_shown, self._finish, timeout_ms)

    def _is_shown(self, name: str, outcome: TopicOutcome) -> bool:
        topic = self._view.topic_by_id(outcome.topic_id)
        if self._validate_only or topic is None:
            return True
        wanted = self._changes[name].partitions
        return len(topic.partitions) >= wanted and all(each.leader != NO_LEADER for each in topic.partitions)

    def _finish(self, outcomes: dict[str, TopicOutcome]) -> None:
        for name, outcome in outcomes.items():
            result = self._results[name]
            result.error_code = of_controllers(outcome.error)
            result.error_message = outcome.message or None
        results = list(self._results.values())
        self._call.answer(CreatePartitionsResponse(results=results), outcome_of(first_error(results)))


def _check(placed: list[list[int]], topic: TopicView, added: int) -> None:
    """Raises InvalidAssignment."""
    if len(placed) != added:
        raise InvalidAssignment(f"{added} partitions are added, and {len(placed)} are assigned")
    assignments.check(placed, topic.replication_factor)
