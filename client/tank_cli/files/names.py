"""The names of topics by their ids, from the metadata in a data folder, without changing a byte of it."""

from pathlib import Path

from tank_controller.commands import commands
from tank_controller.commands.machine import UnknownEntryError, read_command
from tank_controller.raft.messages import EntryKind
from tank_controller.raft_node import frames, records
from tank_controller.raft_node.frames import JournalError
from tank_controller.raft_node.replay import Replay
from tank_controller.state.state import ClusterState, SnapshotError

LOG_FOLDER = "controller"


def topic_names(data: Path) -> dict[int, str]:
    """The names by id; empty when the metadata is missing or can't be read, and then topics are shown by
    their ids.
    """
    try:
        state = read_state(data)
    except (OSError, ValueError, JournalError, SnapshotError, UnknownEntryError):
        return {}
    return {topic_id: topic.name for topic_id, topic in state.topics.items()}


def read_state(data: Path) -> ClusterState:
    """Returns the state of the newest snapshot and the committed entries behind it."""
    folder = data / LOG_FOLDER
    folder.stat()
    state = ClusterState()
    index = 0
    for path in sorted(folder.glob("*.snapshot"), reverse=True):
        try:
            _, snapshot, _ = records.decode_snapshot(path.read_bytes())
            state, index = ClusterState.load(snapshot.data), snapshot.meta.index
        except (JournalError, SnapshotError):
            continue
        break
    replay = Replay()
    for path in sorted(folder.glob("*.raft")):
        content = path.read_bytes()
        for frame in frames.scan(content, frames.read_journal_header(content)).frames:
            for record in frame.entries:
                replay.take(records.decode(record))
    for entry in replay.entries:
        # A single voter's entries are committed as soon as they are on the disk.
        if entry.index > index and entry.kind is EntryKind.COMMAND:
            commands.apply(state, entry.index, read_command(entry.index, entry.data))
    return state
