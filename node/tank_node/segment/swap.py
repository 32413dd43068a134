"""Replacing a segment's files, and removing them, so that a crash leaves a whole segment or none.

New files are written as `.cleaned`, synced and renamed to `.swap`, the index last: `<base>.index.swap` says
that both are complete. Then they get the old names. A removal begins by renaming the index to
`<base>.index.deleted`; so a log without an index, or the reverse, is damage. The next opening of the folder
finishes what a crash interrupted.
"""

import contextlib
import os
from collections.abc import Sequence

from tank_node.disk import Disk, Entry
from tank_node.segment.segment import INDEX, LOG, PRODUCERS

CLEANED = ".cleaned"
SWAP = ".swap"
DAMAGED = ".damaged"
DELETED = ".deleted"


def finish_swaps(disk: Disk, folder: str, entries: Sequence[Entry]) -> bool:
    """Finishes or undoes the swaps and removals that a crash interrupted. Returns whether there were any.
    Raises OSError."""
    if not any(entry.name.endswith((CLEANED, SWAP, DELETED)) for entry in entries):
        return False
    names = {entry.name for entry in entries}
    found = False
    # First: a segment may have been removed while its new files were there, and these go with it.
    for name in sorted(name for name in names if name.endswith(INDEX + DELETED)):
        if name.removesuffix(DELETED) in names:  # a newer segment of the same name
            disk.remove(os.path.join(folder, name))
        else:
            remove(disk, folder, int(name[:20]))
            names -= {name[:20] + suffix for suffix in (INDEX + SWAP, LOG + SWAP)}
        found = True
    for name in sorted(names):
        if name.endswith(CLEANED) or (name.endswith(LOG + SWAP) and name[:20] + INDEX + SWAP not in names):
            disk.remove(os.path.join(folder, name))
            found = True
        elif name.endswith(INDEX + SWAP):
            put_in_place(disk, folder, int(name[:20]))
            found = True
    if found:
        disk.sync_folder(folder)
    return found


def prepare(disk: Disk, folder: str, base: int) -> None:
    """Marks the new files, synced as `.cleaned`, as complete: from now on they replace the old ones, even
    after a crash. Raises OSError."""
    stem = _stem(folder, base)
    disk.rename(stem + LOG + CLEANED, stem + LOG + SWAP)
    disk.sync_folder(folder)
    disk.rename(stem + INDEX + CLEANED, stem + INDEX + SWAP)
    disk.sync_folder(folder)


def put_in_place(disk: Disk, folder: str, base: int) -> None:
    """Gives the complete new files the old names, the index last. Raises OSError.

    The folder need not be synced: a file system with a journal keeps the order of renames, and while the
    index is still named `.swap` the next start repeats this.
    """
    stem = _stem(folder, base)
    if disk.exists(stem + LOG + SWAP):
        disk.rename(stem + LOG + SWAP, stem + LOG)
    disk.rename(stem + INDEX + SWAP, stem + INDEX)


def discard(disk: Disk, folder: str, base: int) -> None:
    """Removes new files that are not wanted any more, as far as they exist. Raises OSError."""
    stem = _stem(folder, base)
    for suffix in (INDEX + SWAP, LOG + SWAP):
        with contextlib.suppress(FileNotFoundError):
            disk.remove(stem + suffix)


def remove(disk: Disk, folder: str, base: int) -> None:
    """Removes a segment's files, as far as they exist. Raises OSError."""
    stem = _stem(folder, base)
    try:
        disk.rename(stem + INDEX, stem + INDEX + DELETED)
    except FileNotFoundError:
        pass
    except OSError:  # a full disk may have no room for the new name; without its index no batch exists
        disk.remove(stem + INDEX)
    for suffix in (INDEX + SWAP, LOG + SWAP, LOG, PRODUCERS, INDEX + DELETED):
        with contextlib.suppress(FileNotFoundError):
            disk.remove(stem + suffix)


def _stem(folder: str, base: int) -> str:
    return os.path.join(folder, f"{base:020d}")
