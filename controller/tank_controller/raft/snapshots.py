"""Sending and receiving snapshots, chunk by chunk. Pure.

One chunk is unanswered at a time. The answer says how much of the snapshot the follower has, so after a lost
chunk, a restart of the follower or a change of leader, the sender goes on from there.
"""

from fastcrc import crc32

from tank_controller.raft.errors import MalformedMessageError
from tank_controller.raft.messages import (
    AppendAnswer,
    Configuration,
    NodeId,
    RaftMessage,
    Snapshot,
    SnapshotAnswer,
    SnapshotChunk,
    SnapshotMeta,
)
from tank_controller.raft.progress import Flow, MemberProgress
from tank_controller.raft.state import Incoming, RaftState


def make(index: int, term: int, configuration: Configuration, data: bytes) -> Snapshot:
    """Makes a snapshot of this state."""
    return Snapshot(SnapshotMeta(index, term, configuration, len(data), crc32.iscsi(data)), data)


# --- The leader ---


def flush(raft: RaftState, node: NodeId, progress: MemberProgress) -> None:
    """Sends the next chunk, unless one is unanswered."""
    transfer = progress.transfer
    if progress.flow is not Flow.SNAPSHOT or transfer is None or transfer.waiting:
        return
    data = transfer.snapshot.data[transfer.offset : transfer.offset + raft.settings.chunk_bytes]
    raft.send(node, SnapshotChunk(transfer.snapshot.meta, transfer.offset, data))
    transfer.waiting = True
    transfer.idle_ticks = 0


def on_answer(raft: RaftState, message: RaftMessage, answer: SnapshotAnswer) -> None:
    """Sends the chunk that the follower needs next. An answer about another snapshot is late, and ignored."""
    progress = raft.progress[message.sender]
    progress.active = True
    transfer = progress.transfer
    if transfer is None:
        return
    meta = transfer.snapshot.meta
    if (answer.index, answer.term) != (meta.index, meta.term):
        return
    if answer.received > meta.size:
        raise MalformedMessageError(f"{message.sender} has more of a snapshot than there is")
    transfer.offset = answer.received
    transfer.waiting = False


def tick(raft: RaftState) -> None:
    """Sends a chunk again that had no answer for longer than a heartbeat; an absent node gets none."""
    for progress in raft.progress.values():
        transfer = progress.transfer
        if transfer is None:
            continue
        transfer.idle_ticks += 1
        if transfer.idle_ticks > raft.settings.heartbeat_ticks and progress.active:
            transfer.waiting = False
        if transfer.idle_ticks > raft.settings.election_ticks and not progress.active:
            progress.probe()


# --- The follower ---


def on_chunk(raft: RaftState, message: RaftMessage, chunk: SnapshotChunk) -> None:
    """Takes the next chunk; the first chunk of another snapshot replaces the one before."""
    meta, log = chunk.meta, raft.log
    if meta.size > raft.settings.max_snapshot_bytes or chunk.offset + len(chunk.data) > meta.size:
        raise MalformedMessageError(f"a snapshot of {meta.size} bytes, or a chunk beyond its end")
    if meta.index <= log.commit:
        raft.incoming = None
        raft.send(message.sender, AppendAnswer(log.commit, start=raft.start))
        return
    if raft.incoming is None or raft.incoming.meta != meta:
        raft.incoming = Incoming(meta, bytearray())
    data = raft.incoming.data
    if chunk.offset == len(data):
        data += chunk.data
    if len(data) == meta.size and crc32.iscsi(bytes(data)) != meta.checksum:
        data.clear()  # the checksum differs: the snapshot is sent again from its beginning
    elif len(data) == meta.size:
        _install(raft, message.sender, Snapshot(meta, bytes(data)))
        return
    raft.send(message.sender, SnapshotAnswer(meta.index, meta.term, len(data)))


def _install(raft: RaftState, leader: NodeId, snapshot: Snapshot) -> None:
    meta = snapshot.meta
    raft.incoming = None
    if raft.log.term(meta.index) == meta.term:
        raft.log.commit_to(meta.index)  # the log has all entries of the snapshot already
    else:
        raft.log.restore(snapshot)
        raft.installed = raft.snapshot = snapshot
    raft.send(leader, AppendAnswer(meta.index, start=raft.start))
