"""A journal as earlier versions wrote it, for tests of what reads it."""

from collections.abc import Sequence
from pathlib import Path

from tank_controller.raft_node import frames as fmt


def journal_file(
    folder: Path,
    first: int,
    batches: Sequence[Sequence[bytes]],
    *,
    stopped: bool = False,
    cluster_id: str = "c",
) -> Path:
    """One journal file: a frame for each batch, and the frame of a stop in order."""
    folder.mkdir(exist_ok=True)
    nonce = first.to_bytes(fmt.NONCE_BYTES, "big")
    content = fmt.journal_header(cluster_id, nonce, first)
    index = first
    for batch in [*batches, []] if stopped else batches:
        content += fmt.frame(batch, index, nonce, len(content))
        index += len(batch)
    path = folder / f"{first:020}.journal"
    path.write_bytes(content)
    return path


def snapshot_file(folder: Path, index: int, state: bytes, cluster_id: str = "c") -> Path:
    """A snapshot of the state after an entry."""
    path = folder / f"{index:020}.snapshot"
    path.write_bytes(fmt.snapshot_file(cluster_id, index, state))
    return path


def frame_ends(path: Path) -> list[int]:
    """The header's end and each frame's, in order."""
    data = path.read_bytes()
    header = fmt.read_journal_header(data)
    return [header.length, *(frame.end for frame in fmt.scan(data, header).frames)]
