"""What a leader reads to push it: index records and the batches they describe, as they are stored."""

from typing import TYPE_CHECKING, Final, NamedTuple

from tank_node.log import scrub
from tank_node.log.epoch_history import epoch_at
from tank_node.log.errors import DiskFailed, LogDamaged
from tank_node.log.record import RECORD_BYTES, read_record
from tank_node.log.segment import Segment, Stretch

if TYPE_CHECKING:
    from tank_node.log.log import PartitionLog

READ_BYTES: Final = 32 * 1024
"""Up to so many bytes of batches are read into memory, once for all followers; more leave from the file,
which costs two calls for each follower and no copy."""
PIECE_RECORDS: Final = 1024
"""Of one piece: 64 KiB. Where batches are tiny their records are most of it."""


class Piece(NamedTuple):
    """Some batches of one segment, back to back."""

    records: bytes
    batches: bytes | Stretch
    """A stretch's file is pinned: whoever sends it releases it."""
    last: int
    previous_epoch: int

    @property
    def batch_bytes(self) -> int:
        return self.batches.length if isinstance(self.batches, Stretch) else len(self.batches)


class PushReader:
    """Reads one log for its followers."""

    __slots__ = ("_log", "_piece", "_piece_ended", "_piece_most", "_piece_start")

    def __init__(self, log: "PartitionLog") -> None:
        self._log = log
        self._piece: Piece | None = None
        """What was read into memory last: the next follower wants the same."""
        self._piece_start = 0
        self._piece_most = 0
        self._piece_ended = False
        """More would not have fitted: it is the same whatever was appended since."""

    def read(self, start: int, max_bytes: int) -> Piece | None:
        """Whole batches from the one behind `start` - 1 on: at least one, else at most `max_bytes`; None when
        there is none.

        Raises LogDamaged, when what an earlier process wrote is not what it was, and StorageError.
        """
        log = self._log
        if start > log.written:
            return None
        piece = self._piece
        if (
            piece is not None
            and self._piece_start == start
            and self._piece_most == max_bytes
            and (self._piece_ended or piece.last == log.written)
        ):
            return piece
        found = log.cursors.get(start)
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
        log.remember_place(piece.last + 1, segment, stop)
        if not isinstance(piece.batches, Stretch):
            self._piece, self._piece_start, self._piece_most = piece, start, max_bytes
            self._piece_ended = stop < segment.index.count
        return piece

    def _find(self, start: int) -> tuple[Segment, int] | None:
        for segment in self._log.segments[self._at(start) :]:
            i = segment.index.containing(start)
            if i < segment.count:
                return segment, i
            segment.check_end()
        return None

    def _at(self, start: int) -> int:
        segments = self._log.segments
        at = len(segments) - 1
        while at > 0 and segments[at].base > start:
            at -= 1
        return max(at, 0)

    def _piece_from(self, segment: Segment, i: int, start: int, max_bytes: int) -> tuple[Piece, int]:
        """The piece that begins at record `i`, and the record behind it."""
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
        last = read_record(records, len(records) - RECORD_BYTES)
        length = last.end - first.position
        if not 0 < length <= segment.log_end.length - first.position:
            raise LogDamaged(f"record {i} of {segment.index_end.file.path} points outside of its log")
        batches = self._batches(segment, first.position, length, first.first, last.last)
        return Piece(records, batches, last.last, epoch_at(self._log.epochs, start - 1)), stop

    def _batches(
        self, segment: Segment, position: int, length: int, first: int, last: int
    ) -> "bytes | Stretch":
        file = segment.log_end.file
        if length > READ_BYTES and not file.unreadable:
            file.pin()
            return Stretch(file, position, length, first, last, False)
        try:
            batches: bytes = file.files.disk.read_at(file.files.use(file), length, position)
        except OSError as error:
            raise DiskFailed(f"cannot read {file.path}: {error.strerror}") from error
        if len(batches) != length:
            raise LogDamaged(f"{file.path} is shorter than it was")
        return batches

    def bytes_behind(self, number: int) -> int:
        """About how many bytes of batches are stored behind this number."""
        behind = 0
        segments = self._log.segments
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
