"""Whether a broker has caught up after its start, for /readyz: a rolling restart waits for that. Pure.

Only the first time counts. A broker that falls behind later can still serve, and sending its clients to the
other brokers would only make those fall behind too.
"""

from collections.abc import Iterable, Iterator

from tank_node.broker.broker import Topic
from tank_node.cluster.view import PartitionView

ELECTION_MS = 10_000
"""How long a partition without a leader counts as not caught up: longer than an election takes. If all its
replicas are away, waiting longer doesn't help."""


class CatchingUp:
    """Tracks whether one process has caught up."""

    def __init__(self, wait_ms: int, now_ms: int) -> None:
        """wait_ms: after this time the broker counts as caught up in any case: the rest may need an
        operator."""
        self._wait_ms = wait_ms
        self._until_ms = now_ms + wait_ms
        self._led_until_ms = now_ms + min(ELECTION_MS, wait_ms)
        """Until when partitions without a leader count as not caught up."""
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether the broker has caught up once."""
        return self._is_over

    def problem(self, broker_id: int, topics: Iterable[Topic], now_ms: int) -> str | None:
        """A sentence on what the broker still lacks; None when it has caught up once."""
        if self._is_over:
            return None
        leaderless = now_ms < self._led_until_ms
        behind = sum(
            1
            for each in _held(broker_id, topics)
            if (broker_id not in each.in_sync if each.leader else leaderless)
        )
        if not behind or now_ms >= self._until_ms:
            self._is_over = True
            return None
        left_s = (self._until_ms - now_ms + 999) // 1000
        return (
            f"{behind} of this broker's replicas are not in sync yet; it is ready in {left_s} s at the latest"
        )


def _held(broker_id: int, topics: Iterable[Topic]) -> Iterator[PartitionView]:
    """The partitions of this broker's replicas, without those being added here or waiting to be deleted."""
    for topic in topics:
        for number in topic.partitions:
            if number >= len(topic.view.partitions):
                continue  # it may be of a partition that the view doesn't have yet
            partition = topic.view.partitions[number]
            if broker_id in partition.replicas and broker_id not in partition.adding:
                yield partition
