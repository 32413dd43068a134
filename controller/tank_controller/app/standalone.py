"""Creates or opens the log of a controller that runs alone, with a broker in one process."""

from dataclasses import dataclass
from pathlib import Path

from tank_controller.raft.birth import Founding
from tank_controller.raft.messages import Configuration, NodeId
from tank_controller.raft_node import frames
from tank_controller.raft_node.files import OsFiles, machine_boot_id
from tank_controller.raft_node.replay import RaftStorageError, StoredRaft
from tank_controller.raft_node.storage import RaftStorage

ORDINAL = 1
"""The ordinal of the only controller."""


@dataclass(slots=True)
class Standalone:
    """The open log of a controller that runs alone."""

    storage: RaftStorage
    stored: StoredRaft
    own: NodeId


def open_alone(
    folder: Path, cluster_id: str, *, may_be_new: bool, files: OsFiles | None = None
) -> Standalone:
    """Opens the log in `folder`, or creates it.

    `may_be_new`: an empty folder means a new cluster; otherwise it means that the metadata was lost. Raises
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
