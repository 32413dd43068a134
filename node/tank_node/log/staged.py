"""Batches that a tick has staged for one segment, with their records, until they are written."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, Protocol

from tank_node.log.settings import MAX_SEGMENT_BYTES, MAX_SEGMENT_RECORDS, LogSettings
from tank_node.segment.record import CHECKED_HEAD, MAX_TIMESTAMP_AT, RECORD_BYTES
from tank_node.segment.segment import Segment
from tank_protos.wire.buffer import Buffer

_U64: Final = Struct("<Q")


class BatchRun(Protocol):
    """Dense, checked batches for one partition, found in received bytes, that a log stores together.
    `tank_protos.storage.produce_run.ProduceRun` is TANK's."""

    @property
    def batches(self) -> int:
        """The number of batches."""

    @property
    def batch_bytes(self) -> int:
        """The bytes of all batches."""

    @property
    def messages(self) -> int:
        """The number of messages in all batches."""

    def records(
        self,
        start: int,
        number: int,
        position: int,
        room: int,
        most: int,
        append_ms: int,
        max_timestamp_ms: int,
        leader_epoch: int,
        stored_format: int,
    ) -> bytes:
        """Makes the index records of the batches from `start` on, at most `most` of them, as far as they fit
        into `room` bytes. The first gets `number` and `position`. Empty when none fits."""

    def slices(self, start: int, stop: int) -> Sequence[Buffer]:
        """The bytes of the batches from `start` to `stop` - 1, in order; a buffer may hold several
        batches."""


class ProducedRun(BatchRun, Protocol):
    """Batches of one idempotent producer, whose sequence numbers follow one another; or of none.
    `tank_protos.kafka.produce_run.KafkaProduceRun` is that of Kafka's clients."""

    @property
    def producer_id(self) -> int:
        """0: the batches have no producer."""

    @property
    def producer_epoch(self) -> int:
        """The producer's epoch."""

    def produced(self, start: int, stop: int) -> Sequence[tuple[int, int]]:
        """The producer's first sequence number in each batch from `start` to `stop` - 1, and the number of
        its messages."""


class StagedRun:
    """Batches staged for one segment, in order. segment: None when they begin a new one."""

    __slots__ = ("base", "batches", "count", "end", "records", "roll_at_ms", "segment", "snapshot", "start")

    def __init__(self, segment: Segment | None, base: int, start: int, roll_at_ms: int) -> None:
        self.segment = segment
        self.base = base
        self.start = start
        self.end = start
        self.roll_at_ms = roll_at_ms
        self.count = 0 if segment is None else segment.count
        """Number of batches in the segment, the staged ones included."""
        self.batches: list[Buffer] = []
        """The batches, in order; a buffer may hold several."""
        self.records: list[bytes] = []
        """Their records, in order; an item may hold several."""
        self.snapshot = b""
        """A snapshot of the producers before this run, for a new segment."""

    def has_room(self, found: BatchRun, settings: LogSettings, append_ms: int) -> bool:
        """Whether all batches of `found` fit into this segment."""
        return (
            self.end + found.batch_bytes <= settings.segment_bytes
            and self.count + found.batches <= MAX_SEGMENT_RECORDS
            and append_ms < self.roll_at_ms
        )

    def take(
        self,
        found: BatchRun,
        start: int,
        number: int,
        append_ms: int,
        max_timestamp_ms: int,
        leader_epoch: int,
        settings: LogSettings,
    ) -> tuple[int, int, int] | None:
        """Stages the batches from `start` on, as far as there is room. Returns where the rest begins, the
        last number, and the greatest time so far; None when this segment takes no more batch."""
        position = self.end
        if position and append_ms >= self.roll_at_ms:
            return None
        room = max(settings.segment_bytes - position, 0)
        most = max(MAX_SEGMENT_RECORDS - self.count, 0)
        rest = append_ms, max_timestamp_ms, leader_epoch, settings.format
        records = found.records(start, number, position, room, most, *rest)
        if not records:
            if position:
                return None
            # An empty segment takes one batch of any length.
            records = found.records(start, number, position, MAX_SEGMENT_BYTES, 1, *rest)
        stop = start + len(records) // RECORD_BYTES
        newest_at = len(records) - RECORD_BYTES
        first, span, position, length, _ = CHECKED_HEAD.unpack_from(records, newest_at)
        self.batches += found.slices(start, stop)
        self.records.append(records)
        self.count += stop - start
        self.end = position + length
        return stop, first + span, _U64.unpack_from(records, newest_at + MAX_TIMESTAMP_AT)[0]
