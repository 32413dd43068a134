"""The bytes of a push: one frame with stretches of many partitions (docs/protocol/peers.md). Pure.

Written by hand, beside the generated codec: a long stretch's batches stay in their file until they are sent,
and nearly every push names one partition, whose few numbers are read and answered here in one go.
"""

from struct import Struct
from struct import error as StructError
from typing import ClassVar, Final, NamedTuple, TypeAlias

from fastcrc.crc32 import iscsi as crc32c

from tank_node.log.pushing import Piece
from tank_node.log.segment import Stretch
from tank_protos.feature_levels import PUSH_VERSIONS
from tank_protos.generated.tank import ProduceWithBaseSeqNumRequest, PushAnswer, PushedPartition
from tank_protos.storage import stretch as codec
from tank_protos.storage.index_record import RECORD_BYTES
from tank_protos.storage.stretch import CHECKSUM_BYTES, HEAD_BYTES, PUSH_VERSION, PUSH_WITH_CHECKSUM
from tank_protos.wire import varint
from tank_protos.wire.errors import WireError

Part: TypeAlias = bytes | Stretch
"""Of a frame: bytes, or batches in their file."""

_MOST_NAMES: Final = 255
_frame_head = Struct("<BIHIBBIB").pack
"""Message id, length; client version, request id, no client id, no acks, no timeout, number of topics."""
_HEAD_BYTES: Final = 9
"""Of the payload, before its topics."""
_number = Struct("<H").pack
_checksum = Struct("<I").pack
_read_head = Struct("<HIBBIB").unpack_from
_READ_BYTES: Final = 13
"""Of the payload, up to its topics."""
_read_number = Struct("<H").unpack_from
_read_start = Struct("<Q").unpack_from
_answer_head = Struct("<BIIH")
"""Message id, length, request id, number of partitions; the request id is not 0."""
_answered = Struct("<QHBQQQI")
"""Topic id, partition, error, matched, synced, the log's end, its epoch."""
_ANSWER_BYTES: Final = 6 + _answered.size
"""Of the payload of one that tells of one partition."""
_read_counted = Struct("<IH").unpack_from
_entry = Struct("<QQIIQQI").pack
"""Base number; a stretch's head: topic id, leader epoch, previous epoch, mark, log start, batches."""


class NotAPush(WireError):
    """A frame that no leader sends to a follower."""

    reason: ClassVar[str] = "not_a_push"


class OnePush(NamedTuple):
    """A push that names one partition."""

    request_id: int
    number: int
    """Of the partition."""
    start: int
    stretch: codec.Stretch


def read_one(payload: memoryview) -> OnePush | None:
    """A push that names one partition, and nothing that a leader leaves out; None: the generated decoder
    knows what it is, and what is wrong with it. Raises what `stretch.decode` does."""
    try:
        version, request_id, client, _, _, topics = _read_head(payload, 0)
        at = _READ_BYTES + 1 + payload[_READ_BYTES]
        if version not in PUSH_VERSIONS or not request_id or client or topics != 1 or payload[at] != 1:
            return None
        entry_at = at + 1
        (number,) = _read_number(payload, entry_at)
        length, at = varint.read(payload, at + 3)
        (start,) = _read_start(payload, at)
    except (StructError, IndexError, WireError):
        return None
    if at + 8 + length != len(payload):
        return None
    content = payload[at + 8 :]
    if version < PUSH_WITH_CHECKSUM:
        return OnePush(request_id, number, start, codec.decode(content))
    codec.check_head(payload[entry_at : at + 8 + HEAD_BYTES], content)
    return OnePush(request_id, number, start, codec.decode(content, checked=True))


def read_all(payload: memoryview) -> tuple[int, list[tuple[int, int, codec.Stretch]]]:
    """A push of any form: its request id, and (partition, start, stretch) of each entry. All of it is read
    before anything of it may be taken. Raises WireError."""
    push = ProduceWithBaseSeqNumRequest.decode(payload)
    if push.client_version not in PUSH_VERSIONS or not push.request_id:
        raise NotAPush(f"a produce of version {push.client_version:#x} from a leader")
    checked = push.client_version >= PUSH_WITH_CHECKSUM
    found = []
    for topic in push.topics:
        for entry in topic.partitions:
            number, start, content = entry.partition, entry.base_seq_num, memoryview(entry.bundle)
            if checked:
                codec.check_head(codec.covered(number, len(content), start, content[:HEAD_BYTES]), content)
            found.append((number, start, codec.decode(content, checked=checked)))
    return push.request_id, found


