"""Learned consume requests: a later one with the same bytes need not be decoded (`fetch_fast`)."""

from struct import Struct
from typing import Final

from tank_node.partition.partition import Partition
from tank_node.tank.template_cache import make_room
from tank_protos.generated.tank import ConsumeRequest
from tank_protos.generated.tank.fast_writers import DataFrames
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES

MESSAGE_ID: Final = 2
_START_BYTES: Final = 7
"""The frame header and the client version, which are the same in all requests of the same length."""
PREFIX_AT: Final = 11
"""Where the prefix begins: the bytes from behind the request id to the message number."""
_WANTED_BYTES: Final = 12
"""The message number and the fetch size, at the request's end."""
_MOST_PREFIX_BYTES: Final = 600
"""A prefix with two names of 255 bytes is shorter; a longer one names several partitions."""
_read_head: Final = FRAME_HEAD.unpack_from


class ConsumePath:
    """A learned consume request with one topic and one partition. Immutable: waiting requests keep it.

    The next request will likely have the same bytes but for its request id, the message number and the fetch
    size. One that doesn't match goes through the generated decoder, which knows all cases and is slower.
    """

    __slots__ = (
        "answer", "client_version", "frame_bytes", "min_bytes", "partition", "prefix", "start", "topic_name",
        "wait_ms", "wanted",
    )  # fmt: skip

    def __init__(self, payload: memoryview, request: ConsumeRequest, partition: Partition) -> None:
        """`request` and its whole `payload` name this partition alone."""
        self.topic_name = name = request.topics[0].name
        self.partition = partition
        """A removed partition is unreadable, so that a reference to one does no harm."""
        self.client_version = request.client_version
        self.wait_ms = request.max_wait_ms
        self.min_bytes = request.min_bytes
        self.frame_bytes = HEADER_BYTES + len(payload)
        version = bytes(payload[: _START_BYTES - HEADER_BYTES])
        self.start = FRAME_HEAD.pack(MESSAGE_ID, len(payload)) + version
        self.prefix = bytes(payload[PREFIX_AT - HEADER_BYTES : len(payload) - _WANTED_BYTES])
        self.wanted = Struct(f"<{_START_BYTES}xI{len(self.prefix)}xQI").unpack_from
        """Reads request id, sequence number and fetch size."""
        self.answer = DataFrames(name, partition.number).frame
        """Writes an answer with data, up to the chunk."""


class ConsumePaths:
    """The consume requests that a connection has learned, `Limits.learned_paths` at most: several, because a
    client may consume several partitions in turn."""

    __slots__ = ("_forgotten", "_known", "_most", "last")

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[bytes, ConsumePath] = {}
        """By prefix. No prefix begins with another one, because the lengths and counts in it say where it
        ends."""
        self._forgotten = 0
        self.last: ConsumePath | None = None
        """The learned request that was used or learned last; None: nothing was learned."""

    def find(self, buffer: bytearray, at: int, end: int) -> ConsumePath | None:
        """Returns the learned request with the prefix of the consume request at `at`, whose header is whole;
        None: it was not learned, or the frame is incomplete."""
        stop: int = at + HEADER_BYTES + _read_head(buffer, at)[1] - _WANTED_BYTES
        if not 0 < stop - at - PREFIX_AT <= _MOST_PREFIX_BYTES or stop > end:
            return None
        path = self._known.get(bytes(buffer[at + PREFIX_AT : stop]))
        if path is not None:
            self.last = path
        return path

    def learn(self, payload: memoryview, request: ConsumeRequest, partition: Partition) -> None:
        """Remembers a request that names this partition alone; its payload is whole."""
        prefix = bytes(payload[PREFIX_AT - HEADER_BYTES : -_WANTED_BYTES])
        known = self._known
        path = known.get(prefix)
        if path is None or path.partition is not partition or path.client_version != request.client_version:
            if path is None and len(known) >= self._most:
                self._forgotten = make_room(known, self._forgotten)
            path = known[prefix] = ConsumePath(payload, request, partition)
        self.last = path
