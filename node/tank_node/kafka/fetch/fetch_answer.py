"""Writes answers to Fetch: the heads of topics and partitions as bytes, the batches as ranges of files.

The layout is that of the generated `FetchResponse`, which tests compare; it is written by hand because an
answer has a head for each partition, and batches that are not in memory.
"""

from struct import Struct
from typing import Final

from tank_node.kafka.fetch.partition_read import PartitionRead
from tank_node.kafka.leaders import NO_BROKER, endpoint_of
from tank_node.kafka.session import KafkaSession
from tank_node.output import Output
from tank_protos.wire.varint import encode as uvarint

_THROTTLE_SINCE: Final = 1
_STABLE_SINCE: Final = 4
_START_SINCE: Final = 5
_SESSIONS_SINCE: Final = 7
_PREFERRED_SINCE: Final = 11
_FLEXIBLE_SINCE: Final = 12
_IDS_SINCE: Final = 13
_ENDPOINTS_SINCE: Final = 16

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_TOP: Final = Struct(">ihi")
"""Throttle time, error and session id."""
_HEAD: Final = Struct(">ihq")
"""Partition, error and high-water mark."""
_I64: Final = Struct(">q")
_LEADER: Final = Struct(">iib")
"""Leader, leader epoch and no tagged fields."""
_DIVERGING: Final = Struct(">iqb")
"""Epoch, end offset and no tagged fields."""

NOT_TOLD: Final = -1
"""An offset that the answer doesn't tell."""
_NO_REPLICA: Final = -1
_NULL: Final = -1
"""The length of a null array."""
_NO_TAGS: Final = b"\0"
_NULL_COMPACT: Final = b"\0"
_EMPTY_COMPACT: Final = b"\1"
_DIVERGING_TAG: Final = 0
_LEADER_TAG: Final = 1


class FetchAnswer:
    """One answer while it is written: first `topic`, then its partitions, and so on; `finish` ends it."""

    __slots__ = ("_committed", "_flexible", "_head", "_leaders", "_out", "_session", "_version")

    def __init__(
        self,
        session: KafkaSession,
        version: int,
        error: int,
        session_id: int,
        topics: int,
        *,
        committed: bool,
    ) -> None:
        """topics: how many topics will be written. committed: whether the client reads committed data alone,
        and gets a list of aborted transactions."""
        self._session = session
        self._version = version
        self._flexible = version >= _FLEXIBLE_SINCE
        self._committed = committed
        self._leaders: dict[int, None] = {}
        """The brokers that the answer names as leaders."""
        self._out: list[Output] = []
        head = self._head = bytearray()
        if version >= _SESSIONS_SINCE:
            head += _TOP.pack(0, error, session_id)
        elif version >= _THROTTLE_SINCE:
            head += _I32.pack(0)
        self._count(topics)

    def topic(self, name: str, topic_id: bytes, partitions: int) -> None:
        """Begins a topic with this many partitions."""
        if self._version >= _IDS_SINCE:
            self._head += topic_id
        else:
            encoded = name.encode("utf-8", "surrogateescape")
            self._head += uvarint(len(encoded) + 1) if self._flexible else _I16.pack(len(encoded))
            self._head += encoded
        self._count(partitions)

    def end_topic(self) -> None:
        """Ends a topic, after its partitions."""
        if self._flexible:
            self._head += _NO_TAGS

    def partition(self, target: PartitionRead, mark: int, start: int) -> None:
        """Writes a partition, and takes its batches. mark, start: its high-water mark and the start of its
        log, as offsets; -1: not told."""
        version, head = self._version, self._head
        head += _HEAD.pack(target.number, target.error, mark)
        if version >= _STABLE_SINCE:
            head += _I64.pack(mark)  # no transaction is open: all committed data is stable
            if version >= _START_SINCE:
                head += _I64.pack(start)
            if self._flexible:
                head += _EMPTY_COMPACT if self._committed else _NULL_COMPACT
            else:
                head += _I32.pack(0 if self._committed else _NULL)
            if version >= _PREFERRED_SINCE:
                head += _I32.pack(_NO_REPLICA)
        head += uvarint(target.length + 1) if self._flexible else _I32.pack(target.length)
        if target.length:
            self._take(target)
        if self._flexible:
            self._head += self._tags(target)

    def finish(self) -> list[Output]:
        """Returns the answer's body."""
        if self._flexible:
            self._head += self._endpoints()
        self._out.append(bytes(self._head))
        return self._out

    def _take(self, target: PartitionRead) -> None:
        out = self._out
        out.append(bytes(self._head))
        self._head = bytearray()
        if target.found is not None:
            out.append(target.found)
            target.found = None
        else:
            out += target.batches

    def _tags(self, target: PartitionRead) -> bytes:
        tags: list[bytes] = []
        if target.diverging is not None:
            epoch, end = target.diverging
            tags.append(_tagged(_DIVERGING_TAG, _DIVERGING.pack(epoch, end, 0)))
        leader, epoch = target.leader
        if leader != NO_BROKER:
            self._leaders[leader] = None
            tags.append(_tagged(_LEADER_TAG, _LEADER.pack(leader, epoch, 0)))
        return uvarint(len(tags)) + b"".join(tags) if tags else _NO_TAGS

    def _endpoints(self) -> bytes:
        """The tagged fields of the whole answer: where the leaders are."""
        if self._version < _ENDPOINTS_SINCE or not self._leaders:
            return _NO_TAGS
        brokers = self._session.broker.link.view.brokers
        found: list[bytes] = []
        for broker_id in self._leaders:
            endpoint = endpoint_of(self._session, broker_id)
            if endpoint is not None:
                host, port = endpoint
                found.append(
                    _I32.pack(broker_id)
                    + _compact(host)
                    + _I32.pack(port)
                    + (_compact(brokers[broker_id].rack) if brokers[broker_id].rack else _NULL_COMPACT)
                    + _NO_TAGS
                )
        if not found:
            return _NO_TAGS
        return uvarint(1) + _tagged(0, uvarint(len(found) + 1) + b"".join(found))

    def _count(self, elements: int) -> None:
        """Writes the length of an array."""
        self._head += uvarint(elements + 1) if self._flexible else _I32.pack(elements)


def _tagged(tag: int, content: bytes) -> bytes:
    return uvarint(tag) + uvarint(len(content)) + content


def _compact(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogateescape")
    return uvarint(len(encoded) + 1) + encoded
