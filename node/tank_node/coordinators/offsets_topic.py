"""The internal topic in which groups are kept: its settings, its creation at first use, and the leaders of
its partitions."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.broker.topic_waits import TopicWait
from tank_node.cluster.link import NewTopic, TopicOutcome
from tank_node.cluster.view import NO_LEADER
from tank_node.coordinators.bugs import report_bug
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_hash import partition_of
from tank_protos.error_codes import ErrorCode
from tank_protos.topic_settings import LOG_FORMAT, LogFormat
from tank_protos.wire.names import GROUPS_TOPIC

SETTINGS: Final = {
    LOG_FORMAT: LogFormat.KAFKA.value,
    "log.cleanup.policy": "cleanup",
    "log.segment.bytes": str(16 * 1024 * 1024),
}
"""Small segments, because the newest one is never compacted, and a coordinator reads all of it."""
NO_BROKER: Final = -1
_MOST_NUMBERS: Final = 10_000
"""The most groups whose partitions are remembered: the hash of a name takes a microsecond and more."""
_LONGEST_REMEMBERED: Final = 200
"""The most characters of a name that is remembered: clients choose names freely."""

Found = Callable[[GroupError, int], None]
"""A callback that takes an error, or NONE and the broker that coordinates the group."""


class OffsetsTopic:
    """`__consumer_offsets`, as one broker sees it."""

    def __init__(self, broker: Broker, partitions: int) -> None:
        """partitions: how many the topic gets if this broker has it created."""
        self._broker = broker
        self._partitions = partitions
        self._waiting: list[tuple[str, Found]] = []
        """Who waits for the topic and its leaders: the group's name, and what to call."""
        self._wait: TopicWait | None = None
        self._counted = 0
        self._numbers: dict[str, int] = {}
        """The numbers of groups that were asked for, when the topic had so many partitions."""
        self._refused = False
        """Whether the controllers have refused to create the topic; asked anew by the next wait."""

    def partition_of(self, group_id: str) -> int | None:
        """The number of the group's partition; None while there is no such topic."""
        topic = self._broker.link.view.topic(GROUPS_TOPIC)
        if topic is None:
            return None
        count = len(topic.partitions)
        if count != self._counted or len(self._numbers) >= _MOST_NUMBERS:
            self._counted, self._numbers = count, {}
        number = self._numbers.get(group_id)
        if number is None:
            number = partition_of(group_id, count)
            if len(group_id) <= _LONGEST_REMEMBERED:
                self._numbers[group_id] = number
        return number

    def coordinator_of(self, group_id: str, done: Found) -> None:
        """Calls `done` with the broker that coordinates the group: at once, or when the topic is created and
        has leaders, but at most after `Limits.group_topic_wait_ms`."""
        leader = self._leader_of(group_id)
        if leader != NO_BROKER:
            done(GroupError.NONE, leader)
        elif len(self._waiting) >= self._broker.limits.waits_per_partition:
            done(GroupError.NOT_AVAILABLE, NO_BROKER)
        else:
            self._waiting.append((group_id, done))
            if self._wait is None:
                self._begin()

    def _leader_of(self, group_id: str) -> int:
        topic = self._broker.link.view.topic(GROUPS_TOPIC)
        if topic is None:
            return NO_BROKER
        leader = topic.partitions[partition_of(group_id, len(topic.partitions))].leader
        return NO_BROKER if leader == NO_LEADER else leader

    def _begin(self) -> None:
        broker = self._broker
        # The wait begins first: the controllers may answer at once.
        self._refused = False
        self._wait = broker.topic_waits.begin(
            (GROUPS_TOPIC,), self._is_so, self._over, broker.limits.group_topic_wait_ms, asked_by=None
        )
        broker.wake()
        if broker.link.view.topic(GROUPS_TOPIC) is None:
            topic = NewTopic(GROUPS_TOPIC, self._partitions, settings=dict(SETTINGS), is_internal=True)
            broker.link.requests.create_topic(topic, partial(self._created, self._wait))

    def _created(self, wait: TopicWait, outcome: TopicOutcome) -> None:
        """The controllers have answered. If another broker was first, the topic will be in the view soon."""
        if outcome.error not in (ErrorCode.NONE, ErrorCode.TOPIC_EXISTS):
            now_ms, line = self._broker.tick.monotonic_ms, f"{GROUPS_TOPIC} is not created: {outcome.message}"
            self._broker.refusals.say("groups_topic", line, now_ms)
            if wait is self._wait:
                self._refused = True
        if not wait.done:
            wait.look(GROUPS_TOPIC)

    def _is_so(self, name: str) -> bool:
        """Answers those whose partitions have leaders; returns whether no request waits any more."""
        waiting, self._waiting = self._waiting, []
        for group_id, done in waiting:
            leader = self._leader_of(group_id)
            if leader != NO_BROKER:
                self._answer(done, GroupError.NONE, leader)
            else:
                self._waiting.append((group_id, done))
        return self._refused or not self._waiting

    def _over(self, missing: set[str]) -> None:
        """The wait has ended: all requests are answered, or it took too long."""
        self._wait = None
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            self._answer(done, GroupError.NOT_AVAILABLE, NO_BROKER)

    def _answer(self, done: Found, error: GroupError, leader: int) -> None:
        """Answers one of those who wait; if that fails, the others are answered all the same."""
        try:
            done(error, leader)
        except Exception:
            report_bug(self._broker.metrics, "a question for a group's coordinator is not answered")
