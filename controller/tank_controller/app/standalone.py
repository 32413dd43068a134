"""The log of a controller that is alone, with a broker in one process: made, or opened."""

from dataclasses import dataclass
from pathlib import Path

from tank_controller.raft.birth import Founding
from tank_controller.raft.messages import Configuration, NodeId
from tank_controller.raft_node import frames
from tank_controller.raft_node.files import OsFiles, machine_boot_id
from tank_controller.raft_node.replay import RaftStorageError, Stored
from tank_controller.raft_node.storage import RaftStorage

ORDINAL = 1
"""Of the only controller."""


@dataclass(slots=True)
class Standalone:
    """A log that is open."""

    storage: RaftStorage
    stored: Stored
    own: NodeId


def open_alone(
    folder: Path, cluster_id: str, *, may_be_new: bool, files: OsFiles | None = None
) -> Standalone:
    """Opens the log in `folder`, or makes it.

    `may_be_new`: an empty folder is a new cluster; else it is one that lost its metadata.
    RaftStorageError, JournalError.
    """
    files = files or OsFiles()
    storage = RaftStorage(folder, files, boot_id=machine_boot_id)
    stored = storage.open()
    if stored is None:
        if not may_be_new:
            raise RaftStorageError(
                f"{folder} is empty, but the data folder has been in use: {frames.PUT_BACK}, or "
                "start with an empty one"
            )
        founding = Founding(cluster_id, Configuration((NodeId(ORDINAL, storage.disk),)))
        storage.begin(cluster_id, founding.hard_state, [founding.entry])
        storage = RaftStorage(folder, files, boot_id=machine_boot_id)
        stored = storage.open()
        assert stored is not None
    if stored.cluster_id != cluster_id:
        raise RaftStorageError(
            f"{folder} belongs to cluster {stored.cluster_id}, this data folder to {cluster_id}: folders "
            "of two clusters were mixed"
        )
    return Standalone(storage, stored, NodeId(ORDINAL, storage.disk))
