"""The controller's log on one machine: entries that survive a power failure, and snapshots that shorten it.

For a controller that is alone. Synchronous, for one thread at a time (not the event loop's: it waits).
Folder: `<first index>.journal` and `<index>.snapshot`, of each the newest and the one before.
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path

from tank_controller import journal_format as fmt
from tank_controller.files import AppendFile, Files, OsFiles
from tank_controller.journal_format import JournalDamagedError, JournalError

MIN_SNAPSHOT_AFTER_BYTES = 1024 * 1024
"""A snapshot is due when the journal has grown past this and past the last snapshot."""


class JournalFullError(JournalError):
    """The disk took nothing of what was appended (it is full, most often): it may be tried again."""


class JournalFailedError(JournalError):
    """What is on the disk is not known any more (a failed fsync): nothing is taken until a restart."""


@dataclass(slots=True)
class Recovered:
    """What a journal held when it was opened."""

    snapshot: bytes | None
    snapshot_index: int
    entries: list[tuple[int, bytes]]
    """(index, entry), those behind the snapshot."""
    cut_bytes: int = 0
    """Of a write that was under way when the process ended; nobody was told of it."""
    warnings: list[str] = field(default_factory=list)

    @property
    def last_index(self) -> int:
        """The last entry's index."""
        return self.entries[-1][0] if self.entries else self.snapshot_index


@dataclass(slots=True, frozen=True)
class _FoundFile:
    """A journal file, read."""

    data: bytes
    nonce: bytes
    scan: fmt.Scan
    next_index: int


