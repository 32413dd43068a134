"""A controller's disk: identity, log segments, snapshots. Synchronous, for one thread that may wait.

Folder: `identity` (disk UUID, and the cluster's id from birth on), `boot` (the run of the machine that wrote
last), `<number>.raft`, numbered without a gap, and `<index>.snapshot`, the newest two. A segment is written
to until it is full; a frame is one fsync, and the next is written only after it: so a bad frame at the end of
the last segment is a torn write that was never acknowledged; it is cut, with a warning. Where the machine has
run on since, a torn write can only be the beginning of a frame. All other unreadable bytes are damage, and
the controller doesn't start.
"""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tank_controller.raft.messages import Configuration, EntryKind, HardState, LogEntry, Snapshot
from tank_controller.raft_node import frames as fmt
from tank_controller.raft_node import records
from tank_controller.raft_node.files import AppendFile, Files, OsFiles, append_durably
from tank_controller.raft_node.frames import JournalDamagedError
from tank_controller.raft_node.records import Base
from tank_controller.raft_node.replay import (
    RaftSegment,
    RaftStorageError,
    Replay,
    StorageDamagedError,
    StorageFailedError,
    StorageFullError,
    StoredRaft,
    needless,
    numbers_of,
)

SEGMENT_BYTES = 16 * 1024 * 1024
MIN_SNAPSHOT_AFTER_BYTES = 1024 * 1024
"""A snapshot is due when the log has grown by more bytes than this, and than the last snapshot has."""
UUID_BYTES = 16
_IDENTITY = "identity"
_BOOT = "boot"
_CONFIGURATIONS_KEPT = 8
"""How many recent configurations are remembered. At most one of them is uncommitted, and may be cut."""


