"""`checkpoint` and `checkpoint.previous` of a data folder: read at the start, replaced while it is used."""

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from tank_node.disk import Disk, read_file, replace_file
from tank_node.log import checkpoint
from tank_node.log.checkpoint import Checkpoint, Entry
from tank_node.log.errors import StorageError
from tank_node.log.log import PartitionLog
from tank_node.log.replica import ReplicaLog
from tank_node.store.claims import entry_of
from tank_node.store.flusher import Flusher

logger = logging.getLogger(__name__)

_NAME = "checkpoint"
_PREVIOUS = "checkpoint.previous"


def _as_it_is() -> None:
    """The entries stay as the logs tell them."""


class CheckpointFile:
    """The two files, and what the newer one says of each partition. The data folder's."""

    def __init__(self, disk: Disk, folder: str, logs: Mapping[tuple[int, int], PartitionLog]) -> None:
        """logs: those that are open, by (topic id, partition); the folder goes on changing them."""
        self.entries: dict[tuple[int, int], Entry] = {}
        """Of all partitions, also of those that this process never opened."""
        self.clean = False
        """What was read had been written at an orderly stop."""
        self.is_lost = False
        """Neither of the two could be read: what was damaged, or how far a log went, nobody knows."""
        self.was_used = False
        """What was found is more than a first start's: partitions, an orderly stop, or a file that can't be
        read."""
        self._disk = disk
        self._folder = folder
        self._logs = logs
        self._changed = False
        """Something that no open log tells has changed."""
        self._writing = False
        """A thread is writing."""
        self._serial = 0
        """Counts the contents that were made."""
        self._written = (0, 0)
        """Those of the previous file and of the newest."""
        self._damaged_since: dict[tuple[int, int], int] = {}
        """Of each partition that the newest content calls damaged: the first content that did."""
        self._in_doubt = True
        """One of the two files may promise more than `entries`: an entry went back, a write failed, or an
        earlier process ended in one."""
        self._contents: dict[int, dict[tuple[int, int], Entry]] = {}
        """The entries of the contents that may be in a file, by serial."""
        self._lock = threading.Lock()
        """Holds the files and `_written` together."""

    def read(self) -> bool:
        """Takes over the newest file that can be read; whether it is the last one that was written."""
        for name in (_NAME, _PREVIOUS):
            path = os.path.join(self._folder, name)
            try:
                found = checkpoint.decode(read_file(self._disk, path))
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                logger.error("%s cannot be used (%s): recovery reads more instead", path, error)
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
        """This partition is here no more."""
        self.entries.pop(key, None)
        self._damaged_since.pop(key, None)
        for held in self._contents.values():
            held.pop(key, None)  # it may come back as another one
        self._changed = self._in_doubt = True

    @property
    def is_due(self) -> bool:
        """Whether anything changed since it was written."""
        return self._changed or any(log.changed for log in self._logs.values())

    def _content(self, clean: bool, adapt: Callable[[], None] = _as_it_is) -> bytes:
        self._serial += 1
        for key, log in self._logs.items():
            known = self.entries.get(key)
            if known is None or log.changed:
                entry = self.entries[key] = entry_of(log, known)
                log.changed = False
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
        """Replaces the file, here and now. Raises StorageError; the old one is then still there. adapt:
        changes the entries before they are written."""
        content = self._content(clean, adapt)
        try:
            self._replace(content, self._serial)
        except OSError as error:
            self._changed = self._in_doubt = True
            raise StorageError(f"cannot write the checkpoint of {self._folder}: {error.strerror}") from error

    def write_with(self, flusher: Flusher) -> None:
        """The same in a thread, if anything changed and no other is being written. Errors are logged."""
        if self._writing or not self.is_due:
            return
        content = self._content(False)
        failed: list[OSError] = []
        serial = self._serial
        self._writing = True

        def write() -> None:
            try:
                self._replace(content, serial)
            except OSError as error:
                failed.append(error)

        def done() -> None:
            self._writing = False
            if failed:
                self._changed = self._in_doubt = True
                logger.error("cannot write the checkpoint of %s: %s", self._folder, failed[0].strerror)

        flusher.run(write, done)

    def lower(self, log: ReplicaLog, last: int) -> None:
        """Before a truncation: neither of the two may promise what is about to go. Raises StorageError.

        When a leader was lost many logs are cut in a moment. So all that may be are lowered together: for a
        while none is promised to have more than its high-water mark.
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
                log.changed = True  # the next one says more again

    def promise(self, log: ReplicaLog, through: int) -> None:
        """Before something that only those may find who know that the log was synced up to this number, which
        is at or below its high-water mark. Raises StorageError."""
        key = (log.topic_id, log.partition)
        for serial in self._written:
            entry = self._contents.get(serial, {}).get(key)
            # By the mark: for a while they may promise no more than that, see `lower`.
            if entry is None or entry.damaged or entry.high_water_mark < through:
                self._write_twice(log)
                return

    def say_damaged(self, log: ReplicaLog) -> None:
        """Before a damaged log is dropped, or mended: a start in the middle must find it damaged. Raises
        StorageError."""
        if (log.topic_id, log.partition) not in self._logs:
            return  # it is being opened: what is said of it stands until then
        since = self._damaged_since.get((log.topic_id, log.partition))
        if since is None or min(self._written) < since:
            self._write_twice(log)

    def _write_twice(self, log: ReplicaLog, adapt: Callable[[], None] = _as_it_is) -> None:
        """Before a change of this log that a start in the middle has to know of, whichever of the two it
        reads. Raises StorageError."""
        self._in_doubt = True
        for _ in range(2):
            log.changed = True
            self.write(adapt=adapt)
        self._in_doubt = False

    def _replace(self, content: bytes, serial: int) -> None:
        """In any thread. An older content never replaces a newer one: it may promise what was truncated
        since."""
        path = os.path.join(self._folder, _NAME)
        with self._lock:
            if serial > self._written[1]:
                previous = os.path.join(self._folder, _PREVIOUS)
                replace_file(self._disk, path, content, keep_previous=previous)
                self._written = self._written[1], serial
