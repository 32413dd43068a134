"""The creation of topics by a client's question for them."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.broker.topic_waits import TopicWait
from tank_node.cluster.link import NewTopic, TopicOutcome
from tank_node.cluster.view import NO_LEADER
from tank_node.kafka import topic_names
from tank_node.kafka.errors import KafkaError, of_controllers
from tank_node.security.gate import Operation, Resource
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.topic_settings import LOG_FORMAT, LogFormat

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_SETTINGS: Final = {LOG_FORMAT: LogFormat.KAFKA.value}
_LASTING: Final = frozenset(
    {
        KafkaError.INVALID_TOPIC,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_CONFIG,
        KafkaError.POLICY_VIOLATION,
    }
)
"""Errors that a client should hear of. After any other the topic may be there soon, and the client is to ask
again: LEADER_NOT_AVAILABLE says so, in all versions."""


def create(
    call: "KafkaCall", names: Sequence[str], answer: Callable[[Mapping[str, KafkaError]], None]
) -> None:
    """Creates the topics with these names, which no topic of the view has, as far as the broker's settings
    and Kafka's rules allow. Calls `answer`, at once or when the view has them with leaders, but at most after
    `Limits.auto_create_wait_ms`; it gets the reasons for which topics may be missing, by name. If the
    connection ends first, it is not called."""
    session = call.session
    if not session.settings.auto_create:
        answer({})
        return
    created = [name for name in names if topic_names.is_valid(name) and not topic_names.is_internal(name)]
    if not created:
        answer({})
    elif not session.may(Operation.CREATE, Resource.TOPIC):
        answer(dict.fromkeys(created, KafkaError.TOPIC_AUTHORIZATION_FAILED))
    elif not session.may_wait((), min(len(created), session.limits.auto_created_topics)):
        answer(dict.fromkeys(created, KafkaError.LEADER_NOT_AVAILABLE))
    else:
        AutoCreation(call, created, answer).begin()


class AutoCreation:
    """The topics that one request creates."""

    __slots__ = ("_answer", "_call", "_errors", "_names", "_wait")

    def __init__(
        self, call: "KafkaCall", names: Sequence[str], answer: Callable[[Mapping[str, KafkaError]], None]
    ) -> None:
        most = call.session.limits.auto_created_topics
        self._call = call
        self._names = names[:most]
        self._answer = answer
        self._errors = dict.fromkeys(names[most:], KafkaError.LEADER_NOT_AVAILABLE)
        self._wait: TopicWait | None = None

    def begin(self) -> None:
        """Asks the controllers for the topics, and waits for them."""
        session = self._call.session
        broker = session.broker
        limit_ms = session.limits.auto_create_wait_ms
        # The wait begins first: the controllers may answer at once.
        self._wait = broker.topic_waits.begin(self._names, self._is_so, self._ended, limit_ms, session)
        self._call.on_close = self._gone
        for name in self._names:
            topic = NewTopic(name, session.settings.default_partitions, settings=dict(_SETTINGS))
            broker.link.requests.create_topic(topic, partial(self._created, name))

    def _created(self, name: str, outcome: TopicOutcome) -> None:
        """The controllers have answered. A topic that exists is there or will be soon: another client has
        created it at the same time."""
        wait = self._wait
        if wait is None or wait.done:
            return
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_EXISTS):
            # During an upgrade it may be the settings of such topics that the controllers don't take yet.
            is_upgraded = self._call.session.broker.link.view.feature_level >= feature_levels.KAFKA
            error = of_controllers(outcome.error)
            lasts = is_upgraded and error in _LASTING
            self._errors[name] = error if lasts else KafkaError.LEADER_NOT_AVAILABLE
        wait.look(name)

    def _is_so(self, name: str) -> bool:
        if name in self._errors:
            return True
        topic = self._call.session.broker.link.view.topic(name)
        return topic is not None and all(each.leader != NO_LEADER for each in topic.partitions)

    def _ended(self, missing: set[str]) -> None:
        for name in missing:
            self._errors[name] = KafkaError.LEADER_NOT_AVAILABLE
        self._answer(self._errors)

    def _gone(self) -> None:
        if self._wait is not None:
            self._call.session.broker.topic_waits.end(self._wait)
