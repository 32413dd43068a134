"""The table of idempotent producers of one log, and its snapshots on the disk."""

import contextlib
import os

from tank_node.disk import read_file, sync_file, write_file
from tank_node.log.producers import Producers, check_snapshot
from tank_node.segment.errors import DiskFailed
from tank_node.segment.index import SCAN_RECORDS
from tank_node.segment.open_files import open_error
from tank_node.segment.record import names_producers
from tank_node.segment.segment import PRODUCERS, Segment, file_name
from tank_node.segment.segments import Segments


class ProducerTable:
    """The idempotent producers of a log; a part of `log.PartitionLog`. Read from the newest snapshot and the
    records behind it when it is first needed. Each segment but the first has a snapshot of the producers
    before it."""

    __slots__ = ("_segments", "loaded")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self.loaded: Producers | None = None
        """The table at the log's end; None: not read from the disk yet."""

    def load(self, written: int) -> Producers:
        """The table at the log's written end. Raises StorageError."""
        if self.loaded is None:
            self.loaded = self.restore(written + 1)
        return self.loaded

    def forget(self) -> None:
        """Forgets the table, after records changed: it is read again when needed."""
        self.loaded = None

    def restore(self, end: int) -> Producers:
        """Reads the table as of number `end` - 1: from the newest whole snapshot, and all records behind it.
        Raises StorageError."""
        producers = Producers()
        segments = self._segments.list
        start = 0
        for base in reversed(self._snapshot_bases()):
            if base > end:
                continue
            try:
                producers = Producers.restore(self._read_snapshot(base))
            except ValueError:  # torn or missing
                # An older one with its records says the same, or all records; else producers may be lost.
                producers.has_forgotten = bool(segments) and segments[0].base > 1
                continue
            start = base
            break
        for at, segment in enumerate(segments):
            if segment.base >= end:
                break
            if at + 1 == len(segments) or segments[at + 1].base > start:
                _replay(producers, segment, segment.index.containing(start), segment.index.containing(end))
        return producers

    # ---- snapshots ----

    def path(self, base: int) -> str:
        """The path of the snapshot at the beginning of segment `base`."""
        return os.path.join(self._segments.folder, file_name(base, PRODUCERS))

    def snapshot_before(self, number: int) -> bytes:
        """A snapshot of the producers before `number`; empty when there are none. Raises StorageError.

        A snapshot in the folder is returned as it is, because restoring 100,000 producers for each push would
        take long.
        """
        content = self._read_snapshot(number)
        try:
            return content if check_snapshot(content) else b""
        except ValueError:
            producers = self.restore(number)
            return b"" if producers.is_empty else producers.snapshot()

    def store_at(self, written: int) -> None:
        """Writes a snapshot at the log's end, if the table was read and has producers. Raises StorageError.

        No fsync is needed: a torn snapshot is ignored, and the one before with the records says the same. A
        whole snapshot that exists already stays: after retention it may be the only source.
        """
        producers = self.loaded
        if producers is None or producers.is_empty:
            return
        with contextlib.suppress(ValueError):
            check_snapshot(self._read_snapshot(written + 1))
            return
        path = self.path(written + 1)
        try:
            write_file(self._segments.disk, path, producers.snapshot(), sync=False)
        except OSError as error:
            raise DiskFailed(f"cannot write {path}: {error.strerror}") from error

    def make_durable(self, base: int) -> None:
        """Makes a segment's snapshot durable, before older segments are removed. It was written without an
        fsync, so a torn one is made anew. Raises OSError and StorageError."""
        path, segments = self.path(base), self._segments
        try:
            check_snapshot(self._read_snapshot(base))
        except ValueError:
            producers = self.restore(base)
            if not producers.is_empty:
                write_file(segments.disk, path, producers.snapshot())
                segments.folder_dirty = True
            return
        sync_file(segments.disk, path)

    def drop_behind(self, last: int) -> None:
        """Removes snapshots that cover batches behind `last`, whose numbers will be given out again. Raises
        StorageError when one can't be removed: it would be believed later.
        """
        for base in self._snapshot_bases():
            if base > last + 1:
                path = self.path(base)
                try:
                    self._segments.disk.remove(path)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    raise DiskFailed(f"cannot delete {path}: {error.strerror}") from error
                self._segments.folder_dirty = True

    def _snapshot_bases(self) -> list[int]:
        """The bases of all snapshots in the folder, rising. Raises StorageError."""
        folder = self._segments.folder
        try:
            names = [entry.name for entry in self._segments.disk.entries(folder)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise open_error(error, folder) from error
        return sorted(int(name[:20]) for name in names if name.endswith(PRODUCERS) and name[:20].isdigit())

    def _read_snapshot(self, base: int) -> bytes:
        """Reads a snapshot, whole or not; empty when it is missing, or unreadable while an older one with its
        records says the same. Raises StorageError when there is no older one."""
        path, segments = self.path(base), self._segments.list
        try:
            return read_file(self._segments.disk, path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            if segments and base > segments[0].base:
                return b""
            raise open_error(error, path) from error


def _replay(producers: Producers, segment: Segment, start: int, stop: int) -> None:
    """Adds the records from `start` to `stop` - 1 to the table. Pieces without any idempotent producer, the
    usual ones, are skipped fast: a segment may have 16 million records, and the event loop waits."""
    index = segment.index
    for begin in range(start, stop, SCAN_RECORDS):
        end = min(begin + SCAN_RECORDS, stop)
        if names_producers(index.raw(begin, end)):
            producers.replay(index.records(begin, end))
        else:
            producers.pass_over(index.record(end - 1).append_ms)
