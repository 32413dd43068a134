"""The changes of topics that one request asks of the controllers: together, and answered when this broker's
view has them all.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from tank_node.cluster.link import TopicOutcome
from tank_protos.error_codes import ErrorCode

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

Shown: TypeAlias = Callable[[str, TopicOutcome], bool]
"""A callback that takes a topic's name and the outcome of its change, a success, and says whether this
broker's view has the change."""
Finish: TypeAlias = Callable[[dict[str, TopicOutcome]], None]
"""A callback that takes the outcome of each change, by the topic's name."""

_TOO_MANY_WAIT: Final = TopicOutcome(ErrorCode.OVERLOADED, "too many requests wait at this broker: try again")
_UNANSWERED: Final = TopicOutcome(
    ErrorCode.TIMED_OUT, "the controllers have not answered in time: the change may still happen"
)
_UNSEEN: Final = TopicOutcome(
    ErrorCode.TIMED_OUT, "the change is made, and is not complete in time: a partition may have no leader"
)


class TopicChanges:
    """The changes of one request, at most one of each topic."""

    __slots__ = ("_finish", "_outcomes", "_shown", "_wait")

    def __init__(
        self, call: "KafkaCall", names: Iterable[str], shown: Shown, finish: Finish, timeout_ms: int
    ) -> None:
        """`finish` is called once, with an outcome for each name: when all changes have failed or are in the
        view, or after `timeout_ms`. Not during this call, and not after the connection's end.
        """
        self._shown = shown
        self._finish = finish
        self._outcomes: dict[str, TopicOutcome] = {}
        session = call.session
        broker = session.broker
        wait_ms = min(timeout_ms, session.limits.max_wait_ms)
        wait = self._wait = broker.topic_waits.begin(names, self._is_settled, self._ended, wait_ms, session)
        call.on_close = partial(broker.topic_waits.end, wait)

    def of(self, name: str) -> Callable[[TopicOutcome], None]:
        """Returns the callback that takes the outcome of this topic's change."""
        return partial(self._answered, name)

    def _answered(self, name: str, outcome: TopicOutcome) -> None:
        self._outcomes[name] = outcome
        self._wait.look(name)

    def _is_settled(self, name: str) -> bool:
        outcome = self._outcomes.get(name)
        return outcome is not None and (outcome.error != ErrorCode.NONE or self._shown(name, outcome))

    def _ended(self, missing: set[str]) -> None:
        for name in missing:
            self._outcomes[name] = _UNSEEN if name in self._outcomes else _UNANSWERED
        self._finish(self._outcomes)


def change_topics(
    call: "KafkaCall",
    asks: dict[str, Callable[[Callable[[TopicOutcome], None]], None]],
    shown: Shown,
    finish: Finish,
    timeout_ms: int,
) -> None:
    """Asks the controllers for changes, and calls `finish` once with an outcome for each: as `TopicChanges`,
    or during this call when there is nothing to ask, or too much.

    asks: by the topic's name, what asks for its change: it takes the callback for the outcome.
    """
    session = call.session
    if len(asks) > session.limits.changed_topics:
        message = f"a request changes at most {session.limits.changed_topics} topics: send several"
        finish(dict.fromkeys(asks, TopicOutcome(ErrorCode.LIMIT_REACHED, message)))
        return
    if not asks or not session.may_wait((), len(asks)):
        finish(dict.fromkeys(asks, _TOO_MANY_WAIT))
        return
    changes = TopicChanges(call, asks, shown, finish, timeout_ms)
    for name, ask in asks.items():
        ask(changes.of(name))
