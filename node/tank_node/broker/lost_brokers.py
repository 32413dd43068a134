"""Brokers whose connections for replication have just broken: most likely their processes have died.

A process that dies is known here a moment later, because its sockets close. The controllers wait a little for
it to connect again, and only then do others lead its partitions. Meanwhile the view names a dead leader.
"""

from tank_node.broker.topic_waits import TopicWaits
from tank_node.limits import Limits
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Tick


class LostBrokers:
    """Counts the open connections for replication with each broker, in both directions. A broker is lost when
    the last of them has ended: until it has one again, and not for longer than `Limits.lost_leader_wait_ms`,
    because the connections of a living broker can break, too."""

    __slots__ = ("_limit_ms", "_listed_ms", "_open", "_since_ms", "_tick", "_waits")

    def __init__(self, tick: Tick[Partition], waits: TopicWaits, limits: Limits) -> None:
        """waits: what waits for other leaders, and looks again when a lost broker is back."""
        self._tick = tick
        self._waits = waits
        self._limit_ms = limits.lost_leader_wait_ms
        self._listed_ms = limits.lost_broker_listed_ms
        self._open: dict[int, int] = {}
        """The number of connections, by broker id."""
        self._since_ms: dict[int, int] = {}
        """When the last connection with each broker ended (monotonic), by broker id."""

    def opened(self, broker_id: int) -> None:
        """Notes that a connection with a broker is open: the two have recognized each other."""
        self._open[broker_id] = self._open.get(broker_id, 0) + 1
        was_lost = broker_id in self
        self._since_ms.pop(broker_id, None)
        if was_lost:
            self._waits.look_again()

    def ended(self, broker_id: int) -> None:
        """Notes that a connection which was open has ended."""
        left = self._open.pop(broker_id) - 1
        if left:
            self._open[broker_id] = left
        else:
            self._since_ms[broker_id] = self._tick.monotonic_ms

    @property
    def has_peers(self) -> bool:
        """Whether there is any connection whose end would tell that a broker has died."""
        return bool(self._open)

    def __bool__(self) -> bool:
        """Whether any broker is lost."""
        return any(broker_id in self for broker_id in self._since_ms)

    def __contains__(self, broker_id: int) -> bool:
        """Whether this broker is lost."""
        return self.left_ms(broker_id) > 0

    def left_ms(self, broker_id: int) -> int:
        """How long a lost broker still counts as lost, if it doesn't come back."""
        since_ms = self._since_ms.get(broker_id)
        return 0 if since_ms is None else since_ms + self._limit_ms - self._tick.monotonic_ms

    def still_listed(self) -> tuple[int, ...]:
        """The brokers, in their order, that were lost within `Limits.lost_broker_listed_ms`."""
        after_ms = self._tick.monotonic_ms - self._listed_ms
        return tuple(sorted(each for each, since_ms in self._since_ms.items() if since_ms > after_ms))