class RaftStorage:
    """Call `open`, and `begin` for an empty disk; then `persist` and `save_snapshot`; `close` at the end."""

    def __init__(
        self,
        folder: Path,
        files: Files | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
        segment_bytes: int = SEGMENT_BYTES,
        snapshot_after_bytes: int = MIN_SNAPSHOT_AFTER_BYTES,
        boot_id: Callable[[], str] = str,
    ) -> None:
        """`boot_id` identifies the machine's run, such as `files.machine_boot_id`; empty: not known."""
        self._folder = folder
        self._files = files or OsFiles()
        self._random_bytes = random_bytes
        self._boot_id = boot_id()
        self._runs_on = False
        """Whether the machine has run on since the folder was last written."""
        self._segment_bytes = segment_bytes
        self._snapshot_after_bytes = snapshot_after_bytes
        self._file: AppendFile | None = None
        self._nonce = b""
        self._end = 0
        """The bytes of the last segment that are durable."""
        self._segments: list[RaftSegment] = []
        """The segments by number, rising without a gap; the last one is being written."""
        self._snapshots: list[int] = []
        self._last = (0, 0)
        """Index and term of the log's end: the next segment begins behind it."""
        self._configurations: list[tuple[int, Configuration]] = []
        """The last few configurations, by their entries' indexes: a cut of the log goes back to the one
        before.
        """
        self._hard = HardState()
        self._since_snapshot = 0
        self._snapshot_size = 0
        self.cluster_id = ""
        self.disk = b""
        """This disk's UUID, made with the folder: an emptied folder gets another one."""
        self.failed: str | None = None
        """Why the storage takes no more work; None while it does."""

    # --- Start ---

    def open(self) -> StoredRaft | None:
        """Reads the disk. Returns None when it is empty and belongs to no cluster yet. Raises
        RaftStorageError when it can't be used.
        """
        try:
            return self._open()
        except OSError as error:
            raise RaftStorageError(
                f"{self._folder} can't be opened: {error}; check the disk and the permissions"
            ) from error

    def _open(self) -> StoredRaft | None:
        names = self._files.names(self._folder)
        for name in names:
            if name.endswith(".new"):
                self._files.remove(self._folder / name)
        # A process may have been killed between a new file's name and its fsync: later writes to that file
        # would be lost with the name.
        self._files.make_names_durable(self._folder)
        numbers = numbers_of(names, ".raft")
        self._snapshots = numbers_of(names, ".snapshot")
        if _IDENTITY in names:
            self._read_identity()
        elif numbers or self._snapshots:
            raise StorageDamagedError(self._put_back(f"{_IDENTITY} is missing"))
        else:
            self.disk = self._random_bytes(UUID_BYTES)
            self._write_identity()
        if not numbers:
            if self.cluster_id:
                raise StorageDamagedError(self._put_back("the log's segments are missing"))
            return None
        before = self._read_boot() if _BOOT in names else ""
        self._runs_on = bool(before) and before == self._boot_id
        stored = self._read(numbers)
        if before != self._boot_id:
            self._write_boot(stored.warnings)
        return stored

    def _read_boot(self) -> str:
        try:
            return fmt.read_snapshot_file(self._files.read(self._folder / _BOOT))[2].decode()
        except JournalDamagedError:
            return ""  # unknown: a damaged last frame is taken for a torn write, as after a loss of power

    def _write_boot(self, warnings: list[str]) -> None:
        try:
            content = fmt.snapshot_file(self.cluster_id, 0, self._boot_id.encode())
            self._files.replace(self._folder / _BOOT, content)
        except OSError as error:  # the disk may be full: reading must be possible
            warnings.append(f"{self._folder / _BOOT} can't be written: {error.strerror}")

    def begin(self, cluster_id: str, hard: HardState, entries: Sequence[LogEntry]) -> None:
        """Makes this empty disk part of a cluster: with the founding entries, or without entries if the node
        is to be added.

        Writes the segment, then the identity: after a crash, a segment without identity counts.
        """
        assert not self._segments
        self.cluster_id = cluster_id
        self._guarded(lambda: self._begin_segment(Base(), hard, entries))
        self._guarded(self._write_identity)

    def _read_identity(self) -> None:
        try:
            self.cluster_id, _, self.disk = fmt.read_snapshot_file(self._files.read(self._folder / _IDENTITY))
        except JournalDamagedError as error:
            raise StorageDamagedError(self._put_back(f"{_IDENTITY} is damaged")) from error

    def _write_identity(self) -> None:
        content = fmt.snapshot_file(self.cluster_id, 0, self.disk)
        self._files.replace(self._folder / _IDENTITY, content)

    def _read(self, numbers: list[int]) -> StoredRaft:
        replay = Replay()
        cut_bytes = 0
        segments: list[tuple[int, list[records.Record]]] = []
        for number in reversed(numbers):
            if segments and number != segments[0][0] - 1:
                raise StorageDamagedError(self._put_back(f"segment {segments[0][0] - 1} is missing"))
            written, cut = self._read_segment(number, last=not segments)
            cut_bytes += cut
            segments.insert(0, (number, written))
            first = written[0]
            if isinstance(first, Base) and first.installed:
                break  # older segments don't count any more, and were about to be removed
        for number in numbers[: -len(segments)]:
            self._files.remove(self._path(number, ".raft"))
        for number, written in segments:
            self._replay(number, written, replay)
        warnings: list[str] = []
        if cut_bytes:
            path = self._path(numbers[-1], ".raft")
            warnings.append(f"{path}: {cut_bytes} bytes that a crash left unfinished at its end were cut")
        snapshot = self._read_snapshot(replay, warnings)
        assert replay.base is not None
        if replay.hard.commit > replay.last()[0]:
            raise StorageDamagedError(
                self._put_back(f"entry {replay.hard.commit} was committed and is missing")
            )
        base = replay.base
        self._hard = replay.hard
        self._begin_log(base)
        lowest = self._segments[-1].lowest
        self._note_end(replay.entries)
        self._segments[-1].lowest = lowest
        return StoredRaft(
            self.cluster_id,
            replay.hard,
            snapshot,
            (base.index, base.term, base.configuration),
            replay.entries,
            cut_bytes,
            warnings,
        )

    def _read_segment(self, number: int, *, last: bool) -> tuple[list[records.Record], int]:
        """Reads a segment: (its records, how many torn bytes it ends with)."""
        path = self._path(number, ".raft")
        data = self._files.read(path)
        try:
            header = fmt.read_journal_header(data)
            self._check_cluster(path, header.cluster_id)
            scan = fmt.scan(data, header)
            torn = scan.good_end != len(data)
            if torn and last and self._runs_on and not fmt.may_be_torn(data, scan.good_end, header.nonce):
                raise JournalDamagedError(
                    f"its last frame, at byte {scan.good_end}, has changed since it was written"
                )
            if torn and not last:
                raise JournalDamagedError(
                    f"its bytes from position {scan.good_end} on have changed since they were written"
                )
            if not scan.frames:
                raise JournalDamagedError(
                    "its first frame can't be read, which was durable before the segment was used"
                )
            written = [records.decode(record) for frame in scan.frames for record in frame.entries]
        except JournalDamagedError as error:
            raise StorageDamagedError(self._put_back(f"{path} is damaged ({error})")) from error
        self._since_snapshot += scan.good_end
        if not last:
            return written, 0
        if not scan.stopped_in_order:
            # The bytes that were read may be in the page cache alone, even where an fsync has failed.
            self._files.rewrite(path, data[: scan.good_end])
        self._file = self._files.open_append(path)
        self._nonce, self._end = header.nonce, scan.good_end
        return written, len(data) - scan.good_end

    def _replay(self, number: int, written: Sequence[records.Record], replay: Replay) -> None:
        try:
            for record in written:
                replay.take(record)
        except JournalDamagedError as error:
            path = self._path(number, ".raft")
            raise StorageDamagedError(self._put_back(f"{path} is damaged ({error})")) from error
        first = written[0]
        assert isinstance(first, Base)
        entries = [record.index for record in written if isinstance(record, LogEntry)]
        self._segments.append(RaftSegment(number, first.index, min(entries, default=first.index + 1)))

    def _read_snapshot(self, replay: Replay, warnings: list[str]) -> Snapshot | None:
        """Returns the newest intact snapshot that the log continues."""
        assert replay.base is not None
        for index in reversed(self._snapshots):
            path = self._path(index, ".snapshot")
            try:
                cluster_id, snapshot, installed = records.decode_snapshot(self._files.read(path))
            except JournalDamagedError as error:
                warnings.append(f"{path} is damaged ({error}): the one before it is used")
                continue
            self._check_cluster(path, cluster_id)
            meta = snapshot.meta
            if replay.term(meta.index) != meta.term:
                if not installed or meta.index < replay.hard.commit:
                    raise StorageDamagedError(
                        self._put_back(f"entry {meta.index} of {path} is not in the log")
                    )
                # A crash came between this snapshot from the leader and the segment that begins behind it.
                replay.base = Base(meta.index, meta.term, meta.configuration, installed=True)
                replay.entries = []
                self._begin_segment(replay.base, replay.hard, [])
            self._snapshot_size = meta.size
            return snapshot
        if replay.base.index > 0:
            raise StorageDamagedError(
                self._put_back(f"the snapshot before entry {replay.base.index + 1} is missing")
            )
        return None

    def _check_cluster(self, path: Path, cluster_id: str) -> None:
        if not self.cluster_id:  # a crash came between the first segment and the identity
            self.cluster_id = cluster_id
            self._write_identity()
        if cluster_id != self.cluster_id:
            raise StorageDamagedError(
                f"{path} belongs to cluster {cluster_id}, this disk to {self.cluster_id}: folders were mixed"
            )

    def _put_back(self, what: str) -> str:
        return (
            f"{self._folder}: {what}. Where other controllers live, empty this folder: this one gets the "
            f"metadata from them. If it is the only controller: {fmt.PUT_BACK}"
        )

    # --- Work ---

    def persist(self, hard: HardState | None, snapshot: Snapshot | None, entries: Sequence[LogEntry]) -> None:
        """Stores all of it; durable when this returns.

        Raises StorageFullError: nothing was stored, and the same call may be tried again. Raises
        StorageFailedError: the process has to end.
        """
        self._guarded(lambda: self._persist(hard or self._hard, snapshot, entries))

    def _persist(self, hard: HardState, snapshot: Snapshot | None, entries: Sequence[LogEntry]) -> None:
        if snapshot is not None:
            meta = snapshot.meta
            self._write_snapshot(snapshot, installed=True)
            old = self._segments
            self._begin_segment(
                Base(meta.index, meta.term, meta.configuration, installed=True), hard, entries
            )
            self._remove(old, self._snapshots[:-1])
            return
        if self._end >= self._segment_bytes:
            self._begin_segment(Base(*self._last, self._configurations[-1][1]), hard, entries)
            return
        self._append([hard, *entries])
        self._hard = hard
        self._note_end(entries)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Stores a snapshot of the state machine, and removes files that it makes needless; the snapshot
        before it stays. Raises as `persist`.
        """
        self._guarded(lambda: self._save_snapshot(snapshot))

    def _save_snapshot(self, snapshot: Snapshot) -> None:
        self._write_snapshot(snapshot, installed=False)
        self._since_snapshot = 0
        if len(self._snapshots) < 2:
            return
        kept = self._snapshots[-2]
        self._remove(needless(self._segments, kept), self._snapshots[:-2])

    @property
    def snapshot_due(self) -> bool:
        """Whether the log has grown enough for a snapshot."""
        return self._since_snapshot > max(self._snapshot_after_bytes, self._snapshot_size)

    def close(self, commit: int = 0) -> None:
        """Writes that the process stops in good order: at the next start a damaged last frame can't be taken
        for a torn write.
        """
        assert commit <= self._last[0], "what is committed here is on the disk"
        hard = HardState(self._hard.term, self._hard.vote, max(commit, self._hard.commit))
        if self._file is None or self.failed is not None:
            return
        self._guarded(lambda: self._append([hard]))
        self._guarded(lambda: self._append([]))
        self._file.close()
        self._file = None

    def _guarded(self, work: Callable[[], None]) -> None:
        if self.failed is not None:
            raise StorageFailedError(self.failed)
        try:
            work()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StorageFullError(
                    f"{self._folder}: {error.strerror}; make room on the disk: nothing is lost"
                ) from error
            self.failed = f"{self._folder}: {error}; check the disk, then start the controller again"
            raise StorageFailedError(self.failed) from error

    def _append(self, written: Sequence[records.Record]) -> None:
        assert self._file is not None, "open first"
        encoded = [records.encode(record) for record in written]
        frame = fmt.frame(encoded, self._segments[-1].number, self._nonce, self._end)
        append_durably(self._file, frame, self._end)
        self._end += len(frame)
        self._since_snapshot += len(frame)

    def _begin_segment(self, base: Base, hard: HardState, entries: Sequence[LogEntry]) -> None:
        """Begins a new segment; after a crash it exists completely or not at all."""
        number = self._segments[-1].number + 1 if self._segments else 1
        nonce = self._random_bytes(fmt.NONCE_BYTES)
        header = fmt.journal_header(self.cluster_id, nonce, number)
        written: list[records.Record] = [base, hard, *entries]
        encoded = [records.encode(record) for record in written]
        content = header + fmt.frame(encoded, number, nonce, len(header))
        path = self._path(number, ".raft")
        try:
            self._files.replace(path, content)
        except OSError as error:
            if path.name in self._files.names(self._folder):
                raise OSError(
                    errno.EIO, f"{path} may be lost in a crash, because its fsync failed: {error}"
                ) from error
            raise
        if self._file is not None:
            self._file.close()
        self._file = self._files.open_append(path)
        self._segments = [*self._segments, RaftSegment(number, base.index, base.index + 1)]
        self._nonce, self._end = nonce, len(content)
        self._since_snapshot += len(content)
        self._hard = hard
        if base.installed or len(self._segments) == 1:
            self._begin_log(base)
        self._note_end(entries)

    def _begin_log(self, base: Base) -> None:
        self._last = base.index, base.term
        self._configurations = [(base.index, base.configuration)]

    def _note_end(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            while self._configurations[-1][0] >= entry.index:
                self._configurations.pop()
            if entry.kind is EntryKind.CONFIGURATION:
                self._configurations.append((entry.index, Configuration.decode(entry.data)))
        if entries:
            self._last = entries[-1].index, entries[-1].term
            self._segments[-1].lowest = min(self._segments[-1].lowest, entries[0].index)
        del self._configurations[:-_CONFIGURATIONS_KEPT]

    def _write_snapshot(self, snapshot: Snapshot, *, installed: bool) -> None:
        index = snapshot.meta.index
        content = records.encode_snapshot(self.cluster_id, snapshot, installed=installed)
        self._files.replace(self._path(index, ".snapshot"), content)
        self._snapshots = sorted({*self._snapshots, index})
        self._snapshot_size = snapshot.meta.size

    def _remove(self, segments: Sequence[RaftSegment], snapshots: Sequence[int]) -> None:
        """Removes files, oldest first, so that a crash leaves no gap."""
        for segment in segments:
            self._files.remove(self._path(segment.number, ".raft"))
        for index in snapshots:
            self._files.remove(self._path(index, ".snapshot"))
        self._segments = [segment for segment in self._segments if segment not in segments]
        self._snapshots = [index for index in self._snapshots if index not in snapshots]

    def _path(self, number: int, suffix: str) -> Path:
        return self._folder / f"{number:020}{suffix}"
