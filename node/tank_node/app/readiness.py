"""When a broker that was started has caught up, for /readyz: whoever rolls a cluster waits for that. Pure.

Only the first time counts: a broker that falls behind later is no less able to serve, and clients that were
sent away from it would only make the others fall behind, too.
"""

from collections.abc import Iterable, Iterator

from tank_node.broker.broker import Topic
from tank_node.cluster.view import PartitionView

ELECTION_MS = 10_000
"""What nobody leads is waited for, too, but not for longer than elections take: all its replicas may be away,
which no wait here ends."""


class CatchingUp:
    """Of one process."""

    def __init__(self, wait_ms: int, now_ms: int) -> None:
        """`wait_ms`: after so long it counts as caught up, whatever it lacks: that may need a person."""
        self._wait_ms = wait_ms
        self._until_ms = now_ms + wait_ms
        self._led_until_ms = now_ms + min(ELECTION_MS, wait_ms)
        """So long partitions may be without a leader and count."""
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether it has caught up, now or before."""
        return self._is_over

    def problem(self, broker_id: int, topics: Iterable[Topic], now_ms: int) -> str | None:
        """Why it is not ready for this; None: it has caught up, now or before."""
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
        return f"{behind} of its replicas are not in sync yet; it is ready in {left_s} s at the latest"


def _held(broker_id: int, topics: Iterable[Topic]) -> Iterator[PartitionView]:
    """This broker's replicas, but for those that are only just moving here, or wait to be deleted."""
    for topic in topics:
        for number in topic.partitions:
            partition = topic.view.partitions[number]
            if broker_id in partition.replicas and broker_id not in partition.adding:
                yield partition
