"""What the tests of the disk write and read: few members, small entries, snapshots, a folder in memory."""

from pathlib import Path

from tank_controller.raft.messages import Configuration, EntryKind, HardState, LogEntry, NodeId, Snapshot
from tank_controller.raft.snapshots import make
from tank_controller.raft_node.replay import (
    StoredRaft,
)
from tank_controller.raft_node.storage import RaftStorage
from tests.controller.raft.fault_files import FaultFiles

ONE, TWO = NodeId(1, b"disk"), NodeId(2, b"ksid")
MEMBERS = Configuration((ONE, TWO))
FOLDER = Path("raft")
SEGMENT = "00000000000000000001.raft"


def entry(index: int, term: int = 1) -> LogEntry:
    return LogEntry(index, term, EntryKind.COMMAND, b"%d of %d" % (index, term))


FOUNDING = LogEntry(1, 1, EntryKind.CONFIGURATION, MEMBERS.encode())


def snapshot(index: int, term: int = 1) -> Snapshot:
    return make(index, term, MEMBERS, b"state %d" % index)


def storage(files: FaultFiles, segment_bytes: int = 1 << 20, boot: str = "") -> RaftStorage:
    """With nonces that are the same in every run; `boot`: of the machine's run, empty: not known."""
    counter = iter(range(1, 1000))
    nonces = lambda n: next(counter).to_bytes(n, "big")  # noqa: E731
    return RaftStorage(FOLDER, files, nonces, segment_bytes, boot_id=lambda: boot)


def begun(files: FaultFiles, segment_bytes: int = 1 << 20) -> RaftStorage:
    opened = storage(files, segment_bytes)
    if opened.open() is None:
        opened.begin("c", HardState(1, None, 1), [FOUNDING])
    return opened


def found(files: FaultFiles, segment_bytes: int = 1 << 20) -> StoredRaft:
    stored = storage(files, segment_bytes).open()
    assert stored is not None
    return stored


def content(stored: StoredRaft) -> tuple[HardState, list[LogEntry], int]:
    return stored.hard, stored.entries, stored.snapshot.meta.index if stored.snapshot else 0
