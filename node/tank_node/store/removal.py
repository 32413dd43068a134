"""Deleting folders of logs in two steps: a rename at once, so that a half-deleted folder is never found under
its name, and the slow removal afterwards."""

import logging
import os
from collections.abc import Callable

from tank_node.disk import Disk

logger = logging.getLogger(__name__)

_DELETED = ".deleted-"


class Removal:
    """Deletes folders of one data folder. The next start removes what a crash leaves."""

    def __init__(self, disk: Disk, topics: str) -> None:
        """topics: the parent of all topics' folders."""
        self.run: Callable[[Callable[[], None]], None] = _here
        """Runs the slow removal; a thread may do it."""
        self._disk = disk
        self._topics = topics

    def remove(self, path: str, name: str) -> None:
        """Deletes a folder; name: its topic and partition, for the folder's new name. Raises OSError, with
        nothing changed."""
        count = 1
        # An earlier folder of that name may still be under removal.
        while self._disk.exists(gone := os.path.join(self._topics, f"{_DELETED}{name}-{count}")):
            count += 1
        self._disk.rename(path, gone)
        self.run(lambda: self._free(gone))

    def goes_on(self, name: str) -> bool:
        """Whether an earlier process renamed this folder for removal; if so, removes it."""
        if not name.startswith(_DELETED):
            return False
        self.run(lambda: self._free(os.path.join(self._topics, name)))
        return True

    def _free(self, path: str) -> None:
        try:
            # First the new name: a loss of power must not bring the old one back with a part of its files.
            self._disk.sync_folder(self._topics)
            self._disk.remove_tree(path)
        except OSError as error:
            logger.error("cannot delete %s: %s; the next start tries again", path, error.strerror)


def _here(job: Callable[[], None]) -> None:
    job()
