"""The short way of the commonest request: one bundle for the same partition, from the same client, as
the last time."""

from typing import Final

from tank_node.partition import Partition
from tank_protos.produce_run import BEFORE_PREFIX

_PAYLOAD_PREFIX: Final = BEFORE_PREFIX - 5


class ProducePath:
    """What the last produce of a connection looked like, up to its bundle.

    From the client id to the partition number the next one will likely have the same bytes. `ProduceRun.find`
    compares them and finds the bundle; whatever does not match goes through the generated decoder, which
    knows everything and is slower.
    """

    __slots__ = ("partition", "prefix", "timeout_ms")

    def __init__(self) -> None:
        self.prefix = b""
        self.partition: Partition | None = None
        """Where those requests go; None: nothing was learned."""
        self.timeout_ms = 0

    def learn(self, payload: memoryview, batch: memoryview, partition: Partition, timeout_ms: int) -> None:
        """Remembers a request with one topic, one partition and this one bundle at its end."""
        self.prefix = bytes(payload[_PAYLOAD_PREFIX : len(payload) - len(batch)])
        self.partition = partition
        self.timeout_ms = timeout_ms
