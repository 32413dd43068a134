"""Putting a rewritten segment in an old one's place, and removing one: a crash leaves a whole one, or none.

The new files are written as `.cleaned`, synced and renamed to `.swap`, the index last: `<first>.index.swap`
says that both are complete. Then they take the old names. A segment goes by its index's new name,
`<first>.index.deleted`, in one step: an index without a log, or a log without an index, is never our doing.
Whoever opens the folder ends what was begun.
"""

import contextlib
import os
from collections.abc import Sequence

from tank_node.disk import Disk, Entry
from tank_node.log.segment import INDEX, LOG, PRODUCERS

CLEANED = ".cleaned"
SWAP = ".swap"
DAMAGED = ".damaged"
DELETED = ".deleted"


def finish_swaps(disk: Disk, folder: str, entries: Sequence[Entry]) -> bool:
    """Ends or undoes what a crash interrupted; whether there was anything. Raises OSError."""
    if not any(entry.name.endswith((CLEANED, SWAP, DELETED)) for entry in entries):
        return False
    names = {entry.name for entry in entries}
    found = False
    for name in sorted(names):
        if name.endswith(CLEANED) or (name.endswith(LOG + SWAP) and name[:20] + INDEX + SWAP not in names):
            disk.remove(os.path.join(folder, name))
            found = True
        elif name.endswith(INDEX + SWAP):
            put_in_place(disk, folder, int(name[:20]))
            found = True
        elif name.endswith(INDEX + DELETED):
            if name.removesuffix(DELETED) in names:  # a newer segment of the same name
                disk.remove(os.path.join(folder, name))
            else:
                remove(disk, folder, int(name[:20]))
            found = True
    if found:
        disk.sync_folder(folder)
    return found


def prepare(disk: Disk, folder: str, base: int) -> None:
    """The new files, synced as `.cleaned`, are complete and will replace the old ones. Raises OSError."""
    stem = _stem(folder, base)
    disk.rename(stem + LOG + CLEANED, stem + LOG + SWAP)
    disk.sync_folder(folder)
    disk.rename(stem + INDEX + CLEANED, stem + INDEX + SWAP)
    disk.sync_folder(folder)


def put_in_place(disk: Disk, folder: str, base: int) -> None:
    """Gives the complete new files their names, the index last: its `.swap` says that it is not done.

    The folder is not synced: names change in order on every file system with a journal, and until they have,
    the `.swap` is found again.
    """
    stem = _stem(folder, base)
    if disk.exists(stem + LOG + SWAP):
        disk.rename(stem + LOG + SWAP, stem + LOG)
    disk.rename(stem + INDEX + SWAP, stem + INDEX)


def discard(disk: Disk, folder: str, base: int) -> None:
    """The new files are not wanted any more. Raises OSError."""
    stem = _stem(folder, base)
    disk.remove(stem + INDEX + SWAP)
    disk.remove(stem + LOG + SWAP)


def remove(disk: Disk, folder: str, base: int) -> None:
    """Removes a segment's files, or what is left of them. Raises OSError."""
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
