"""Learned produce requests: a later one with the same bytes before its bundle need not be decoded."""

from typing import Final

from tank_node.partition.partition import Partition
from tank_node.tank.template_cache import make_room
from tank_protos.storage.produce_run import BEFORE_PREFIX
from tank_protos.wire.framing import HEADER_BYTES

_PAYLOAD_PREFIX: Final = BEFORE_PREFIX - HEADER_BYTES
_BEFORE_NAME: Final = 7
"""The fixed bytes before the topic name: the client id's length, required acks, timeout, count of topics."""
_BEHIND_NAME: Final = 4
"""The topic name's length, and the fixed bytes behind the name: count of partitions, the partition's
number."""


class ProducePath:
    """A learned produce request with one bundle. The next request to the same partition will likely have the
    same prefix, from the client id to the partition number. Immutable."""

    __slots__ = ("partition", "prefix", "timeout_ms")

    def __init__(self, prefix: bytes, partition: Partition, timeout_ms: int) -> None:
        self.prefix = prefix
        self.partition = partition
        """The requests' partition. A removed one refuses appends, so that a reference to it does no harm."""
        self.timeout_ms = timeout_ms


class ProducePaths:
    """The produce requests that a connection has learned, `Limits.learned_paths` at most: several, because a
    client may produce to several partitions in turn.

    `ProduceRun.find` compares the prefix and finds the bundle. A request that doesn't match goes through the
    generated decoder, which knows all cases and is slower.
    """

    __slots__ = ("_forgotten", "_known", "_most", "last")

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[bytes, ProducePath] = {}
        """By prefix. No prefix begins with another one, because the lengths and counts in it say where it
        ends."""
        self._forgotten = 0
        self.last: ProducePath | None = None
        """The learned request that was used or learned last; None: nothing was learned."""

    def find(self, buffer: bytearray, at: int, end: int) -> ProducePath | None:
        """Returns the learned request with the prefix of the produce request at `at`; None: it was not
        learned, or its prefix is incomplete."""
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
