"""What a data folder takes up on its disk, for `tank status`; cheap enough to be asked for at any time."""

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass

from tank_node.disk import Space, tree_bytes
from tank_node.log.record import RECORD_BYTES
from tank_node.store.data_folder import DataFolder

logger = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class FolderUsage:
    """One moment of a data folder. `space` None: the system does not tell."""

    path: str
    data_bytes: int
    """Batches and index records of all logs, without what is allocated ahead and without stray folders."""
    space: Space | None
    open_files: int
    strays: list[tuple[str, int]]
    """Folders that were set aside, by name, with what they held when the process started."""


def measure_strays(folder: DataFolder, names: Iterable[str]) -> dict[str, int]:
    """The sizes of folders that were set aside. They are measured once: nobody writes to them any more."""
    sizes = {}
    for name in names:
        try:
            sizes[name] = tree_bytes(folder.disk, os.path.join(folder.path, "topics", name))
        except OSError as error:
            logger.error("cannot look into %s: %s", name, error.strerror)
            sizes[name] = 0
    return sizes


def space_of(folder: DataFolder) -> Space | None:
    """Of the disk that it is on, now. None: the system does not tell."""
    try:
        return folder.disk.space(folder.path)
    except OSError as error:
        logger.error("cannot ask for the room on the disk of %s: %s", folder.path, error.strerror)
        return None


def usage_of(folder: DataFolder, strays: dict[str, int]) -> FolderUsage:
    """The folder as it is now; a stray folder that somebody has removed is not told any more."""
    records = sum(segment.count for log in folder.logs.values() for segment in log.segments)
    topics = os.path.join(folder.path, "topics")
    return FolderUsage(
        path=folder.path,
        data_bytes=sum(log.size_bytes for log in folder.logs.values()) + records * RECORD_BYTES,
        space=space_of(folder),
        open_files=len(folder.files),
        strays=[
            (name, size)
            for name, size in sorted(strays.items())
            if folder.disk.exists(os.path.join(topics, name))
        ],
    )
