"""The short way of the commonest requests: one bundle for a partition that the connection has produced to
before, in the same words."""

from typing import Final

from tank_node.partition.partition import Partition
from tank_node.tank.template_cache import make_room
from tank_protos.storage.produce_run import BEFORE_PREFIX

_PAYLOAD_PREFIX: Final = BEFORE_PREFIX - 5
_BEFORE_NAME: Final = 7
"""Between client id and topic name: the length before the id, required acks, timeout, count of topics."""
_BEHIND_NAME: Final = 4
"""The length before the topic name, and behind it the count of partitions and the partition's number."""


class ProducePath:
    """What such a request looks like, up to its bundle: from the client id to the partition number the next
    one to that partition will likely have the same bytes. Never changed."""

    __slots__ = ("partition", "prefix", "timeout_ms")

    def __init__(self, prefix: bytes, partition: Partition, timeout_ms: int) -> None:
        self.prefix = prefix
        self.partition = partition
        """Where those requests go. Once it is removed it refuses, so an old one does no harm."""
        self.timeout_ms = timeout_ms


class ProducePaths:
    """Those that a connection has learned, `Limits.learned_paths` at most.

    A client that takes turns over partitions finds each of them again here. `ProduceRun.find` compares the
    prefix and finds the bundle; whatever does not match goes through the generated decoder, which knows
    everything and is slower.
    """

    __slots__ = ("_forgotten", "_known", "_most", "last")

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[bytes, ProducePath] = {}
        """By prefix. None is the beginning of another: its lengths and counts say where it ends."""
        self._forgotten = 0
        self.last: ProducePath | None = None
        """The one that was used or learned last; None: nothing was learned."""

    def find(self, buffer: bytearray, at: int, end: int) -> ProducePath | None:
        """That of the produce request whose frame begins at `at`; None: it was not learned, or its prefix
        is not all there."""
        start = at + BEFORE_PREFIX
        if start >= end:
            return None
        name_at = start + buffer[start] + _BEFORE_NAME
        if name_at >= end:
            return None
        stop = name_at + buffer[name_at] + _BEHIND_NAME
        if stop > end:
            return None
        path = self._known.get(bytes(buffer[start:stop]))
        if path is not None:
            self.last = path
        return path

    def learn(self, payload: memoryview, batch: memoryview, partition: Partition, timeout_ms: int) -> None:
        """Remembers a request with one topic, one partition and this one bundle at its end."""
        prefix = bytes(payload[_PAYLOAD_PREFIX : len(payload) - len(batch)])
        known = self._known
        if len(known) >= self._most and prefix not in known:
            self._forgotten = make_room(known, self._forgotten)
        self.last = known[prefix] = ProducePath(prefix, partition, timeout_ms)
