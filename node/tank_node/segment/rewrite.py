"""Writing a segment anew without some of its batches or messages: for compaction and for mending."""

import contextlib
import os

from tank_node.disk import Buffer, Disk
from tank_node.segment.batch_formats import last_in
from tank_node.segment.record import BREAK, RECORD_BYTES, REWRITTEN, SPARSE, Record, sealed
from tank_node.segment.segment import INDEX, LOG
from tank_node.segment.swap import CLEANED

BUFFER_BYTES = 1024 * 1024
"""Bytes gathered before a write."""


class SegmentWriter:
    """Writes `<base>.log.cleaned` and `<base>.index.cleaned`; `swap.prepare` and `swap.put_in_place` make
    them the segment's files. It has its own descriptors, so a thread may use it. Raises OSError.
    """

    def __init__(self, disk: Disk, folder: str, base: int) -> None:
        self._disk = disk
        stem = os.path.join(folder, f"{base:020d}")
        self._paths = stem + LOG + CLEANED, stem + INDEX + CLEANED
        self._log_fd = disk.open(stem + LOG + CLEANED, create=True)
        try:
            self._index_fd = disk.open(stem + INDEX + CLEANED, create=True)
        except OSError:
            disk.close(self._log_fd)
            raise
        self._disk.truncate(self._log_fd, 0)  # an interrupted attempt may have left bytes
        self._disk.truncate(self._index_fd, 0)
        self._batches: list[bytes] = []
        self._records: list[bytes] = []
        self._gathered = 0
        self._written = 0
        self.end = 0
        """Bytes of the batches added so far."""
        self.count = 0
        self._before: tuple[Record, bytes] | None = None
        """The batch that was added last."""

    def add(self, batch: Buffer, record: Record) -> None:
        """Adds a batch. Its record gets the new position, length, flags and checksum, and BREAK where the
        batch is dense and its first number is not the next one after the batch before.
        """
        flags = (record.flags & ~BREAK) | REWRITTEN
        # Readers number the messages of a dense batch by counting from the batch before.
        if self._before is not None and not flags & SPARSE and record.first != last_in(*self._before) + 1:
            flags |= BREAK
        content = bytes(batch)
        self._before = record, content
        record = record._replace(position=self.end, length=len(content), flags=flags)
        self._batches.append(content)
        self._records.append(sealed(content, record).pack())
        self.end += len(content)
        self.count += 1
        self._gathered += len(content) + RECORD_BYTES
        if self._gathered >= BUFFER_BYTES:
            self._write()

    def _write(self) -> None:
        batches = b"".join(self._batches)
        self._write_all(self._log_fd, batches, self.end - len(batches))
        records = b"".join(self._records)
        self._write_all(self._index_fd, records, self.count * RECORD_BYTES - len(records))
        self._batches, self._records, self._gathered = [], [], 0

    def _write_all(self, fd: int, content: bytes, position: int) -> None:
        done = 0
        while done < len(content):
            done += self._disk.write_at(fd, [memoryview(content)[done : done + 64 * 1024]], position + done)

    def finish(self) -> None:
        """Writes the rest, syncs and closes the `.cleaned` files, which are complete then."""
        self._write()
        for fd in (self._log_fd, self._index_fd):
            self._disk.sync(fd)
        self.close()

    def discard(self) -> None:
        """Closes and removes the unfinished files, which would only take space."""
        self.close()
        for path in self._paths:
            with contextlib.suppress(OSError):
                self._disk.remove(path)

    def close(self) -> None:
        """Closes the files; a second call does nothing."""
        for fd in (self._log_fd, self._index_fd):
            if fd >= 0:
                self._disk.close(fd)
        self._log_fd = self._index_fd = -1
