"""The data folder of a node: its owner, its checkpoint, its partitions' logs, its open files.

```
<data>/meta.json                      format version, cluster id, broker id, disk UUID
<data>/meta.spare                     as large: for a registration on a full disk
<data>/lock                           held by the process that uses the folder
<data>/checkpoint[.previous]          see `checkpoint_file`
<data>/topics/<topic id>/<partition>/ the segments of one log
<data>/topics/.stray-<topic id>-<n>   the folder of a topic that the cluster does not know, set aside
```
"""

import contextlib
import logging
import os
import random
import uuid
from collections.abc import Callable, Collection

from tank_node.clock import Clock
from tank_node.disk import Disk
from tank_node.log.flush_work import TOGETHER_FROM, run_together
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.recovery import recovery
from tank_node.log.settings import UNKNOWN_FACTOR, LogSettings
from tank_node.segment.errors import DataFolderError, DataFolderInUse, StorageError
from tank_node.segment.open_files import OpenFiles
from tank_node.segment.record import FORMAT_TANK
from tank_node.store.checkpoint_file import CheckpointFile
from tank_node.store.claims import Claims, Recovered
from tank_node.store.flusher import Flusher
from tank_node.store.meta import KAFKA_LAYOUT, Meta, MetaFile, machine_boot_id, open_meta
from tank_node.store.removal import Removal

logger = logging.getLogger(__name__)

OPEN_FILES = 2048
"""The default bound on open files of logs: enough for 1,024 partitions in use at once."""

_STRAY = ".stray-"
_UNKNOWN_BOOT = "unknown"
"""A boot id in `meta.json` that equals no machine's: the folder is in use, and the next start can't trust the
ends of its logs."""


