"""Answers that wait while they would name the leader of a partition that has just died.

A client asks for metadata as soon as its connection to the leader breaks, some 200 ms before another broker
leads. Told of the dead leader, with no error, it believes that for as long as it likes: franz-go asks again
after 5 s, librdkafka after a second. An error instead of a leader has franz-go wait just as long.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tank_node.broker.broker import Broker
from tank_node.broker.topic_waits import TopicWait
from tank_node.kafka.settling import KafkaPause

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall


def when_noticed(call: "KafkaCall", go_on: Callable[[], None]) -> None:
    """Calls `go_on` when this broker must have noticed the death that may be the reason of the request: after
    `Limits.lost_leader_notice_ms`, or at once where no connection would tell of it. If the client's ends
    first, it is not called."""
    session = call.session
    ms = session.limits.lost_leader_notice_ms
    if ms and session.broker.lost_brokers.has_peers and session.may_wait((), 1):
        KafkaPause(call, go_on, ms).begin()
    else:
        go_on()


def when_led(call: "KafkaCall", names: Callable[[], Iterable[str]], answer: Callable[[], None]) -> None:
    """Calls `answer` when no partition of these topics is led by a broker that is lost: at once, or when the
    view has other leaders or the broker is back, but at most after `Limits.lost_leader_wait_ms`. If the
    connection ends first, it is not called. names: the topics of the answer."""
    LeaderWait(call, names, answer).go_on()


class LeaderWait:
    """One answer that waits. It waits for one topic at a time: the partitions of a lost broker get their new
    leaders all at once, or in few steps."""

    __slots__ = ("_answer", "_broker", "_call", "_ends_ms", "_names", "_wait")

    def __init__(
        self, call: "KafkaCall", names: Callable[[], Iterable[str]], answer: Callable[[], None]
    ) -> None:
        self._call = call
        self._names = names
        self._answer = answer
        self._broker: Broker = call.session.broker
        self._ends_ms = self._broker.tick.monotonic_ms + call.session.limits.lost_leader_wait_ms
        self._wait: TopicWait | None = None

    def go_on(self) -> None:
        """Answers, or waits for the next topic that a lost broker leads."""
        broker, session = self._broker, self._call.session
        found = self._next() if broker.lost_brokers else None
        left_ms = self._ends_ms - broker.tick.monotonic_ms
        if found is None or left_ms <= 0 or not session.may_wait((), 1):
            self._answer()
            return
        name, leader = found
        left_ms = min(left_ms, broker.lost_brokers.left_ms(leader))
        self._wait = broker.topic_waits.begin([name], self._is_led, self._ended, left_ms, session)
        self._call.on_close = self._gone
        broker.wake()  # a change of the view may have come outside of a tick

    def _next(self) -> tuple[str, int] | None:
        """The first topic with a partition that a lost broker leads, and that broker."""
        for name in self._names():
            leader = self._lost_leader(name)
            if leader is not None:
                return name, leader
        return None

    def _lost_leader(self, name: str) -> int | None:
        topic = self._broker.link.view.topic(name)
        if topic is None:
            return None
        lost = self._broker.lost_brokers
        return next((placed.leader for placed in topic.partitions if placed.leader in lost), None)

    def _is_led(self, name: str) -> bool:
        return self._lost_leader(name) is None

    def _ended(self, missing: set[str]) -> None:
        self._wait = None
        self._call.on_close = None
        self.go_on()

    def _gone(self) -> None:
        """Ends the wait without an answer: the connection has ended."""
        if self._wait is not None:
            self._broker.topic_waits.end(self._wait)
