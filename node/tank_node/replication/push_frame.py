"""The bytes of a push: one frame with stretches of many partitions (docs/protocol/peers.md). Pure.

Pushes are written and read by hand, beside the generated codec: a long stretch's batches stay in their file
until they are sent, and nearly every push names one partition, whose few numbers are read here in one go.
Answers are made by fast writers.
"""

from struct import Struct
from struct import error as StructError
from typing import ClassVar, Final, NamedTuple, TypeAlias

from fastcrc.crc32 import iscsi as crc32c

from tank_node.log.pushing import Piece
from tank_node.segment.segment import FileRange
from tank_protos.feature_levels import PUSH_VERSIONS
from tank_protos.generated.tank import ProduceWithBaseSeqNumRequest, PushAnswer, PushedPartition
from tank_protos.generated.tank.fast_writers import push_answer_head, pushed_entry
from tank_protos.storage import stretch as codec
from tank_protos.storage.index_record import RECORD_BYTES
from tank_protos.storage.stretch import CHECKSUM_BYTES, HEAD_BYTES, PUSH_VERSION
from tank_protos.wire import varint
from tank_protos.wire.errors import WireError

Part: TypeAlias = bytes | FileRange
"""A part of a frame: bytes, or batches in their file."""

_MOST_NAMES: Final = 255
_frame_head = Struct("<BIHIBBIB").pack
"""Message id, length; client version, request id, no client id, no acks, no timeout, number of topics."""
_HEAD_BYTES: Final = 9
"""Length of the payload's fixed head without the timeout, whose 4 bytes `PushFrame` adds."""
_number = Struct("<H").pack
_checksum = Struct("<I").pack
_read_head = Struct("<HIBBIB").unpack_from
_READ_BYTES: Final = 13
"""Length of the payload's fixed head, as `_read_head` reads it."""
_read_number = Struct("<H").unpack_from
_read_start = Struct("<Q").unpack_from
_answered = Struct("<QHBQQQI")
"""Topic id, partition, error, matched, synced, the log's end, its epoch."""
_ANSWER_BYTES: Final = 6 + _answered.size
"""Length of the payload of an answer for one partition."""
_read_counted = Struct("<IH").unpack_from
_entry = Struct("<QQIIQQI").pack
"""Base number; a stretch's head: topic id, leader epoch, previous epoch, mark, log start, batches."""


class NotAPush(WireError):
    """A frame that leaders don't send to followers."""

    reason: ClassVar[str] = "not_a_push"


class OnePush(NamedTuple):
    """A push that names one partition."""

    request_id: int
    number: int
    """The partition's number in its topic."""
    start: int
    stretch: codec.Stretch


def read_one(payload: memoryview) -> OnePush | None:
    """Decodes a push of the usual form: one partition, no optional fields. None for other payloads, which
    `read_all` decodes or refuses. Raises as `stretch.decode`."""
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
    codec.check_head(payload[entry_at : at + 8 + HEAD_BYTES], content)
    return OnePush(request_id, number, start, codec.decode(content))


def read_all(payload: memoryview) -> tuple[int, list[tuple[int, int, codec.Stretch]]]:
    """Decodes a push of any form: its request id, and (partition, start, stretch) of each entry. Raises
    WireError before any entry is taken."""
    push = ProduceWithBaseSeqNumRequest.decode(payload)
    if push.client_version not in PUSH_VERSIONS or not push.request_id:
        raise NotAPush(
            f"a produce of version {push.client_version:#x}, request {push.request_id}, is no push"
        )
    found = []
    for topic in push.topics:
        for entry in topic.partitions:
            number, start, content = entry.partition, entry.base_seq_num, memoryview(entry.bundle)
            codec.check_head(codec.covered(number, len(content), start, content[:HEAD_BYTES]), content)
            found.append((number, start, codec.decode(content)))
    return push.request_id, found


def answer_to(request_id: int, answers: list[PushedPartition]) -> bytes:
    """Encodes a PushAnswer to the push with this request id, as a frame."""
    entries = b"".join([_entry_of(answer) for answer in answers])
    return push_answer_head(request_id, len(answers), len(entries)) + entries


def _entry_of(told: PushedPartition) -> bytes:
    return pushed_entry(
        told.topic_id,
        told.partition,
        told.error,
        told.matched,
        told.synced,
        told.log_end,
        told.epoch_at_log_end,
    )


def read_answer(payload: memoryview) -> PushAnswer:
    """Decodes a PushAnswer. Raises WireError."""
    if len(payload) != _ANSWER_BYTES:
        return PushAnswer.decode(payload)
    request_id, count = _read_counted(payload, 0)
    if count != 1 or not request_id:
        return PushAnswer.decode(payload)
    return PushAnswer(request_id, 0, [PushedPartition(*_answered.unpack_from(payload, 6))])


class PushFrame:
    """Builds a push."""

    __slots__ = ("_counts", "_topics", "_version", "size")

    def __init__(self, version: int = PUSH_VERSION) -> None:
        self._version = version
        self._topics: dict[bytes, list[Part]] = {}
        self._counts: dict[bytes, int] = {}
        self.size = _HEAD_BYTES + 4
        """Length of the payload in bytes."""

    @property
    def topics(self) -> dict[bytes, int]:
        """The positions of the topics in the frame, by name."""
        return {name: place for place, name in enumerate(self._topics)}

    def has_room(self, topic_name: bytes) -> bool:
        """Whether the frame can name one more partition of this topic."""
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
        """Adds a partition's stretch that begins at number `start`; piece None: a stretch without batches.

        head: topic id, leader epoch, epoch before the stretch, high-water mark, log start. producers: a
        snapshot of the idempotent producers before the stretch.
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
        length = HEAD_BYTES + CHECKSUM_BYTES + len(records) + batch_bytes
        encoded = varint.encode(length)
        entry = b"".join((_number(number), encoded, _entry(start, *head, count)))
        parts.append(b"".join((entry, _checksum(crc32c(entry)), records)))
        if piece is not None:
            parts.append(piece.batches)
        self.size += 2 + len(encoded) + 8 + length

    def finish(self, request_id: int) -> list[Part]:
        """Returns the whole frame, with neighbouring bytes joined."""
        topics = self._topics
        head = _frame_head(
            ProduceWithBaseSeqNumRequest.ID, self.size, self._version, request_id, 0, 0, 0, len(topics)
        )
        out: list[Part] = []
        run = [head]
        for name, parts in topics.items():
            run.append(b"%c%b%c" % (len(name), name, self._counts[name]))
            for part in parts:
                if isinstance(part, FileRange):
                    out.append(b"".join(run))
                    out.append(part)
                    run = []
                else:
                    run.append(part)
        if run:
            out.append(b"".join(run))
        return out
