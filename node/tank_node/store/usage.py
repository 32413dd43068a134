"""The sizes of a data folder and its volume, for `tank status` and the metrics; cheap enough to ask at any
time."""

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass

from tank_node.disk import Space, tree_bytes
from tank_node.segment.record import RECORD_BYTES
from tank_node.store.data_folder import DataFolder

logger = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class FolderUsage:
    """The sizes of a data folder at one moment. space None: the system doesn't say."""

    path: str
    data_bytes: int
    """Batches and index records of all logs, without what is allocated ahead and without stray folders."""
    space: Space | None
    open_files: int
    strays: list[tuple[str, int]]
    """Folders that were set aside: (name, bytes when the process started)."""


def measure_strays(folder: DataFolder, names: Iterable[str]) -> dict[str, int]:
    """The sizes of folders that were set aside, by name. One measurement is enough: they don't change."""
    sizes = {}
    for name in names:
        try:
            sizes[name] = tree_bytes(folder.disk, os.path.join(folder.path, "topics", name))
        except OSError as error:
            logger.error("cannot measure the folder %s, it counts as empty: %s", name, error.strerror)
            sizes[name] = 0
    return sizes


def space_of(folder: DataFolder) -> Space | None:
    """The free and total space of the folder's volume; None when the system doesn't say."""
    try:
        return folder.disk.space(folder.path)
    except OSError as error:
        logger.error("cannot ask for the free space on the volume of %s: %s", folder.path, error.strerror)
        return None


def usage_of(folder: DataFolder, strays: dict[str, int]) -> FolderUsage:
    """The sizes of a folder now. Leaves out folders that were set aside and have been removed since."""
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