class Journal:
    """Opened by `open`; then `append` and `snapshot`, and `close` at the end."""

    def __init__(
        self,
        folder: Path,
        cluster_id: str,
        files: Files | None = None,
        nonce: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._folder = folder
        self._cluster_id = cluster_id
        self._files = files or OsFiles()
        self._make_nonce = nonce
        self._nonce = b""
        self._file: AppendFile | None = None
        self.failed: str | None = None
        """Why nothing is taken any more."""
        self._end = 0
        self._snapshot_due_at = MIN_SNAPSHOT_AFTER_BYTES
        self.next_index = 1
        """The index that the next entry gets."""

    def open(self, *, may_be_new: bool) -> Recovered:
        """Reads everything and makes it durable once more. JournalError when that can't be done without loss.

        `may_be_new`: an empty folder is that of a new cluster; else it is one that lost its metadata.
        """
        try:
            return self._open(may_be_new)
        except OSError as error:
            raise JournalError(f"the metadata in {self._folder} can't be opened: {_advice(error)}") from error

    def _open(self, may_be_new: bool) -> Recovered:
        names = self._files.names(self._folder)
        for name in names:
            if name.endswith(".new"):
                self._files.remove(self._folder / name)
        journals = _indexes(names, ".journal")
        snapshots = _indexes(names, ".snapshot")
        if not journals and not snapshots:
            if not may_be_new:
                raise JournalError(
                    f"{self._folder} is empty, but the data folder has been in use: {fmt.PUT_BACK}, or "
                    "start with an empty one"
                )
            self._begin_file(1)
            return Recovered(None, 0, [])
        recovered = self._read_snapshot(snapshots)
        self._read_journals(journals, recovered)
        if recovered.last_index < max(snapshots, default=0):
            raise JournalDamagedError(self._lost(max(snapshots)))
        return recovered

    def append(self, entries: Sequence[bytes]) -> int:
        """Writes entries and waits until they are durable; the first one's index.

        JournalFullError: none of them is there. JournalFailedError: nobody knows.
        """
        if self.failed is not None or self._file is None:
            raise JournalFailedError(self.failed or "the journal is closed")
        first = self.next_index
        self._write(self._file, fmt.frame(entries, first, self._nonce, self._end))
        self.next_index += len(entries)
        return first

    def _write(self, file: AppendFile, data: bytes) -> None:
        try:
            file.write(data)
        except OSError as error:
            try:
                file.truncate(self._end)
            except OSError:
                self._fail(error)
            raise JournalFullError(
                f"metadata can't be written to {self._folder}: {_advice(error)}"
            ) from error
        try:
            file.sync()
        except OSError as error:
            # The system may have dropped what it could not write, and say nothing the next time.
            self._fail(error)
        self._end += len(data)

    def _fail(self, error: OSError) -> None:
        self.failed = f"the disk failed under {self._folder} ({error}): check it, then restart"
        raise JournalFailedError(self.failed) from error

    @property
    def snapshot_due(self) -> bool:
        """Whether it is time for `snapshot`."""
        return self._end > self._snapshot_due_at

    def snapshot(self, index: int, state: bytes) -> None:
        """Keeps the state after entry `index`, the last one appended, and begins a new file behind it.

        The older files stay until the next one. JournalFullError: nothing is lost, and the journal goes on,
        in the old file or the new one.
        """
        if self.failed is not None or self._file is None:
            raise JournalFailedError(self.failed or "the journal is closed")
        assert index == self.next_index - 1, (index, self.next_index)
        old = self._file
        try:
            # The file before the snapshot: where beginning it fails half-way (it is there, but can't be
            # opened), entries go on into the old one, and a snapshot would make that look needless.
            self._begin_file(index + 1)
            old.close()
            self._files.replace(
                self._path(index, ".snapshot"), fmt.snapshot_file(self._cluster_id, index, state)
            )
        except OSError as error:
            self._snapshot_due_at = self._end + MIN_SNAPSHOT_AFTER_BYTES
            raise JournalFullError(
                f"a snapshot can't be written to {self._folder}: {_advice(error)}"
            ) from error
        self._snapshot_due_at = max(MIN_SNAPSHOT_AFTER_BYTES, len(state))
        self._remove_old()

    def close(self) -> None:
        """Notes that the process stopped in good order: now even a bad last entry is known as damage."""
        if self._file is None:
            return
        try:
            if self.failed is None:
                self._write(self._file, fmt.frame([], self.next_index, self._nonce, self._end))
        finally:
            self._file.close()
            self._file = None

    # --- opening ---

    def _read_snapshot(self, indexes: list[int]) -> Recovered:
        warnings = []
        for index in reversed(indexes):
            path = self._path(index, ".snapshot")
            try:
                cluster_id, held, state = fmt.read_snapshot_file(self._files.read(path))
            except JournalDamagedError as error:
                warnings.append(
                    f"{path} is damaged ({error}): an older one is used, with the entries since then"
                )
                continue
            self._check_cluster(path, cluster_id)
            self._snapshot_due_at = max(MIN_SNAPSHOT_AFTER_BYTES, len(state))
            return Recovered(state, held, [], warnings=warnings)
        return Recovered(None, 0, [], warnings=warnings)

    def _read_journals(self, firsts: list[int], recovered: Recovered) -> None:
        expected = recovered.snapshot_index + 1
        for first, next_first in zip_longest(firsts, firsts[1:]):
            if next_first is not None and next_first <= expected:
                continue  # the snapshot holds all of it
            if first > expected:
                break
            path = self._path(first, ".journal")
            found = self._scan(path, first)
            recovered.cut_bytes = len(found.data) - found.scan.good_end
            for frame in found.scan.frames:
                for number, entry in enumerate(frame.entries, frame.first):
                    if number == expected:
                        recovered.entries.append((number, entry))
                        expected += 1
            if next_first is None:
                self._go_on(path, found, expected)
                return
            if expected < next_first:
                break
            if expected > next_first:
                # It was gone on with because the next one could not be: it may be the newest with entries.
                self._files.rewrite(path, found.data[: found.scan.good_end])
        raise JournalDamagedError(self._lost(expected))

    def _go_on(self, path: Path, found: _FoundFile, next_index: int) -> None:
        """Makes the newest file durable once more and goes on at its end."""
        if found.next_index < next_index:
            # Its end, which the snapshot or the file before holds, is not in it: a file has no gaps.
            self._begin_file(next_index)
            return
        if not found.scan.stopped_in_order:
            # What the crash left may be in the page cache alone, even where an fsync has failed.
            self._files.rewrite(path, found.data[: found.scan.good_end])
        self._file = self._files.open_append(path)
        self._nonce = found.nonce
        self._end = found.scan.good_end
        self.next_index = next_index

    def _scan(self, path: Path, first: int) -> _FoundFile:
        data = self._files.read(path)
        try:
            header = fmt.read_journal_header(data)
            self._check_cluster(path, header.cluster_id)
            found = fmt.scan(data, header)
            expected = first
            for frame in found.frames:
                if frame.first != expected:
                    raise JournalDamagedError(f"entry {expected} is missing")
                expected += len(frame.entries)
        except JournalDamagedError as error:
            raise JournalDamagedError(f"{path} is damaged ({error}): {fmt.PUT_BACK}") from error
        return _FoundFile(data, header.nonce, found, expected)

    def _check_cluster(self, path: Path, cluster_id: str) -> None:
        if cluster_id != self._cluster_id:
            raise JournalError(
                f"{path} belongs to cluster {cluster_id}, this data folder to {self._cluster_id}: "
                "folders of two clusters were mixed"
            )

    def _lost(self, index: int) -> str:
        return f"entry {index} is in no file of {self._folder}: files are missing or damaged; {fmt.PUT_BACK}"

    # --- files ---

    def _begin_file(self, first: int) -> None:
        nonce = self._make_nonce(fmt.NONCE_BYTES)
        header = fmt.journal_header(self._cluster_id, nonce, first)
        path = self._path(first, ".journal")
        self._files.replace(path, header)
        self._file = self._files.open_append(path)
        self._nonce = nonce
        self._end = len(header)
        self.next_index = first

    def _remove_old(self) -> None:
        """All but the two newest snapshots, and the journals that the older of them makes needless."""
        names = self._files.names(self._folder)
        snapshots = _indexes(names, ".snapshot")
        needless = [self._path(index, ".snapshot") for index in snapshots[:-2]]
        if len(snapshots) >= 2:
            firsts = _indexes(names, ".journal")
            needless += [
                self._path(first, ".journal")
                for first, following in pairwise(firsts)
                if following <= snapshots[-2] + 1
            ]
        for path in needless:
            self._files.remove(path)

    def _path(self, index: int, suffix: str) -> Path:
        return self._folder / f"{index:020}{suffix}"


def _advice(error: OSError) -> str:
    """The system's reason, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{error.strerror}; make room there, nothing is lost"
    return f"{error}; check the disk and the rights of this user"


def _indexes(names: list[str], suffix: str) -> list[int]:
    stems = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isascii() and stem.isdigit())