class DataFolder:
    """All logs of a node. Only the event loop's thread uses it."""

    def __init__(
        self, path: str, disk: Disk, clock: Clock, meta_file: MetaFile, lock: int, open_files: int
    ) -> None:
        self.path = path
        self.disk = disk
        self.clock = clock
        self.files = OpenFiles(disk, open_files)
        self.logs: dict[tuple[int, int], PartitionLog] = {}
        """The open logs by (topic id, partition)."""
        self.recovered = Recovered()
        self.files.anchor_fd = lock
        self._meta_file = meta_file
        self._lock = lock
        self._checkpoint = CheckpointFile(disk, path, self.logs)
        self.removal = Removal(disk, os.path.join(path, "topics"))
        self._random = random.Random(meta_file.meta.disk_uuid)
        self._unreadable: set[tuple[int, int]] = set()
        """Logs that `open_found` could not open."""
        self._found_boot_id = ""
        """The boot id in `meta.json` when this process took the folder."""
        self._boot_id = ""
        """The boot id of the machine now."""
        self._is_unmarked = False
        """Whether `mark_registered` could not write the file."""

    @classmethod
    def open(
        cls,
        path: str,
        disk: Disk,
        clock: Clock,
        *,
        cluster_id: str = "",
        broker_id: int | None = None,
        open_files: int = OPEN_FILES,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
        boot_id: Callable[[], str] = machine_boot_id,
    ) -> "DataFolder":
        """Takes the folder for this process, and makes it when it does not exist.

        cluster_id, broker_id: the identity that the folder must have, or that a new folder gets; empty, None:
        any. Raises DataFolderInUse, NewerFormat or DataFolderError, each with a sentence for the user.
        """
        path = os.path.abspath(path)
        try:
            _make_durable_folder(disk, os.path.join(path, "topics"))
            lock = disk.lock(os.path.join(path, "lock"))
        except OSError as error:
            raise DataFolderError.of_system(path, error) from error
        if lock is None:
            raise DataFolderInUse(
                f"another process uses the data folder {path}: stop it, or choose another folder with --data"
            )
        try:
            meta_file = open_meta(disk, path, cluster_id, broker_id, new_uuid)
            folder = cls(path, disk, clock, meta_file, lock, open_files)
            folder._take_over(boot_id())
        except OSError as error:
            disk.close(lock)
            raise DataFolderError.of_system(path, error) from error
        except BaseException:
            disk.close(lock)
            raise
        return folder

    @property
    def meta(self) -> Meta:
        return self._meta_file.meta

    @property
    def was_used(self) -> bool:
        """Whether the folder ever held logs, or was stopped in order. False for a new folder, and for one
        whose first start was interrupted."""
        return self._checkpoint.was_used or bool(self.disk.entries(os.path.join(self.path, "topics")))

    def _take_over(self, boot_id: str) -> None:
        """Reads the checkpoint, and marks the folder as in use in `meta.json`."""
        newest = self._checkpoint.read()
        if self._checkpoint.is_lost and not self.disk.entries(os.path.join(self.path, "topics")):
            self._begin_checkpoint()
        held = self._found_boot_id = self.meta.boot_id
        clean = self._checkpoint.clean and newest and not held
        self.recovered.clean = clean
        self.recovered.tail_sure = clean or (held != "" and held == boot_id)
        self._boot_id = boot_id or _UNKNOWN_BOOT
        try:
            # While the tail is unsure this boot id is not written: a start that ends before its registration
            # would make the tail look sure to the next one. `mark_registered` writes it.
            self._meta_file.store(boot_id=self._boot_id if self.recovered.tail_sure else _UNKNOWN_BOOT)
        except OSError as error:
            # On a full disk reading must be possible. The file still says that the last stop was not orderly,
            # and an older boot id only makes the next start trust less.
            if not held:
                raise
            logger.error("cannot write %s: %s", self._meta_file.path, error.strerror)

    def _begin_checkpoint(self) -> None:
        """Writes the first checkpoint of an empty folder, so that a later start notices when it is lost."""
        self._checkpoint.is_lost = False
        try:
            self._checkpoint.write()
        except StorageError as error:  # a full disk: reading must be possible
            logger.error("%s", error)

    def mark_registered(self, broker_epoch: int) -> bool:
        """Writes the boot id and the broker epoch to `meta.json`, after the registration with this folder's
        claims was committed. Call it before the process takes part in the cluster; False: the file can't be
        written now. A process that took part all the same could acknowledge messages with a folder that
        claims less at the next start, and the controllers would let a replica without them lead."""
        boot_id = self.meta.boot_id if self.recovered.tail_sure else self._boot_id
        if (self.meta.boot_id, self.meta.broker_epoch) == (boot_id, broker_epoch):
            return True
        try:
            self._meta_file.store(boot_id=boot_id, broker_epoch=broker_epoch)
        except OSError as error:
            if not self._is_unmarked:  # it is tried again every second
                sentence = "cannot write %s: %s; the broker takes no part in the cluster until it can"
                logger.error(sentence, self._meta_file.path, error.strerror)
            self._is_unmarked = True
            return False
        self._is_unmarked = False
        return True

    # ---- logs ----

    def folder_of(self, topic_id: int, partition: int) -> str:
        return os.path.join(self.path, "topics", str(topic_id), str(partition))

    def open_log(self, topic_id: int, partition: int, settings: LogSettings) -> PartitionLog:
        """Returns a partition's log: the open one, or the one on the disk, or a new one.

        After an unclean stop this checks the batches behind the recovery point, cuts what is incomplete, and
        makes the rest durable. Damage does not raise, but shows in the log's `state`. Raises StorageError
        when the log can't be read.
        """
        key = (topic_id, partition)
        log = self.logs.get(key)
        if log is not None:
            log.apply_settings(settings)
            return log
        if settings.format != FORMAT_TANK:
            self._take_layout(KAFKA_LAYOUT)
        log = PartitionLog(self.files, self.folder_of(topic_id, partition), topic_id, partition, settings)
        log.tail.jitter_ms = (
            self._random.randint(0, settings.roll_jitter_ms) if settings.roll_jitter_ms else 0
        )
        log.before_truncation = self._checkpoint.lower
        log.before_refill = self._checkpoint.say_damaged
        log.discard = lambda: self.removal.remove(log.folder, f"{topic_id}-{partition}")
        log.before_compaction = self._checkpoint.promise
        entry = self._checkpoint.entries.get(key)
        try:
            found = recovery.open_files_of(
                log,
                entry,
                self.clock.now_ms(),
                clean=self.recovered.clean,
                sure=self.recovered.tail_sure,
            )
        except Exception as error:
            log.abandon()
            if isinstance(error, StorageError):
                raise
            # An unexpected exception in one log must not keep the others from being opened.
            logger.exception("topic %d partition %d: a bug of ours, please report it", topic_id, partition)
            raise StorageError(f"{log.folder} cannot be read, for a bug of ours: {error!r}") from error
        self.recovered.partitions += 1
        self.recovered.messages_checked += found.messages
        self.recovered.bytes_checked += found.bytes
        self.recovered.bytes_cut += found.cut
        if found.sentence:
            name = f"topic {topic_id} partition {partition}"
            logger.error("%s: %s", name, found.sentence)
            self.recovered.damaged.append(f"{name}: {found.sentence}")
        self.logs[key] = log
        return log

    def _take_layout(self, layout: int) -> None:
        """Says in `meta.json`, before the first log of that layout is there, that older versions can't read
        the folder. Raises StorageError."""
        if self.meta.format >= layout:
            return
        try:
            self._meta_file.store(format=layout)
        except OSError as error:
            raise StorageError(f"cannot write {self._meta_file.path}: {error.strerror}") from error

    def open_found(self) -> None:
        """Opens every log that is on the disk or in the checkpoint, before the view is known, because the
        registration has to name the damaged ones. Mends none. Raises OSError."""
        topics = os.path.join(self.path, "topics")
        keys = set(self._checkpoint.entries)
        for topic in self.disk.entries(topics):
            if topic.is_folder and topic.name.isdigit():
                inner = self.disk.entries(os.path.join(topics, topic.name))
                keys |= {(int(topic.name), int(one.name)) for one in inner if one.name.isdigit()}
        for key in sorted(keys):
            try:
                log = self.open_log(*key, LogSettings(replication_factor=UNKNOWN_FACTOR))
                # Without a checkpoint a log that was cut short, or half refilled, looks whole.
                log.health.refilling = log.health.refilling or self._checkpoint.is_lost
            except StorageError as error:
                logger.error("topic %d partition %d cannot be opened: %s", *key, error)
                self._unreadable.add(key)

    def claims(self) -> Claims:
        """What the broker says of this folder when it registers. Call `open_found` before."""
        impaired = {key for key, log in self.logs.items() if log.is_impaired}
        damaged = tuple(sorted(impaired | self._unreadable))
        return Claims(self.meta.disk_uuid, self.recovered.tail_sure, damaged, self.meta.broker_epoch)

    def partitions_of(self, topic_id: int) -> list[int]:
        """The numbers of the topic's partitions of which there is a folder here, rising."""
        try:
            inner = self.disk.entries(os.path.join(self.path, "topics", str(topic_id)))
        except OSError:  # none, or not readable: what can't be listed stays
            return []
        return sorted(int(entry.name) for entry in inner if entry.name.isdigit())

    def topic_ids(self) -> set[int]:
        """The topics of which there is a folder here. Raises OSError."""
        entries = self.disk.entries(os.path.join(self.path, "topics"))
        return {int(entry.name) for entry in entries if entry.name.isdigit()}

    def delete_topic(self, topic_id: int) -> None:
        """Deletes all data of a topic that the cluster has deleted."""
        keys = {key for key in (*self.logs, *self._checkpoint.entries) if key[0] == topic_id}
        self._delete(keys, os.path.join(self.path, "topics", str(topic_id)), str(topic_id))

    def delete_partition(self, topic_id: int, partition: int) -> bool:
        """Deletes the data of one replica that the cluster has moved to another broker, or removed. False: it
        can't be deleted now."""
        key = (topic_id, partition)
        return self._delete({key}, self.folder_of(*key), f"{topic_id}-{partition}")

    def _delete(self, keys: Collection[tuple[int, int]], path: str, name: str) -> bool:
        for key in keys:
            if (log := self.logs.pop(key, None)) is not None:
                log.abandon()
            self._checkpoint.forget(key)
        try:
            if self.disk.exists(path):
                self.removal.remove(path, name)
        except OSError as error:
            logger.error("cannot delete %s: %s", path, error.strerror)
            return False
        return True

    def set_aside_unknown(self, known: Collection[int]) -> list[str]:
        """Renames the folders of topics that are not `known` to `.stray-…`, and deletes none: only the
        cluster's deletion of a topic does that. Returns the names of all folders set aside, now or
        earlier."""
        for key in [key for key in self.logs if key[0] not in known]:
            self.logs.pop(key).abandon()
        for key in [key for key in self._checkpoint.entries if key[0] not in known]:
            self._checkpoint.forget(key)
        topics = os.path.join(self.path, "topics")
        strays = []
        for entry in self.disk.entries(topics):
            name = entry.name
            if self.removal.goes_on(name):
                continue
            if name.startswith(_STRAY):
                strays.append(name)
            elif entry.is_folder and not (name.isdigit() and int(name) in known):
                aside = next(
                    free
                    for n in range(1, 1_000_000)
                    if not self.disk.exists(os.path.join(topics, free := f"{_STRAY}{name}-{n}"))
                )
                self.disk.rename(os.path.join(topics, name), os.path.join(topics, aside))
                logger.error(
                    "folder %s belongs to no topic of this cluster: set aside as %s, see docs/operations.md",
                    name,
                    aside,
                )
                strays.append(aside)
        return sorted(strays)

    # ---- checkpoint ----

    @property
    def checkpoint_due(self) -> bool:
        """Whether anything changed since the checkpoint was written."""
        return self._checkpoint.is_due

    def write_checkpoint(self, *, clean: bool = False) -> None:
        """Replaces the checkpoint before it returns. Raises StorageError, after which the old one is still
        there."""
        self._checkpoint.write(clean=clean)

    def write_checkpoint_with(self, flusher: Flusher, done: Callable[[bool], None] | None = None) -> None:
        """As `CheckpointFile.write_with`."""
        self._checkpoint.write_with(flusher, done)

    # ---- the end ----

    def abandon(self) -> None:
        """Gives the folder back unchanged, when the process can't start and has opened no log."""
        assert not self.logs
        try:
            self._meta_file.store(boot_id=self._found_boot_id)
        except OSError as error:
            logger.error("cannot write %s: %s", self._meta_file.path, error.strerror)
        self.disk.close(self._lock)

    def close(self) -> None:
        """Stops in order: syncs every log, writes snapshots of the producers and the clean checkpoint,
        unlocks.

        Close the flusher before. If a log's disk fails, the stop is not clean, and the next start recovers
        that log.
        """
        clean = True
        self._sync_all()
        for log in self.logs.values():
            try:
                log.close()
            except StorageError as error:
                clean = False
                logger.error("topic %d partition %d: %s", log.topic_id, log.partition, error)
        try:
            self.write_checkpoint(clean=clean)
            if clean:
                self._meta_file.store(boot_id="")
        except (OSError, StorageError) as error:
            logger.error("the data folder %s was not closed in order: %s", self.path, error)
        self.files.close_all()
        self.disk.close(self._lock)

    def _sync_all(self) -> None:
        """Makes all logs durable, many at a time: one after another, 10,000 logs would take a minute."""
        logs = [log for log in self.logs.values() if log.state is not LogState.CLOSED]
        at_once = max(self.files.limit // 4, TOGETHER_FROM)
        for start in range(0, len(logs), at_once):
            works = []
            for log in logs[start : start + at_once]:
                with contextlib.suppress(StorageError):  # `close` meets the same error and reports it
                    log.tail.write()
                work = log.begin_flush()
                if work is not None:
                    works.append((log, work))
            run_together(self.disk, [work for _, work in works if work.error is None])
            for log, work in works:
                log.end_flush(work)


def _make_durable_folder(disk: Disk, path: str) -> None:
    """Makes a folder and its missing parents, durable against a power failure. Raises OSError."""
    made = []
    while not disk.exists(path):
        made.append(path)
        path = os.path.dirname(path)
    if made:
        disk.make_folders(made[0])
    for folder in reversed(made):
        disk.sync_folder(os.path.dirname(folder))
