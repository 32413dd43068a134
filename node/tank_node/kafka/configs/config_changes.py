"""The changes of topics' settings that one request asks for: what AlterConfigs and IncrementalAlterConfigs
have in common.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar

from tank_node.cluster.link import TopicAlteration, TopicOutcome
from tank_node.cluster.view import TopicView
from tank_node.kafka.configs.config_resources import ResourceType
from tank_node.kafka.configs.topic_configs import InvalidConfig
from tank_node.kafka.errors import KafkaError, of_controllers
from tank_node.kafka.topic_changes import change_topics
from tank_protos.topic_settings import LOG_FORMAT

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

ALTER_WAIT_MS: Final = 20_000
"""How long the controllers have for a change. The requests have no timeout of their own, and Kafka's clients
wait for 30 s."""

Settings: TypeAlias = dict[str, str | None]
"""By our own keys; None sets back to the default."""


class ConfigResult(Protocol):
    """The result for a resource, in either answer."""

    error_code: int
    error_message: str | None


class ConfigResource(Protocol):
    """A resource whose settings are changed, in either request."""

    resource_type: int
    resource_name: str


class InvalidChange(ValueError):
    """A change that contradicts itself. The message is a sentence for the client."""


def check_names(names: Iterable[str]) -> None:
    """Raises InvalidChange when a config is named several times."""
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidChange(f"config {name[:60]!a} is named several times: name it once")


A = TypeVar("A", bound=ConfigResource)


def change_configs(
    call: "KafkaCall",
    resources: Iterable[A],
    read: "Callable[[TopicView, A], Settings]",
    finish: Callable[[list[tuple[A, KafkaError, str | None]]], None],
    *,
    validate_only: bool,
) -> None:
    """Asks for the changes of all resources, and calls `finish` once with the error and its message for each,
    in order, when this broker's view has the changes.

    read: takes a topic and its resource, and returns what to set; raises InvalidConfig, InvalidChange.
    """
    change = _Change(call, finish, validate_only=validate_only)
    change.begin(list(resources), read)


class _Change(Generic[A]):
    """The resources of one request."""

    def __init__(
        self,
        call: "KafkaCall",
        finish: Callable[[list[tuple[A, KafkaError, str | None]]], None],
        *,
        validate_only: bool,
    ) -> None:
        self._call = call
        self._view = call.session.broker.link.view
        self._finish = finish
        self._validate_only = validate_only
        self._resources: list[A] = []
        self._refused: dict[int, tuple[KafkaError, str]] = {}
        """By the place of the resource."""
        self._changes: dict[str, TopicAlteration] = {}

    def begin(self, resources: list[A], read: Callable[[TopicView, A], Settings]) -> None:
        self._resources = resources
        times = Counter((each.resource_type, each.resource_name) for each in resources)
        for place, each in enumerate(resources):
            if times[each.resource_type, each.resource_name] > 1:
                message = "the resource is in the request several times: name it once"
                self._refused[place] = KafkaError.INVALID_REQUEST, message
            else:
                self._add(place, each, read)
        alter = self._call.session.broker.link.requests.alter_topic
        asks: dict[str, Callable[[Callable[[TopicOutcome], None]], None]] = {
            name: partial(alter, change) for name, change in self._changes.items()
        }
        change_topics(self._call, asks, self._is_shown, self._end, ALTER_WAIT_MS)

    def _add(self, place: int, resource: A, read: Callable[[TopicView, A], Settings]) -> None:
        name = resource.resource_name
        if resource.resource_type == ResourceType.BROKER:
            message = "a broker's settings are in its configuration: change that, and start the broker again"
            self._refused[place] = KafkaError.INVALID_CONFIG, message
            return
        if resource.resource_type != ResourceType.TOPIC:
            message = f"resources of type {resource.resource_type} have no settings here"
            self._refused[place] = KafkaError.INVALID_REQUEST, message
            return
        topic = self._view.topic(name)
        if topic is None:
            self._refused[place] = KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic"
            return
        try:
            settings = read(topic, resource)
            _keep_format(topic, settings)
        except InvalidConfig as error:
            self._refused[place] = KafkaError.INVALID_CONFIG, str(error)
        except InvalidChange as error:
            self._refused[place] = KafkaError.INVALID_REQUEST, str(error)
        else:
            self._changes[name] = TopicAlteration(name, settings=settings, validate_only=self._validate_only)

    def _is_shown(self, name: str, _: TopicOutcome) -> bool:
        topic = self._view.topic(name)
        if self._validate_only or topic is None:
            return True
        has = topic.settings_text
        return all(has.get(key) == value for key, value in self._changes[name].settings.items())

    def _end(self, outcomes: dict[str, TopicOutcome]) -> None:
        results: list[tuple[A, KafkaError, str | None]] = []
        for place, resource in enumerate(self._resources):
            if place in self._refused:
                results.append((resource, *self._refused[place]))
            else:
                outcome = outcomes[resource.resource_name]
                results.append((resource, of_controllers(outcome.error), outcome.message or None))
        self._finish(results)


def _keep_format(topic: TopicView, settings: Settings) -> None:
    """Leaves the stored format as it is. Raises InvalidConfig when the change asks for another."""
    if LOG_FORMAT not in settings:
        return
    value = settings.pop(LOG_FORMAT)
    if value is not None and value.lower() != topic.settings.log_format:
        present = topic.settings.log_format
        raise InvalidConfig(f"{LOG_FORMAT}={value}: the topic was created with {present}, and keeps it")
