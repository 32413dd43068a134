"""The short way of the commonest request: one bundle for the same partition, from the same client, as
the last time."""

from tank_node.partition import Partition

BEFORE_PREFIX = 11
"""Frame header, client version and request id: what differs from request to request of one client."""
_PAYLOAD_PREFIX = BEFORE_PREFIX - 5


class ProducePath:
    """What the last produce of a connection looked like, up to its bundle.

    From the client id to the partition number the next one will likely have the same bytes. `bundle_at`
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


def bundle_at(buffer: bytearray, at: int, stop: int, prefix: bytes) -> int:
    """Where the bundle's length begins in the produce frame buffer[at:stop], if all before it is
    `prefix`; else -1.

    Only when the bundle ends with the frame: then a full decode finds the same bundle and nothing else.
    """
    if not buffer.startswith(prefix, at + BEFORE_PREFIX):
        return -1
    found = at + BEFORE_PREFIX + len(prefix)
    if found + 4 > stop:
        return -1
    length = buffer[found]
    if length < 0x80:
        return found if found + 1 + length == stop else -1
    length = (length & 0x7F) | buffer[found + 1] << 7
    if length < 0x4000:
        return found if found + 2 + length == stop else -1
    length = (length & 0x3FFF) | buffer[found + 2] << 14
    return found if length < 0x200000 and found + 3 + length == stop else -1
