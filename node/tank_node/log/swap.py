"""Putting a rewritten segment in an old one's place, so that a crash leaves the old or the new one whole.

The new files are written as `.cleaned`, synced and renamed to `.swap`, the index last: `<first>.index.swap` says
that both are complete. Then they take the old names. Whoever opens the folder ends what was begun.
"""

import os
from collections.abc import Sequence

from tank_node.disk import Disk, Entry
from tank_node.log.segment import INDEX, LOG

CLEANED = ".cleaned"
SWAP = ".swap"
DAMAGED = ".damaged"


def finish_swaps(disk: Disk, folder: str, entries: Sequence[Entry]) -> bool:
    """Ends or undoes every swap that a crash interrupted; whether there was one. Raises OSError."""
    names = {entry.name for entry in entries}
    found = False
    for name in sorted(names):
        path = os.path.join(folder, name)
        if name.endswith(CLEANED) or (name.endswith(LOG + SWAP) and name[:20] + INDEX + SWAP not in names):
            disk.remove(path)
            found = True
        elif name.endswith(INDEX + SWAP):
            put_in_place(disk, folder, int(name[:20]), names)
            found = True
    if found:
        disk.sync_folder(folder)
    return found


def commit(disk: Disk, folder: str, base: int) -> None:
    """The new files, complete and synced as `.cleaned`, become the segment. Raises OSError."""
    stem = os.path.join(folder, f"{base:020d}")
    disk.rename(stem + LOG + CLEANED, stem + LOG + SWAP)
    disk.sync_folder(folder)
    disk.rename(stem + INDEX + CLEANED, stem + INDEX + SWAP)
    disk.sync_folder(folder)
    put_in_place(disk, folder, base, {f"{base:020d}{LOG}{SWAP}"})
    disk.sync_folder(folder)


def put_in_place(disk: Disk, folder: str, base: int, names: set[str]) -> None:
    """Gives the complete new files their names, the log first: the index's `.swap` says that it is not done."""
    stem = os.path.join(folder, f"{base:020d}")
    if f"{base:020d}{LOG}{SWAP}" in names:
        disk.rename(stem + LOG + SWAP, stem + LOG)
        disk.sync_folder(folder)
    disk.rename(stem + INDEX + SWAP, stem + INDEX)
