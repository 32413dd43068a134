"""The log of a controller that is alone, with a broker in one process: founded, opened, or taken over.

Earlier versions kept it as a journal. Its state becomes Raft's first snapshot; the journal's folder is set
aside, whole, once Raft's files are durable and were read back. A crash between any two writes leaves either
the journal as it was, and what was begun beside it is begun again, or both, and the setting aside goes on.
"""

from dataclasses import dataclass, field
from pathlib import Path

from tank_controller.raft.birth import FIRST_TERM, Founding
from tank_controller.raft.messages import Configuration, HardState, NodeId
from tank_controller.raft.snapshots import make
from tank_controller.raft_node import frames, old_journal
from tank_controller.raft_node.files import OsFiles, machine_boot_id
from tank_controller.raft_node.replay import RaftStorageError, Stored
from tank_controller.raft_node.storage import RaftStorage

ORDINAL = 1
"""Of the only controller."""
_SET_ASIDE = "-before-raft"


@dataclass(slots=True)
class Standalone:
    """A log that is open."""

    storage: RaftStorage
    stored: Stored
    own: NodeId
    cut_bytes: int
    """Of the journal of before, which a write was under way to when its process ended."""
    warnings: list[str] = field(default_factory=list)


def open_alone(
    folder: Path, journal_folder: Path, cluster_id: str, *, may_be_new: bool, files: OsFiles | None = None
) -> Standalone:
    """Opens the log in `folder`, or makes it: of the journal in the other folder, where there is one.

    `may_be_new`: nothing in either folder is a new cluster; else it is one that lost its metadata.
    RaftStorageError, JournalError, SnapshotError, UnknownEntryError.
    """
    files = files or OsFiles()
    storage = RaftStorage(folder, files, boot_id=machine_boot_id)
    stored = storage.open()
    journal = None
    if journal_folder.exists():
        journal = old_journal.read(journal_folder, cluster_id, files)
    warnings: list[str] = []
    if stored is None:
        if journal is None and not may_be_new:
            raise RaftStorageError(
                f"{folder} is empty, but the data folder has been in use: {frames.PUT_BACK}, or "
                "start with an empty one"
            )
        _begin(storage, cluster_id, journal)
        if journal is not None:
            warnings = journal.warnings
        storage = RaftStorage(folder, files, boot_id=machine_boot_id)
        stored = storage.open()
        assert stored is not None
    if stored.cluster_id != cluster_id:
        raise RaftStorageError(
            f"{folder} belongs to cluster {stored.cluster_id}, this data folder to {cluster_id}: folders "
            "of two clusters were mixed"
        )
    if journal is not None:
        _set_aside(journal_folder, files)
    cut_bytes = 0 if journal is None else journal.cut_bytes
    return Standalone(storage, stored, NodeId(ORDINAL, storage.disk), cut_bytes, warnings + stored.warnings)


def _begin(storage: RaftStorage, cluster_id: str, journal: old_journal.Journal | None) -> None:
    configuration = Configuration((NodeId(ORDINAL, storage.disk),))
    if journal is None or journal.last_index == 0:
        founding = Founding(cluster_id, configuration)
        storage.begin(cluster_id, founding.hard_state, [founding.entry])
        return
    state = journal.state()
    snapshot = make(state.index, FIRST_TERM, configuration, state.snapshot())
    storage.begin(cluster_id, HardState(FIRST_TERM, None, state.index), [], snapshot)


def _set_aside(journal_folder: Path, files: OsFiles) -> None:
    aside = journal_folder.with_name(journal_folder.name + _SET_ASIDE)
    if aside.exists():
        raise RaftStorageError(
            f"{journal_folder} was written by an earlier version after {aside} had been taken over: what it "
            f"changed would be lost. {frames.PUT_BACK.capitalize()}; or, to go on without those "
            f"changes, move {journal_folder} away"
        )
    files.rename(journal_folder, aside)
