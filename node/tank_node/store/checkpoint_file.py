"""The files `checkpoint` and `checkpoint.previous` of a data folder: read at the start, replaced at
intervals.

A start may read either file, so neither may promise more of a log than the disk holds.
"""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from tank_node.disk import Disk, read_file, replace_file
from tank_node.log.log import PartitionLog
from tank_node.log.recovery import checkpoint
from tank_node.log.recovery.checkpoint import Checkpoint, CheckpointEntry
from tank_node.segment.errors import StorageError
from tank_node.store.claims import entry_of
from tank_node.store.flusher import Flusher

logger = logging.getLogger(__name__)

_NAME = "checkpoint"
_PREVIOUS = "checkpoint.previous"


def _as_it_is() -> None:
    """Leaves the entries unchanged."""


class CheckpointFile:
    """The two files, and the newest entries of each partition. A part of `DataFolder`."""

    def __init__(self, disk: Disk, folder: str, logs: Mapping[tuple[int, int], PartitionLog]) -> None:
        """logs: the open logs by (topic id, partition), shared with the data folder."""
        self.entries: dict[tuple[int, int], CheckpointEntry] = {}
        """The entries of all partitions, also of those that this process never opened."""
        self.clean = False
        """Whether the file that was read was written at an orderly stop."""
        self.is_lost = False
        """Whether neither file could be read, so that the ends and the damage of the logs are unknown."""
        self.was_used = False
        """Whether the folder was used before: a file had entries, was of an orderly stop, or is
        unreadable."""
        self._disk = disk
        self._folder = folder
        self._logs = logs
        self._changed = False
        """Whether entries have changed other than by an open log's `changed`."""
        self._next: list[Callable[[bool], None]] | None = None
        """While a thread is writing: the calls to make when a later content is written. None: none is
        writing."""
        self._serial = 0
        """The serial number of the newest content that was encoded."""
        self._written = (0, 0)
        """The serial numbers of the contents in the previous and in the newest file."""
        self._damaged_since: dict[tuple[int, int], int] = {}
        """By partition that is damaged now: the serial number of the first content that said so."""
        self._in_doubt = True
        """Whether a file may promise more than `entries`: an entry was lowered, a write failed, or an earlier
        process may have ended during a write."""
        self._contents: dict[int, dict[tuple[int, int], CheckpointEntry]] = {}
        """The entries of the contents that may be in a file, by serial number."""
        self._lock = threading.Lock()
        """Guards the files and `_written`."""

    def read(self) -> bool:
        """Reads the newest file that can be read. Returns whether it is `checkpoint`, the one written
        last."""
        for name in (_NAME, _PREVIOUS):
            path = os.path.join(self._folder, name)
            try:
                found = checkpoint.decode(read_file(self._disk, path))
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                logger.error("%s cannot be used (%s): recovery checks more of the logs instead", path, error)
                self.was_used = True
                continue
            self._take_over(found)
            return name == _NAME
        self._take_over(Checkpoint(False, {}))
        self.is_lost = True
        return False

    def _take_over(self, found: Checkpoint) -> None:
        self.clean, self.entries = found.clean, found.entries
        self.was_used = self.was_used or found.clean or bool(found.entries)

    def forget(self, key: tuple[int, int]) -> None:
        """Removes the entry of a partition that is no longer here."""
        self.entries.pop(key, None)
        self._damaged_since.pop(key, None)
        for held in self._contents.values():
            held.pop(key, None)  # the partition may come back with another log
        self._changed = self._in_doubt = True

    @property
    def is_due(self) -> bool:
        """Whether anything changed since the last write."""
        return self._changed or any(log.segments.changed for log in self._logs.values())

    def _content(self, clean: bool, adapt: Callable[[], None] = _as_it_is) -> bytes:
        self._serial += 1
        for key, log in self._logs.items():
            known = self.entries.get(key)
            if known is None or log.segments.changed:
                entry = self.entries[key] = entry_of(log, known)
                log.segments.changed = False
                if known is not None and entry.recovery_point < known.recovery_point:
                    self._in_doubt = True
                if entry.damaged:
                    self._damaged_since.setdefault(key, self._serial)
                else:
                    self._damaged_since.pop(key, None)
        adapt()
        self._contents = {of: held for of, held in self._contents.items() if of >= self._written[0]}
        self._contents[self._serial] = dict(self.entries)
        packed = [entry.pack() for entry in self.entries.values()]
        self._changed = False
        return checkpoint.encode(clean, packed)

    def write(self, *, clean: bool = False, adapt: Callable[[], None] = _as_it_is) -> None:
        """Replaces the file before it returns. adapt: changes the entries before they are written. Raises
        StorageError, after which the old file is still there."""
        content = self._content(clean, adapt)
        try:
            self._replace(content, self._serial)
        except OSError as error:
            self._changed = self._in_doubt = True
            raise StorageError(f"cannot write the checkpoint of {self._folder}: {error.strerror}") from error

    def write_with(self, flusher: Flusher, done: Callable[[bool], None] | None = None) -> None:
        """Replaces the file in a thread, if anything changed and none is being written. Logs errors.

        done: called on the loop, perhaps at once, when the file says what is true now, or with False when it
        can't be written. A flusher that is closed writes nothing: the stop writes the file itself.
        """
        if self._next is not None:
            if done is not None:
                self._next.append(done)
            return
        if not self.is_due:
            if done is not None:
                done(True)
            return
        if flusher.closed:
            if done is not None:
                done(False)
            return
        content = self._content(False)
        failed: list[OSError] = []
        serial = self._serial
        following: list[Callable[[bool], None]] = []
        self._next = following

        def write() -> None:
            try:
                self._replace(content, serial)
            except OSError as error:
                failed.append(error)

        def written() -> None:
            self._next = None
            if failed:
                self._changed = self._in_doubt = True
                logger.error("cannot write the checkpoint of %s: %s", self._folder, failed[0].strerror)
            if done is not None:
                done(not failed)
            for each in following:
                self.write_with(flusher, each)

        flusher.run(write, written)

    def lower(self, log: PartitionLog, last: int) -> None:
        """Before a log is truncated to `last`: makes sure that neither file promises more. Raises
        StorageError.

        After the loss of a leader many logs are truncated within moments. So one call lowers the entries of
        all logs to their high-water marks, until the next checkpoint.
        """
        entry = self.entries.get((log.topic_id, log.partition))
        if not self._in_doubt and (entry is None or entry.recovery_point <= last):
            return
        self._write_twice(log, self._lower_to_marks)

    def _lower_to_marks(self) -> None:
        for key, log in self._logs.items():
            entry = self.entries[key]
            if entry.recovery_point > log.high_water_mark and not entry.damaged:
                self.entries[key] = replace(entry, recovery_point=log.high_water_mark)
                log.segments.changed = True  # the next checkpoint raises the entry again

    def promise(self, log: PartitionLog, through: int) -> None:
        """Before a compaction: makes sure that both files promise the log up to `through`, which is at or
        below its high-water mark. Raises StorageError."""
        key = (log.topic_id, log.partition)
        for serial in self._written:
            entry = self._contents.get(serial, {}).get(key)
            # Compared by the mark, because `lower` may have lowered the recovery point to it.
            if entry is None or entry.damaged or entry.high_water_mark < through:
                self._write_twice(log)
                return

    def say_damaged(self, log: PartitionLog) -> None:
        """Before a damaged log is dropped or mended: makes sure that both files call it damaged, for a start
        in the middle of that. Raises StorageError."""
        if (log.topic_id, log.partition) not in self._logs:
            return  # the log is being opened: its entry from before stands until then
        since = self._damaged_since.get((log.topic_id, log.partition))
        if since is None or min(self._written) < since:
            self._write_twice(log)

    def _write_twice(self, log: PartitionLog, adapt: Callable[[], None] = _as_it_is) -> None:
        """Writes both files with this log's present entry. Raises StorageError."""
        self._in_doubt = True
        for _ in range(2):
            log.segments.changed = True
            self.write(adapt=adapt)
        self._in_doubt = False

    def _replace(self, content: bytes, serial: int) -> None:
        """Writes a content, in any thread, unless a newer one is written already: an older one may promise
        what was truncated since."""
        path = os.path.join(self._folder, _NAME)
        with self._lock:
            if serial > self._written[1]:
                previous = os.path.join(self._folder, _PREVIOUS)
                replace_file(self._disk, path, content, keep_previous=previous)
                self._written = self._written[1], serial
