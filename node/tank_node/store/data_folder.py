"""The data folder of a node: who owns it, its checkpoint, its partitions' logs, its open files.

```
<data>/meta.json                      format version, cluster id, broker id, disk UUID
<data>/lock                           held by the process that uses the folder
<data>/checkpoint[.previous]          see `checkpoint`
<data>/topics/<topic id>/<partition>/ the segments of one log
<data>/topics/.stray-<topic id>-<n>   folders of topics that the cluster does not know: set aside, never
appended to
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
from tank_node.log import recovery
from tank_node.log.errors import DataFolderError, DataFolderInUse, StorageError
from tank_node.log.flush_work import TOGETHER_FROM, run_together
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.open_files import OpenFiles
from tank_node.log.settings import UNKNOWN_FACTOR, LogSettings
from tank_node.store.checkpoint_file import CheckpointFile
from tank_node.store.claims import Claims, Recovered
from tank_node.store.flusher import Flusher
from tank_node.store.meta import Meta, MetaFile, machine_boot_id, open_meta
from tank_node.store.removal import Removal

logger = logging.getLogger(__name__)

OPEN_FILES = 2048
"""Files of the log that stay open, unless told otherwise: 1,024 partitions in use at once."""

_STRAY = ".stray-"
_UNKNOWN_BOOT = "unknown"
"""In `meta.json`: the folder is in use, by a run of the machine that proves nothing. No boot id is this."""


class DataFolder:
    """All logs of a node. Used from the event loop's thread alone."""

    def __init__(
        self, path: str, disk: Disk, clock: Clock, meta_file: MetaFile, lock: int, open_files: int
    ) -> None:
        self.path = path
        self.disk = disk
        self.clock = clock
        self.files = OpenFiles(disk, open_files)
        self.logs: dict[tuple[int, int], PartitionLog] = {}
        """By (topic id, partition)."""
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
        """What `meta.json` said when this process took the folder."""
        self._boot_id = ""
        """This run of the machine."""

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
        """Takes the folder for this process; makes it when it is not there.

        cluster_id, broker_id: what the folder must be of (empty, None: whatever it is; a new folder takes
        them).
        Raises DataFolderInUse, NewerFormat or DataFolderError, each with a sentence for the user.
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
        """Whether there were ever logs here, or an orderly stop: a folder that is new, or whose first start
        was cut short, has neither."""
        return self._checkpoint.was_used or bool(self.disk.entries(os.path.join(self.path, "topics")))

    def _take_over(self, boot_id: str) -> None:
        """Reads the checkpoint, and says on disk that the folder is in use."""
        newest = self._checkpoint.read()
        if self._checkpoint.is_lost and not self.disk.entries(os.path.join(self.path, "topics")):
            self._begin_checkpoint()
        held = self._found_boot_id = self.meta.boot_id
        clean = self._checkpoint.clean and newest and not held
        self.recovered.clean = clean
        self.recovered.tail_sure = clean or (held != "" and held == boot_id)
        self._boot_id = boot_id or _UNKNOWN_BOOT
        try:
            # An unsure tail stays unsure until the cluster knows: a start that ends before must not hide it.
            self._meta_file.store(boot_id=self._boot_id if self.recovered.tail_sure else _UNKNOWN_BOOT)
        except OSError as error:
            # On a full disk reading must be possible. The file still says that the last stop was not clean,
            # and an older boot id only makes the next start more careful.
            if not held:
                raise
            logger.error("cannot write %s: %s", self._meta_file.path, error.strerror)

    def _begin_checkpoint(self) -> None:
        """A folder that holds nothing: from now on there is one, so a later start knows when it was lost."""
        self._checkpoint.is_lost = False
        try:
            self._checkpoint.write()
        except StorageError as error:  # a full disk: reading must be possible
            logger.error("%s", error)

    def told(self, broker_epoch: int) -> None:
        """The registration with this folder's claims is committed as this epoch: from now on this run of the
        machine counts, and so does the epoch. Call it before the process takes part."""
        boot_id = self.meta.boot_id if self.recovered.tail_sure else self._boot_id
        if (self.meta.boot_id, self.meta.broker_epoch) == (boot_id, broker_epoch):
            return
        try:
            self._meta_file.store(boot_id=boot_id, broker_epoch=broker_epoch)
        except OSError as error:  # then the next start claims less than it has, which is safe
            logger.error("cannot write %s: %s", self._meta_file.path, error.strerror)

    # ---- logs ----

    def folder_of(self, topic_id: int, partition: int) -> str:
        return os.path.join(self.path, "topics", str(topic_id), str(partition))

    def open_log(self, topic_id: int, partition: int, settings: LogSettings) -> PartitionLog:
        """The partition's log: the one that is open, or what the disk has, or a new one.

        After an unclean stop what lies behind the recovery point is checked, cut and made durable here. Never
        raises because of what the disk holds: see the log's `state`. Raises StorageError when it can't be
        read.
        """
        key = (topic_id, partition)
        log = self.logs.get(key)
        if log is not None:
            log.apply_settings(settings)
            return log
        log = PartitionLog(self.files, self.folder_of(topic_id, partition), topic_id, partition, settings)
        log.jitter_ms = self._random.randint(0, settings.roll_jitter_ms) if settings.roll_jitter_ms else 0
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
            # What nobody thought of in one log is not to keep the others from being opened.
            logger.exception("topic %d partition %d: a bug of ours", topic_id, partition)
            raise StorageError(f"{log.folder} cannot be read by a bug of ours: {error!r}") from error
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

    def open_found(self) -> None:
        """Opens every log that the disk has, or the checkpoint knows, before the cluster says what they are:
        registration has to say which are damaged. None is mended here. Raises OSError."""
        topics = os.path.join(self.path, "topics")
        keys = set(self._checkpoint.entries)
        for topic in self.disk.entries(topics):
            if topic.is_folder and topic.name.isdigit():
                inner = self.disk.entries(os.path.join(topics, topic.name))
                keys |= {(int(topic.name), int(one.name)) for one in inner if one.name.isdigit()}
        for key in sorted(keys):
            try:
                log = self.open_log(*key, LogSettings(replication_factor=UNKNOWN_FACTOR))
                # Without any checkpoint it may be shorter than it was, or half of a refill, and look whole.
                log.refilling = log.refilling or self._checkpoint.is_lost
            except StorageError as error:
                logger.error("topic %d partition %d cannot be opened: %s", *key, error)
                self._unreadable.add(key)

    def claims(self) -> Claims:
        """What to say at registration. Call `open_found` before."""
        impaired = {key for key, log in self.logs.items() if log.is_impaired}
        damaged = tuple(sorted(impaired | self._unreadable))
        return Claims(self.meta.disk_uuid, self.recovered.tail_sure, damaged, self.meta.broker_epoch)

    def delete_topic(self, topic_id: int) -> None:
        """Deletes all of a topic's data. Only for topics that the cluster says are gone."""
        keys = {key for key in (*self.logs, *self._checkpoint.entries) if key[0] == topic_id}
        self._delete(keys, os.path.join(self.path, "topics", str(topic_id)), str(topic_id))

    def delete_partition(self, topic_id: int, partition: int) -> None:
        """Deletes the data of one replica. Only for one that the cluster says was moved away."""
        key = (topic_id, partition)
        self._delete({key}, self.folder_of(*key), f"{topic_id}-{partition}")

    def _delete(self, keys: Collection[tuple[int, int]], path: str, name: str) -> None:
        for key in keys:
            if (log := self.logs.pop(key, None)) is not None:
                log.abandon()
            self._checkpoint.forget(key)
        try:
            if self.disk.exists(path):
                self.removal.remove(path, name)
        except OSError as error:
            logger.error("cannot delete %s: %s", path, error.strerror)

    def set_aside_unknown(self, known: Collection[int]) -> list[str]:
        """Renames the folders of topics that are not `known` to `.stray-…`; returns all that are set aside.

        Never deletes: only the cluster's word that a topic was deleted does that.
        """
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
                logger.error("%s belongs to no topic of this cluster: set aside as %s", name, aside)
                strays.append(aside)
        return sorted(strays)

    # ---- checkpoint ----

    @property
    def checkpoint_due(self) -> bool:
        """Whether anything changed since the checkpoint was written."""
        return self._checkpoint.is_due

    def write_checkpoint(self, *, clean: bool = False) -> None:
        """Replaces the checkpoint, here and now. Raises StorageError; the old one is then still there."""
        self._checkpoint.write(clean=clean)

    def write_checkpoint_with(self, flusher: Flusher) -> None:
        """The same in a thread, if anything changed and no other is being written. Errors are logged."""
        self._checkpoint.write_with(flusher)

    # ---- the end ----

    def abandon(self) -> None:
        """The process can't start, and no log was opened: leaves the folder as it was found, unlocked."""
        assert not self.logs
        try:
            self._meta_file.store(boot_id=self._found_boot_id)
        except OSError as error:
            logger.error("cannot write %s: %s", self._meta_file.path, error.strerror)
        self.disk.close(self._lock)

    def close(self) -> None:
        """An orderly stop: syncs every log, snapshots the producers, writes the clean checkpoint, unlocks.

        The flusher must be closed before. A log whose disk fails is left for the next start's recovery; the
        stop is then not a clean one.
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
        """Makes everything durable, many logs at a time: one after another 10,000 would take a minute."""
        logs = [log for log in self.logs.values() if log.state is not LogState.CLOSED]
        at_once = max(self.files.limit // 4, TOGETHER_FROM)
        for start in range(0, len(logs), at_once):
            works = []
            for log in logs[start : start + at_once]:
                with contextlib.suppress(StorageError):  # `close` will meet it again
                    log.write_staged()
                work = log.begin_flush()
                if work is not None:
                    works.append(work)
            run_together(self.disk, [work for work in works if work.error is None])
            for work in works:
                work.log.end_flush(work)


def _make_durable_folder(disk: Disk, path: str) -> None:
    """Makes a folder and those above it, so that a power failure leaves them there. Raises OSError."""
    made = []
    while not disk.exists(path):
        made.append(path)
        path = os.path.dirname(path)
    if made:
        disk.make_folders(made[0])
    for folder in reversed(made):
        disk.sync_folder(os.path.dirname(folder))