def answer_to(request_id: int, answers: list[PushedPartition]) -> bytes:
    """The frame of a PushAnswer to that push."""
    head = _answer_head.pack(PushAnswer.ID, 6 + _answered.size * len(answers), request_id, len(answers))
    return b"".join([head, *map(_packed, answers)])


def _packed(told: PushedPartition) -> bytes:
    return _answered.pack(
        told.topic_id,
        told.partition,
        told.error,
        told.matched,
        told.synced,
        told.log_end,
        told.epoch_at_log_end,
    )


def read_answer(payload: memoryview) -> PushAnswer:
    """The PushAnswer that fills the payload. Raises WireError."""
    if len(payload) != _ANSWER_BYTES:
        return PushAnswer.decode(payload)
    request_id, count = _read_counted(payload, 0)
    if count != 1 or not request_id:
        return PushAnswer.decode(payload)
    return PushAnswer(request_id, 0, [PushedPartition(*_answered.unpack_from(payload, 6))])


class PushFrame:
    """A push while it is put together."""

    __slots__ = ("_counts", "_is_checked", "_topics", "_version", "size")

    def __init__(self, version: int = PUSH_VERSION) -> None:
        self._version = version
        self._is_checked = version >= PUSH_WITH_CHECKSUM
        self._topics: dict[bytes, list[Part]] = {}
        self._counts: dict[bytes, int] = {}
        self.size = _HEAD_BYTES + 4
        """Of the payload, in bytes."""

    @property
    def topics(self) -> dict[bytes, int]:
        """The places of the topics in the frame, by name."""
        return {name: place for place, name in enumerate(self._topics)}

    def has_room(self, topic_name: bytes) -> bool:
        """Whether one more partition of this topic can be named."""
        count = self._counts.get(topic_name)
        return len(self._counts) < _MOST_NAMES if count is None else count < _MOST_NAMES

    def add(
        self,
        topic_name: bytes,
        number: int,
        start: int,
        head: tuple[int, int, int, int, int],
        piece: Piece | None,
        producers: bytes = b"",
    ) -> None:
        """Adds the stretch of a partition that begins at `start`; no piece: without batches.

        head: topic id, leader epoch, epoch before the stretch, high-water mark, log start. producers: what is
        remembered of them before it.
        """
        parts = self._topics.get(topic_name)
        if parts is None:
            parts = self._topics[topic_name] = []
            self._counts[topic_name] = 0
            self.size += 2 + len(topic_name)
        self._counts[topic_name] += 1
        records, batch_bytes = (b"", 0) if piece is None else (piece.records, piece.batch_bytes)
        count = len(records) // RECORD_BYTES
        if producers:
            count, records = count | codec.HAS_PRODUCERS, codec.with_length(producers) + records
        length = HEAD_BYTES + len(records) + batch_bytes
        if self._is_checked:
            length += CHECKSUM_BYTES
        encoded = varint.encode(length)
        entry = b"".join((_number(number), encoded, _entry(start, *head, count)))
        if self._is_checked:
            entry += _checksum(crc32c(entry))
        parts.append(entry + records)
        if piece is not None:
            parts.append(piece.batches)
        self.size += 2 + len(encoded) + 8 + length

    def finish(self, request_id: int) -> list[Part]:
        """The whole frame: neighbouring bytes in one piece."""
        topics = self._topics
        head = _frame_head(
            ProduceWithBaseSeqNumRequest.ID, self.size, self._version, request_id, 0, 0, 0, len(topics)
        )
        out: list[Part] = []
        run = [head]
        for name, parts in topics.items():
            run.append(b"%c%b%c" % (len(name), name, self._counts[name]))
            for part in parts:
                if isinstance(part, Stretch):
                    out.append(b"".join(run))
                    out.append(part)
                    run = []
                else:
                    run.append(part)
        if run:
            out.append(b"".join(run))
        return out
