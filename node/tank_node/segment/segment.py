"""One segment of a log: `<base>.log` with the batches, `<base>.index` with their records."""

import contextlib
import errno
import os
from collections.abc import Sequence
from typing import Final

from tank_node.disk import Buffer
from tank_node.segment.errors import DiskFailed, DiskFull, LogDamaged, StorageError
from tank_node.segment.index import Index
from tank_node.segment.open_files import OpenFile, OpenFiles
from tank_node.segment.record import RECORD_BYTES, REWRITTEN

LOG: Final = ".log"
INDEX: Final = ".index"
PRODUCERS: Final = ".producers"

MAX_WRITE_BYTES: Final = 64 * 1024
"""The most bytes of one write call; calls end at multiples of it in the file. Larger calls allocate cold
pages on virtual machines, and took two to four times as long."""
MAX_BUFFERS: Final = 1024
"""The most buffers of one write call: IOV_MAX of Linux."""
MAX_AHEAD_BYTES: Final = 16 * 1024 * 1024
"""The largest step by which space is allocated ahead of the end; steps grow with the file."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def file_name(base: int, suffix: str) -> str:
    """The name of a segment's file: the base in 20 digits, and the suffix."""
    return f"{base:020d}{suffix}"


class FileRange:
    """Whole batches back to back in one file, to be sent: the bytes from `position` to `position + length`.
    While it is sent, the rest of them."""

    __slots__ = ("file", "first", "last", "length", "next_record", "position", "sparse_first")

    def __init__(
        self,
        file: OpenFile,
        position: int,
        length: int,
        first: int,
        last: int,
        sparse_first: bool,
        next_record: int = 0,
    ) -> None:
        self.file = file
        """The file, pinned until `file.release()`, which must be called exactly once."""
        self.position = position
        self.length = length
        self.first = first
        """The first number of the first batch; it may be lower than the number asked for."""
        self.last = last
        """The last number of the last batch; the next read begins at last + 1."""
        self.sparse_first = sparse_first
        """Whether the first batch carries its own numbers (flag 0xfe of a consume answer)."""
        self.next_record = next_record
        """The record behind the last batch's in its segment; 0: unknown."""

    def skip(self, count: int) -> None:
        """Notes that `count` bytes were sent."""
        self.position += count
        self.length -= count


class Appender:
    """Appends to one file, in writes of a size that is fast, and allocates space ahead."""

    __slots__ = ("_allocated", "file", "length")

    def __init__(self, file: OpenFile, length: int) -> None:
        self.file = file
        self.length = length
        """The position of the next byte. Bytes of the file behind it don't count."""
        self._allocated = 0

    def append(self, buffers: Sequence[Buffer], total: int) -> None:
        """Writes all buffers, `total` bytes, at the end. Raises OSError or StorageError with `length`
        unchanged; some bytes may be in the file: call `cut_back`."""
        file = self.file
        if file.error is not None:
            raise file.error
        fd = file.files.use(file)
        disk = file.files.disk
        position = self.length
        if position + total > self._allocated and position + total > MAX_WRITE_BYTES:
            self._allocate(fd, position, total)
        file.dirty = True
        file.writes += 1
        if (
            total <= MAX_WRITE_BYTES - position % MAX_WRITE_BYTES
            and len(buffers) <= MAX_BUFFERS
            and disk.write_at(fd, buffers, position) == total
        ):
            self.length = position + total
            return
        for piece in pieces(buffers, position):
            part = sum(map(len, piece))
            rest: Sequence[Buffer] = piece
            while (written := disk.write_at(fd, rest, position)) != part:
                # A short write: the disk is nearly full, and the next write reports it.
                if written == 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                rest = [memoryview(b"".join(rest))[written:]]
                part -= written
                position += written
            position += part
        self.length = position

    def _allocate(self, fd: int, position: int, total: int) -> None:
        start = max(self._allocated, position)
        step = max(min(max(position, MAX_WRITE_BYTES), MAX_AHEAD_BYTES), total)
        # A failure is ignored: if it matters, the write fails too.
        self.file.files.disk.allocate(fd, start, step)
        self._allocated = start + step

    def give_back(self) -> None:
        """Frees space that was allocated ahead; ignores errors."""
        if self._allocated:
            file = self.file
            with contextlib.suppress(OSError, StorageError):
                file.files.disk.truncate(file.files.use(file), self.length)
            self._allocated = 0

    def cut_back(self, length: int) -> None:
        """Cuts the file to `length`. Raises OSError."""
        file = self.file
        file.dirty = True
        file.writes += 1
        file.files.disk.truncate(file.files.use(file), length)
        self.length = length
        self._allocated = 0


def pieces(buffers: Sequence[Buffer], position: int) -> list[list[Buffer]]:
    """Cuts and groups buffers into writes of at most MAX_WRITE_BYTES that end at multiples of it. Pure."""
    grouped: list[list[Buffer]] = []
    current: list[Buffer] = []
    room = MAX_WRITE_BYTES - position % MAX_WRITE_BYTES
    for buffer in buffers:
        view = memoryview(buffer)
        while len(view) >= room:
            current.append(view[:room])
            grouped.append(current)
            view = view[room:]
            current, room = [], MAX_WRITE_BYTES
        if view:
            current.append(view)
            room -= len(view)
            if len(current) == MAX_BUFFERS:
                grouped.append(current)
                current = []
    if current:
        grouped.append(current)
    return grouped


