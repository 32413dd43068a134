"""Writing a segment anew without some of its batches or messages: for compaction and for mending."""

import contextlib
import os

from tank_node.disk import Buffer, Disk
from tank_node.log.record import BREAK, RECORD_BYTES, REWRITTEN, SPARSE, Record, last_in, sealed
from tank_node.log.segment import INDEX, LOG
from tank_node.log.swap import CLEANED

BUFFER_BYTES = 1024 * 1024
"""Gathered before it is written."""


class SegmentWriter:
    """Writes `<base>.log.cleaned` and `<base>.index.cleaned`; `swap.commit` puts them in place. Raises
    OSError.

    Used in a thread as well: it opens its own descriptors.
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
        self._disk.truncate(self._log_fd, 0)  # what an interrupted attempt left
        self._disk.truncate(self._index_fd, 0)
        self._batches: list[bytes] = []
        self._records: list[bytes] = []
        self._gathered = 0
        self._written = 0
        self.end = 0
        """Bytes of batches added so far."""
        self.count = 0
        self._next: int | None = None
        """What readers, who count on, take the next message of a dense batch for; None: it is the first."""

    def add(self, batch: Buffer, record: Record) -> None:
        """Adds a batch; its record gets the new place, length, flags and checksum.

        A dense batch that does not follow on the last message of the one before it is marked: a chunk must
        begin there.
        """
        flags = (record.flags & ~BREAK) | REWRITTEN
        if self._next is not None and record.first != self._next and not flags & SPARSE:
            flags |= BREAK
        self._next = last_in(record, batch) + 1
        content = bytes(batch)
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
        """Writes and syncs what is left; the `.cleaned` files are complete afterwards."""
        self._write()
        for fd in (self._log_fd, self._index_fd):
            self._disk.sync(fd)
        self.close()

    def discard(self) -> None:
        """Closes and removes the files, where they still are: half a segment would only take space."""
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
