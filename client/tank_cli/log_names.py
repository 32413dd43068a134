"""The names of topics by their ids, from the metadata in a data folder, without changing a byte of it."""

from pathlib import Path

from tank_controller import commands, journal_format
from tank_controller.cluster_state import ClusterState, SnapshotError
from tank_controller.journal_format import JournalError
from tank_protos.generated import control_pb2 as pb

METADATA = "metadata"


def topic_names(data: Path) -> dict[int, str]:
    """Empty where the metadata is missing or can't be read: then topics are shown by their ids."""
    try:
        state = read_state(data / METADATA)
    except (OSError, ValueError, JournalError, SnapshotError):
        return {}
    return {topic_id: topic.name for topic_id, topic in state.topics.items()}


def read_state(folder: Path) -> ClusterState:
    """The newest snapshot that is whole, with the entries behind it."""
    state = ClusterState()
    for path in sorted(folder.glob("*.snapshot"), reverse=True):
        try:
            _, _, content = journal_format.read_snapshot_file(path.read_bytes())
            state = ClusterState.load(content)
        except (JournalError, SnapshotError):
            continue
        break
    for path in sorted(folder.glob("*.journal")):
        data = path.read_bytes()
        found = journal_format.scan(data, journal_format.read_journal_header(data))
        for frame in found.frames:
            for index, entry in enumerate(frame.entries, frame.first):
                if index == state.index + 1:
                    commands.apply(state, index, pb.Command.FromString(entry))
    return state
