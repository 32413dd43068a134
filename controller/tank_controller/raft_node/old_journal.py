"""What the journal of an earlier version holds: where a controller that was alone kept its log. Read only.

Folder: `<first index>.journal` and `<index>.snapshot`, of each the newest and the one before. The index of an
entry is the number of the command: there were no entries but commands.
"""

from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from tank_controller.raft_node import frames as fmt
from tank_controller.raft_node.files import Files
from tank_controller.raft_node.frames import JournalDamagedError, JournalError
from tank_controller.raft_node.replay import numbers_of
from tank_controller.state import commands
from tank_controller.state.machine import read_command
from tank_controller.state.state import ClusterState


@dataclass(slots=True)
class Journal:
    """All that the folder holds."""

    snapshot: bytes | None
    snapshot_index: int
    entries: list[tuple[int, bytes]]
    """(index, entry), those behind the snapshot."""
    cut_bytes: int = 0
    """Of a write that was under way when the process ended; nobody was told of it."""
    warnings: list[str] = field(default_factory=list)

    @property
    def last_index(self) -> int:
        """The last entry's index; 0: nothing was ever written."""
        return self.entries[-1][0] if self.entries else self.snapshot_index

    def state(self) -> ClusterState:
        """What it adds up to. SnapshotError, UnknownEntryError."""
        state = ClusterState() if self.snapshot is None else ClusterState.load(self.snapshot)
        for index, entry in self.entries:
            commands.apply(state, index, read_command(index, entry))
        return state


def read(folder: Path, cluster_id: str | None, files: Files) -> Journal | None:
    """None: there is no journal. JournalError when it can't be read without loss, or is another cluster's
    (`cluster_id` None: whichever it is).
    """
    try:
        names = files.names(folder)
        journals, snapshots = numbers_of(names, ".journal"), numbers_of(names, ".snapshot")
        if not journals and not snapshots:
            return None
        reading = _Reading(folder, cluster_id, files)
        found = reading.newest_snapshot(snapshots)
        reading.entries(journals, found)
    except OSError as error:
        raise JournalError(
            f"the metadata in {folder} can't be read: {error}; check disk and rights"
        ) from error
    if found.last_index < max(snapshots, default=0):
        raise JournalDamagedError(reading.lost(max(snapshots)))
    return found


@dataclass(slots=True, frozen=True)
class _Reading:
    folder: Path
    cluster_id: str | None
    files: Files

    def newest_snapshot(self, indexes: list[int]) -> Journal:
        warnings = []
        for index in reversed(indexes):
            path = self.folder / f"{index:020}.snapshot"
            try:
                cluster_id, held, state = fmt.read_snapshot_file(self.files.read(path))
            except JournalDamagedError as error:
                warnings.append(
                    f"{path} is damaged ({error}): an older one is used, with the entries since then"
                )
                continue
            self._check_cluster(path, cluster_id)
            return Journal(state, held, [], warnings=warnings)
        return Journal(None, 0, [], warnings=warnings)

    def entries(self, firsts: list[int], found: Journal) -> None:
        """Puts in what is behind the snapshot."""
        expected = found.snapshot_index + 1
        for first, next_first in zip_longest(firsts, firsts[1:]):
            if next_first is not None and next_first <= expected:
                continue  # the snapshot holds all of it
            if first > expected:
                break
            scan, length = self._scan(first)
            found.cut_bytes = length - scan.good_end
            for frame in scan.frames:
                for number, entry in enumerate(frame.entries, frame.first):
                    if number == expected:
                        found.entries.append((number, entry))
                        expected += 1
            if next_first is None:
                return
            if expected < next_first:
                break
        raise JournalDamagedError(self.lost(expected))

    def _scan(self, first: int) -> tuple[fmt.Scan, int]:
        """(its frames, the file's length)."""
        path = self.folder / f"{first:020}.journal"
        data = self.files.read(path)
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
        return found, len(data)

    def _check_cluster(self, path: Path, cluster_id: str) -> None:
        if self.cluster_id not in (cluster_id, None):
            raise JournalError(
                f"{path} belongs to cluster {cluster_id}, this data folder to {self.cluster_id}: "
                "folders of two clusters were mixed"
            )

    def lost(self, index: int) -> str:
        """What to say of an entry that is nowhere."""
        return f"entry {index} is in no file of {self.folder}: files are missing or damaged; {fmt.PUT_BACK}"
