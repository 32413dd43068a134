"""CreateTopics (19): creates topics, and answers when clients can use them."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.broker.topic_ids import topic_uuid
from tank_node.cluster.link import NewTopic, TopicOutcome
from tank_node.cluster.view import NO_LEADER
from tank_node.kafka.configs import topic_configs
from tank_node.kafka.configs.replication_factors import default_replication_factor
from tank_node.kafka.configs.topic_configs import InvalidConfig
from tank_node.kafka.errors import KafkaError, first_error, of_controllers, outcome_of
from tank_node.kafka.topic_changes import change_topics
from tank_node.kafka.topic_names import is_internal
from tank_node.kafka.topics import assignments
from tank_node.kafka.topics.assignments import InvalidAssignment
from tank_protos import topic_settings
from tank_protos.generated.kafka import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatableTopicResultCollection,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tank_protos.topic_settings import LOG_FORMAT, LogFormat

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_DEFAULT: Final = -1
"""A number of partitions, or of replicas, that the broker chooses."""


class _NotAsked(Exception):
    """A topic that is not asked for."""

    def __init__(self, error: KafkaError, message: str) -> None:
        super().__init__(message)
        self.error = error


def create_topics(call: "KafkaCall", body: memoryview) -> None:
    """Creates each topic of the request. They are stored as Kafka's record batches, unless the request sets
    `log.format`. The answer comes when this broker's view has them all, with leaders, or after the request's
    timeout."""
    request = CreateTopicsRequest.decode(body, call.version)
    creation = _TopicCreation(call, validate_only=request.validate_only)
    times = Counter(topic.name for topic in request.topics)
    for topic in request.topics:
        if times[topic.name] > 1:
            message = "the topic is in the request several times: name it once"
            creation.refuse(topic.name, KafkaError.INVALID_REQUEST, message)
        else:
            creation.add(topic)
    creation.begin(request.timeout_ms)


class _TopicCreation:
    """The topics of one request."""

    def __init__(self, call: "KafkaCall", *, validate_only: bool) -> None:
        self._call = call
        self._validate_only = validate_only
        self._view = call.session.broker.link.view
        self._topics: dict[str, NewTopic] = {}
        self._results: dict[str, CreatableTopicResult] = {}
        """By name, in the request's order."""

    def refuse(self, name: str, error: KafkaError, message: str) -> None:
        self._results[name] = CreatableTopicResult(name=name, error_code=error, error_message=message)

    def add(self, topic: CreatableTopic) -> None:
        try:
            self._topics[topic.name] = self._new_topic(topic)
            self._results[topic.name] = CreatableTopicResult(name=topic.name)
        except _NotAsked as refused:
            self.refuse(topic.name, refused.error, str(refused))

    def begin(self, timeout_ms: int) -> None:
        create = self._call.session.broker.link.requests.create_topic
        asks: dict[str, Callable[[Callable[[TopicOutcome], None]], None]] = {
            name: partial(create, topic) for name, topic in self._topics.items()
        }
        change_topics(self._call, asks, self._is_shown, self._finish, timeout_ms)

    def _new_topic(self, topic: CreatableTopic) -> NewTopic:
        """Raises _NotAsked."""
        if is_internal(topic.name):
            raise _NotAsked(KafkaError.INVALID_TOPIC, "brokers keep this name for a topic of their own")
        new = NewTopic(topic.name, 0, settings=_settings(topic), validate_only=self._validate_only)
        if topic.assignments:
            if (topic.num_partitions, topic.replication_factor) != (_DEFAULT, _DEFAULT):
                message = "the assignments say how many partitions and replicas there are: leave both at -1"
                raise _NotAsked(KafkaError.INVALID_REQUEST, message)
            try:
                new.assignments = assignments.by_partition(topic.assignments)
                new.replication_factor = len(new.assignments[0])
                assignments.check(new.assignments, new.replication_factor)
            except InvalidAssignment as error:
                raise _NotAsked(KafkaError.INVALID_REPLICA_ASSIGNMENT, str(error)) from None
            new.partitions = len(new.assignments)
            return new
        new.partitions = topic.num_partitions
        if new.partitions == _DEFAULT:
            new.partitions = self._call.session.settings.default_partitions
        if new.partitions < 1:
            message = "a topic has one partition at least; -1 stands for the default"
            raise _NotAsked(KafkaError.INVALID_PARTITIONS, message)
        if topic.replication_factor != _DEFAULT:
            new.replication_factor = topic.replication_factor
            if new.replication_factor < 1:
                message = "a topic has one replica at least; -1 stands for the default"
                raise _NotAsked(KafkaError.INVALID_REPLICATION_FACTOR, message)
        return new

    def _is_shown(self, name: str, outcome: TopicOutcome) -> bool:
        if self._validate_only:
            return True
        topic = self._view.topic_by_id(outcome.topic_id)
        if topic is None:
            return self._view.was_deleted(outcome.topic_id)
        return all(placed.leader != NO_LEADER for placed in topic.partitions)

    def _finish(self, outcomes: dict[str, TopicOutcome]) -> None:
        for name, outcome in outcomes.items():
            result = self._results[name]
            result.error_code = of_controllers(outcome.error)
            result.error_message = outcome.message or None
            if not result.error_code:
                self._describe(result, self._topics[name], outcome.topic_id)
        results = list(self._results.values())
        response = CreateTopicsResponse(topics=CreatableTopicResultCollection(results))
        self._call.answer(response, outcome_of(first_error(results)))

    def _describe(self, result: CreatableTopicResult, topic: NewTopic, topic_id: int) -> None:
        """Fills in what the topic has, or would have."""
        broker = self._call.session.broker
        factor = topic.replication_factor or default_replication_factor(self._view)
        if (view := self._view.topic_by_id(topic_id)) is not None:
            factor = view.replication_factor
        if topic_id:
            result.topic_id = topic_uuid(self._view.cluster_id, topic_id)
        result.num_partitions, result.replication_factor = topic.partitions, factor
        settings = topic_settings.from_pairs(topic.settings)
        result.configs = [
            CreatableTopicConfigs(
                name=each.config.name,
                value=each.value,
                read_only=each.config.is_read_only,
                config_source=each.source,
            )
            for each in topic_configs.shown(settings, factor, broker.default_flush)
        ]


def _settings(topic: CreatableTopic) -> dict[str, str]:
    """The settings of a new topic. Raises _NotAsked."""
    settings: dict[str, str] = {LOG_FORMAT: LogFormat.KAFKA}
    names = Counter(config.name for config in topic.configs)
    for config in topic.configs:
        if names[config.name] > 1:
            message = f"config {config.name[:60]!a} is set several times: set it once"
            raise _NotAsked(KafkaError.INVALID_REQUEST, message)
        try:
            if config.value is None:  # the default
                topic_configs.config_named(config.name)
            elif setting := topic_configs.setting_of(config.name, config.value):
                settings.update([setting])
        except InvalidConfig as error:
            raise _NotAsked(KafkaError.INVALID_CONFIG, str(error)) from None
    return settings
