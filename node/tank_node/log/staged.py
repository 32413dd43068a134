"""What a tick has staged for one segment: batches and their records, until they are written."""

from struct import Struct
from typing import Final

from tank_node.log.record import CHECKED_HEAD, MAX_TIMESTAMP_AT, RECORD_BYTES
from tank_node.log.segment import Segment
from tank_node.log.settings import MAX_SEGMENT_BYTES, MAX_SEGMENT_RECORDS, LogSettings
from tank_protos.storage.produce_run import ProduceRun

_U64: Final = Struct("<Q")


class StagedRun:
    """Batches staged for one segment, in order. `segment` is None when they begin a new one."""

    __slots__ = ("base", "batches", "count", "end", "records", "roll_at_ms", "segment", "snapshot", "start")

    def __init__(self, segment: Segment | None, base: int, start: int, roll_at_ms: int) -> None:
        self.segment = segment
        self.base = base
        self.start = start
        self.end = start
        self.roll_at_ms = roll_at_ms
        self.count = 0 if segment is None else segment.count
        """Batches in the segment, these included."""
        self.batches: list[memoryview] = []
        """The bytes, in order; a piece may be several batches."""
        self.records: list[bytes] = []
        """Their records, in order; a piece may be those of several batches."""
        self.snapshot = b""
        """The producers' memory before this run, for a new segment."""

    def has_room(self, found: ProduceRun, settings: LogSettings, append_ms: int) -> bool:
        """Whether all of `found` goes into this segment."""
        return (
            self.end + found.batch_bytes <= settings.segment_bytes
            and self.count + found.batches <= MAX_SEGMENT_RECORDS
            and append_ms < self.roll_at_ms
        )

    def take(
        self,
        found: ProduceRun,
        start: int,
        number: int,
        append_ms: int,
        max_timestamp_ms: int,
        leader_epoch: int,
        settings: LogSettings,
    ) -> tuple[int, int, int] | None:
        """Takes the batches from `start` on as far as there is room: where the rest begins, the last number,
        and the greatest time so far. None when not one of them belongs here any more."""
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
            # One is taken, however long it is.
            records = found.records(start, number, position, MAX_SEGMENT_BYTES, 1, *rest)
        stop = start + len(records) // RECORD_BYTES
        newest_at = len(records) - RECORD_BYTES
        first, span, position, length, _ = CHECKED_HEAD.unpack_from(records, newest_at)
        self.batches += found.slices(start, stop)
        self.records.append(records)
        self.count += stop - start
        self.end = position + length
        return stop, first + span, _U64.unpack_from(records, newest_at + MAX_TIMESTAMP_AT)[0]
