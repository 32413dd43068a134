"""DescribeConfigs (32): the settings of topics and of brokers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tank_node.kafka.configs import broker_configs, topic_configs
from tank_node.kafka.configs.broker_configs import BrokerConfig
from tank_node.kafka.configs.config_resources import ResourceType
from tank_node.kafka.configs.topic_configs import ConfigSource, ShownConfig
from tank_node.kafka.errors import KafkaError, first_error, outcome_of
from tank_node.kafka.topic_names import is_valid
from tank_protos.generated.kafka import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tank_protos.topic_settings import TopicSettings

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_SOURCES_SINCE: Final = 1
"""The first version that tells where a value comes from, instead of whether it is the default."""
_ALL_BROKERS: Final = ""
"""The name of the resource that stands for what all brokers have in common."""


def describe_configs(call: "KafkaCall", body: memoryview) -> None:
    """Answers with the settings of each resource: those that it names, or all. A broker answers for itself
    alone."""
    request = DescribeConfigsRequest.decode(body, call.version)
    description = _Description(call, request)
    most = call.session.limits.described_resources
    results = [description.of(resource) for resource in request.resources[:most]]
    results += [description.left_out(resource, most) for resource in request.resources[most:]]
    call.answer(DescribeConfigsResponse(results=results), outcome_of(first_error(results)))


class _NotShown(Exception):
    """A resource without an answer."""

    def __init__(self, error: KafkaError, message: str) -> None:
        super().__init__(message)
        self.error = error


class _Description:
    """The answers to one request."""

    def __init__(self, call: "KafkaCall", request: DescribeConfigsRequest) -> None:
        self._session = call.session
        self._tells_defaults = call.version < _SOURCES_SINCE
        self._with_synonyms = request.include_synonyms
        self._with_texts = request.include_documentation
        self._of_settings: dict[tuple[TopicSettings, int], list[DescribeConfigsResourceResult]] = {}
        """By settings and replication factor: most topics of a cluster are like others."""
        self._of_brokers: dict[str, list[DescribeConfigsResourceResult]] = {}
        """By the resource's name."""

    def left_out(self, resource: DescribeConfigsResource, most: int) -> DescribeConfigsResult:
        """The answer for a resource that would make the answer too long."""
        return DescribeConfigsResult(
            KafkaError.POLICY_VIOLATION,
            f"a request asks for at most {most} resources: send several",
            resource.resource_type,
            resource.resource_name,
        )

    def of(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        result = DescribeConfigsResult(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            configs = self._configs(resource)
        except _NotShown as refused:
            result.error_code, result.error_message = refused.error, str(refused)
            return result
        names = resource.configuration_keys
        # Some clients send no names, instead of null, for all configs, and Kafka takes it for that.
        result.configs = [config for config in configs if not names or config.name in names]
        return result

    def _configs(self, resource: DescribeConfigsResource) -> Sequence[DescribeConfigsResourceResult]:
        """Raises _NotShown."""
        name = resource.resource_name
        if resource.resource_type == ResourceType.TOPIC:
            return self._of_topic(name)
        if resource.resource_type != ResourceType.BROKER:
            message = f"resources of type {resource.resource_type} have no settings here"
            raise _NotShown(KafkaError.INVALID_REQUEST, message)
        if name not in self._of_brokers:
            self._of_brokers[name] = [self._of_broker(each) for each in self._broker_configs(name)]
        return self._of_brokers[name]

    def _broker_configs(self, name: str) -> Sequence[BrokerConfig]:
        """Raises _NotShown."""
        if name == _ALL_BROKERS:
            return broker_configs.shared_configs(self._session)
        own = self._session.broker.link.view.broker_id
        if name != str(own):
            message = f"this is broker {own}: each broker shows its own settings, by its id"
            raise _NotShown(KafkaError.INVALID_REQUEST, message)
        return broker_configs.own_configs(self._session)

    def _of_topic(self, name: str) -> Sequence[DescribeConfigsResourceResult]:
        """Raises _NotShown."""
        broker = self._session.broker
        topic = broker.link.view.topic(name)
        if topic is None:
            if not is_valid(name):
                raise _NotShown(KafkaError.INVALID_TOPIC, "no topic can have this name")
            raise _NotShown(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
        key = topic.settings, topic.replication_factor
        found = self._of_settings.get(key)
        if found is None:
            shown = topic_configs.shown(*key, broker.default_flush)
            found = self._of_settings[key] = [self._of_config(each) for each in shown]
        return found

    def _of_config(self, shown: ShownConfig) -> DescribeConfigsResourceResult:
        config = shown.config
        result = DescribeConfigsResourceResult(
            name=config.name,
            value=shown.value,
            read_only=config.is_read_only,
            is_default=self._tells_defaults and shown.source is not ConfigSource.TOPIC,
            config_source=shown.source,
            config_type=config.type,
            documentation=config.about if self._with_texts else None,
        )
        if self._with_synonyms:
            if shown.source is ConfigSource.TOPIC:
                result.synonyms.append(DescribeConfigsSynonym(config.name, shown.value, ConfigSource.TOPIC))
            broker_name = config.broker_name or config.name
            default = DescribeConfigsSynonym(broker_name, shown.default, shown.default_source)
            result.synonyms.append(default)
        return result

    def _of_broker(self, config: BrokerConfig) -> DescribeConfigsResourceResult:
        result = DescribeConfigsResourceResult(
            name=config.name,
            value=config.value,
            read_only=True,
            is_default=self._tells_defaults and config.source is ConfigSource.DEFAULT,
            config_source=config.source,
            config_type=config.type,
            documentation=config.about if self._with_texts else None,
        )
        if self._with_synonyms:
            result.synonyms.append(DescribeConfigsSynonym(config.name, config.value, config.source))
        return result
