"""Reading a leader's log for pushes: index records and their batches, as they are stored."""

from typing import Final, NamedTuple

from tank_node.log.epoch_history import epoch_at
from tank_node.log.log import PartitionLog
from tank_node.segment import scrub
from tank_node.segment.errors import DiskFailed, LogDamaged
from tank_node.segment.record import RECORD_BYTES, read_record
from tank_node.segment.segment import FileRange, Segment

READ_BYTES: Final = 32 * 1024
"""The most bytes of batches that are read into memory, once for all followers. More are sent from the file,
with two system calls for each follower and no copy."""
PIECE_RECORDS: Final = 1024
"""The most records in one piece: 64 KiB. Where batches are tiny, records are most of a piece."""


class Piece(NamedTuple):
    """Batches of one segment, back to back, with their records."""

    records: bytes
    batches: bytes | FileRange
    """The batches, in memory or in their file. The file is pinned: the sender releases it."""
    batch_bytes: int
    last: int
    """The last number of the last batch."""
    previous_epoch: int
    """The leader epoch of the message before the piece."""


class PushReader:
    """Reads one log for its followers."""

    __slots__ = ("_log", "_piece", "_piece_ended", "_piece_most", "_piece_start")

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._piece: Piece | None = None
        """The last piece in memory: the next follower likely needs the same."""
        self._piece_start = 0
        self._piece_most = 0
        self._piece_ended = False
        """Whether the piece is full, so that later appends don't change it."""

    def read(self, start: int, max_bytes: int) -> Piece | None:
        """Returns whole batches from number `start` on: at least one, otherwise at most `max_bytes`; None
        when there are none. Raises LogDamaged, when a batch of an earlier process doesn't match its record,
        and StorageError.
        """
        log = self._log
        if start > log.tail.written:
            return None
        piece = self._piece
        if (
            piece is not None
            and self._piece_start == start
            and self._piece_most == max_bytes
            and (self._piece_ended or piece.last == log.tail.written)
        ):
            return piece
        found = log.cursors.places.get(start)
        if found is None or found[1] >= found[0].index.count:
            found = self._find(start)
            if found is None:
                return None
        segment, i = found
        try:
            piece, stop = self._piece_from(segment, i, start, max_bytes)
        except LogDamaged as damage:
            log.spoiled(str(damage))
            raise
        log.cursors.remember(piece.last + 1, segment, stop)
        if not isinstance(piece.batches, FileRange):
            self._piece, self._piece_start, self._piece_most = piece, start, max_bytes
            self._piece_ended = stop < segment.index.count
        return piece

    def _find(self, start: int) -> tuple[Segment, int] | None:
        for segment in self._log.segments.list[self._at(start) :]:
            i = segment.index.containing(start)
            if i < segment.count:
                return segment, i
            segment.check_end()
        return None

    def _at(self, start: int) -> int:
        segments = self._log.segments.list
        at = len(segments) - 1
        while at > 0 and segments[at].base > start:
            at -= 1
        return max(at, 0)

    def _piece_from(self, segment: Segment, i: int, start: int, max_bytes: int) -> tuple[Piece, int]:
        """Reads the piece that begins at record `i`. Returns it, and the record behind it."""
        index = segment.index
        first = index.record(i)
        unchecked = i < segment.inherited and not scrub.is_checked(segment, i)
        if unchecked:
            max_bytes = min(max_bytes, scrub.FIRST_READ_BYTES)
        if segment.log_end.length <= first.position + max_bytes:
            stop = index.count
        else:
            stop = index.last_ending_by(first.position + max_bytes, i, first.position) + 1
        stop = min(stop, i + PIECE_RECORDS)
        if unchecked:
            scrub.check_before_reading(segment, i, stop, start)
        records = index.raw(i, stop)
        last = first if stop == i + 1 else read_record(records, len(records) - RECORD_BYTES)
        length = last.end - first.position
        if not 0 < length <= segment.log_end.length - first.position:
            raise LogDamaged(f"record {i} of {segment.index_end.file.path} points outside of its log")
        batches = self._batches(segment, first.position, length, first.first, last.last)
        previous_epoch = epoch_at(self._log.segments.epochs, start - 1)
        return Piece(records, batches, length, last.last, previous_epoch), stop

    def _batches(
        self, segment: Segment, position: int, length: int, first: int, last: int
    ) -> "bytes | FileRange":
        file = segment.log_end.file
        if length > READ_BYTES and not file.unreadable:
            file.pin()
            return FileRange(file, position, length, first, last, False)
        try:
            batches: bytes = file.files.disk.read_at(file.files.use(file), length, position)
        except OSError as error:
            raise DiskFailed(f"cannot read {file.path}: {error.strerror}") from error
        if len(batches) != length:
            raise LogDamaged(f"{file.path} has become shorter")
        return batches

    def bytes_behind(self, number: int) -> int:
        """About how many bytes of batches are stored behind `number`. Raises StorageError."""
        behind = 0
        segments = self._log.segments.list
        for at in range(len(segments) - 1, -1, -1):
            segment = segments[at]
            behind += segment.size_bytes
            if segment.base <= number + 1:
                i = segment.index.containing(number + 1)
                if i < segment.count:
                    behind -= segment.index.record(i).position
                else:
                    behind -= segment.size_bytes
                break
        return behind
