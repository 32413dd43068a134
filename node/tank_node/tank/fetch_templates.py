"""What the consumes of a connection looked like: the next one need not be decoded (`fetch_fast`)."""

from struct import Struct
from typing import Final

from tank_node.partition.partition import Partition
from tank_node.tank.template_cache import make_room
from tank_protos.generated.tank import ConsumeRequest

MESSAGE_ID: Final = 2
_START_BYTES: Final = 7
"""Frame header and client version: as long as the request is as long, they stay the same."""
PREFIX_AT: Final = 11
"""Behind the request id: what stays the same up to the number asked for."""
_WANTED_BYTES: Final = 12
"""The number and the fetch size, at the end."""
_MOST_PREFIX_BYTES: Final = 600
"""Two names of 255 bytes and what is around them: a longer one is that of several partitions."""
_read_length: Final = Struct("<xI").unpack_from
_write_start: Final = Struct("<BIH").pack


class ConsumePath:
    """What a consume of a connection looked like, with one topic and one partition. Never changed: who waits
    keeps it.

    The next one will likely have the same bytes but for its request id, the number and the fetch size. What
    does not match goes through the generated decoder, which knows everything and is slower.
    """

    __slots__ = (
        "answer", "client_version", "frame_bytes", "header_bytes", "min_bytes", "name", "partition", "prefix",
        "start", "topic_name", "wait_ms", "wanted",
    )  # fmt: skip

    def __init__(self, payload: memoryview, request: ConsumeRequest, partition: Partition) -> None:
        """Of a request that names this partition alone; its payload is whole."""
        self.topic_name = name = request.topics[0].name
        self.partition = partition
        """Once it is removed it is unreadable, so an old one does no harm."""
        self.client_version = request.client_version
        self.wait_ms = request.max_wait_ms
        self.min_bytes = request.min_bytes
        self.frame_bytes = 5 + len(payload)
        self.start = _write_start(MESSAGE_ID, len(payload), request.client_version)
        self.prefix = bytes(payload[PREFIX_AT - 5 : len(payload) - _WANTED_BYTES])
        self.wanted = Struct(f"<{_START_BYTES}xI{len(self.prefix)}xQI").unpack_from
        """Reads request id, sequence number and fetch size."""
        raw = name.encode("utf-8", "surrogateescape")
        self.name = bytes((len(raw),)) + raw + b"\x01"
        """Of the topic, as it stands in an answer, and the count of partitions."""
        answer = Struct(f"<BIIIB{len(self.name)}sHBQQI")
        self.answer = answer.pack
        """Writes an answer with data, up to the chunk."""
        self.header_bytes = answer.size - 9
        """The answer's header begins behind the frame's and its own length."""


class ConsumePaths:
    """Those that a connection has learned, `Limits.learned_paths` at most: a client that takes turns over
    partitions finds each of them again here."""

    __slots__ = ("_forgotten", "_known", "_most", "last")

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[bytes, ConsumePath] = {}
        """By prefix. None is the beginning of another: its lengths and counts say where it ends."""
        self._forgotten = 0
        self.last: ConsumePath | None = None
        """The one that was used or learned last; None: nothing was learned."""

    def find(self, buffer: bytearray, at: int, end: int) -> ConsumePath | None:
        """That of the consume whose frame begins at `at`, a whole header at least; None: it was not learned,
        or the frame is not all there."""
        stop: int = at + 5 + _read_length(buffer, at)[0] - _WANTED_BYTES
        if not 0 < stop - at - PREFIX_AT <= _MOST_PREFIX_BYTES or stop > end:
            return None
        path = self._known.get(bytes(buffer[at + PREFIX_AT : stop]))
        if path is not None:
            self.last = path
        return path

    def learn(self, payload: memoryview, request: ConsumeRequest, partition: Partition) -> None:
        """Remembers a request that names this partition alone; its payload is whole."""
        prefix = bytes(payload[PREFIX_AT - 5 : -_WANTED_BYTES])
        known = self._known
        path = known.get(prefix)
        if path is None or path.partition is not partition or path.client_version != request.client_version:
            if path is None and len(known) >= self._most:
                self._forgotten = make_room(known, self._forgotten)
            path = known[prefix] = ConsumePath(payload, request, partition)
        self.last = path