class Segment:
    """A segment's two files. `base`, their name, is the log's end before the segment + 1; the first batch may
    begin at a higher number, when a client left numbers out."""

    __slots__ = (
        "_newest",
        "_oldest_ms",
        "base",
        "folder",
        "index",
        "index_end",
        "inherited",
        "log_end",
        "synced",
        "trusted",
    )

    def __init__(self, files: OpenFiles, folder: str, base: int, log_bytes: int, records: int) -> None:
        self.folder = folder
        self.base = base
        self.log_end = Appender(files.file(os.path.join(folder, file_name(base, LOG))), log_bytes)
        index_file = files.file(os.path.join(folder, file_name(base, INDEX)))
        self.index_end = Appender(index_file, records * RECORD_BYTES)
        self.index = Index(index_file, records, base)
        self.synced = True
        """Whether nothing was written since the last fsync of both files."""
        self.inherited = records
        """Number of batches that an earlier process wrote: each is checked before its first read."""
        self.trusted = (0, 0)
        """The range of inherited batches that are checked: the first one, and the one behind the last."""
        self._oldest_ms = 0
        """The append time of the first batch; 0: not read yet."""
        self._newest = (0, 0)
        """The newest append time as last read: (number of batches then, the time)."""

    @property
    def count(self) -> int:
        """Number of batches."""
        return self.index.count

    @property
    def size_bytes(self) -> int:
        return self.log_end.length

    @property
    def first_append_ms(self) -> int:
        """When the oldest batch was appended; 0 when there is none. Cached, because every tick asks."""
        if not self.index.count:
            return 0
        if not self._oldest_ms:
            self._oldest_ms = self.index.record(0).append_ms
        return self._oldest_ms

    @property
    def last_append_ms(self) -> int:
        """When the newest batch was appended; 0 when there is none. Cached, because retention asks often."""
        if self._newest[0] != self.index.count:
            self._newest = self.index.count, self.index.record(self.index.count - 1).append_ms
        return self._newest[1]

    def path(self, suffix: str) -> str:
        return os.path.join(self.folder, file_name(self.base, suffix))

    @property
    def first(self) -> int:
        """The first number of the first batch; `base` when there is none."""
        return self.index.record(0).first if self.index.count else self.base

    @property
    def last(self) -> int:
        """The last number of the last batch; `base` - 1 when there is none."""
        return self.index.record(self.index.count - 1).last if self.index.count else self.base - 1

    @property
    def is_rewritten(self) -> bool:
        """Whether it was compacted or mended, so that numbers may be missing before the next segment's
        base."""
        return bool(self.index.count and self.index.record(self.index.count - 1).flags & REWRITTEN)

    def check_end(self) -> None:
        """Raises LogDamaged when the log file has bytes behind the last record. Call it before a read goes on
        in the next segment: an index that lost its end would look like missing numbers."""
        end = self.index.record(self.index.count - 1).end if self.index.count else 0
        if end != self.log_end.length:
            raise LogDamaged(f"{self.path(LOG)} has bytes behind number {self.last} without a record")

    def files(self) -> tuple[OpenFile, OpenFile]:
        return self.log_end.file, self.index_end.file

    def create(self) -> None:
        """Makes the two files, empty. Raises StorageError. The index comes first: names reach the disk in
        order, so a crash never leaves a log without an index.
        """
        for file in (self.index_end.file, self.log_end.file):
            fd = file.files.use(file, create=True)
            file.dirty = True
            file.writes += 1
            try:
                file.files.disk.truncate(fd, 0)
            except OSError as error:
                raise storage_error(error, file.path) from error

    def append(self, batches: Sequence[Buffer], total: int, records: bytes) -> None:
        """Writes batches to the log, then their records to the index: a batch exists when its record does.
        Raises StorageError after cutting both files back, and DiskFailed when that fails too.
        """
        log_bytes, index_bytes = self.log_end.length, self.index_end.length
        self.synced = False
        try:
            self.log_end.append(batches, total)
            self.index_end.append((records,), len(records))
        except (OSError, StorageError) as error:
            self._undo(index_bytes, log_bytes)
            raise storage_error(error, self.log_end.file.path) from error
        self.index.append(records)

    def _undo(self, index_bytes: int, log_bytes: int) -> None:
        try:
            self.index_end.cut_back(index_bytes)
            self.log_end.cut_back(log_bytes)
        except (OSError, StorageError) as error:
            raise DiskFailed(f"cannot undo a failed write to {self.log_end.file.path}: {error}") from error

    def cut(self, count: int) -> None:
        """Keeps the first `count` batches: cuts and syncs the index, then cuts the log. Raises
        StorageError."""
        log_bytes = self.index.record(count).position if count < self.index.count else self.log_end.length
        self._oldest_ms = 0
        self.synced = False
        self.inherited = min(self.inherited, count)
        self.trusted = (min(self.trusted[0], count), min(self.trusted[1], count))
        try:
            self.index_end.cut_back(count * RECORD_BYTES)
            self.index.cut(count)
            disk = self.index_end.file.files.disk
            disk.sync(self.index_end.file.files.use(self.index_end.file))
            self.log_end.cut_back(log_bytes)
        except OSError as error:
            raise DiskFailed(f"cannot cut {self.log_end.file.path}: {error.strerror}") from error

    def seal(self) -> None:
        """Frees space allocated ahead, and records in memory, when no more is appended."""
        self.log_end.give_back()
        self.index_end.give_back()
        self.index.drop_memory()


def storage_error(error: Exception, path: str) -> StorageError:
    """The StorageError for an error of a write to this file."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, OSError) and error.errno in _FULL:
        return DiskFull(f"no space left for {path}; free some, then writes go on by themselves")
    return DiskFailed(f"cannot write {path}: {error}")
