"""Folders of logs that go: renamed at once, so that half of one is never found under its name, and removed
afterwards, which takes as long as they are large."""

import logging
import os
from collections.abc import Callable

from tank_node.disk import Disk

logger = logging.getLogger(__name__)

_DELETED = ".deleted-"


class Removal:
    """Of one data folder. What a crash leaves of it, the next start removes."""

    def __init__(self, disk: Disk, topics: str) -> None:
        """topics: the folder above those of all topics."""
        self.run: Callable[[Callable[[], None]], None] = _here
        """Does what takes long; a thread may."""
        self._disk = disk
        self._topics = topics

    def remove(self, path: str, name: str) -> None:
        """A folder goes; `name` says whose it was. Raises OSError, with nothing changed."""
        count = 1
        # An earlier one may be on its way still, or stuck.
        while self._disk.exists(gone := os.path.join(self._topics, f"{_DELETED}{name}-{count}")):
            count += 1
        self._disk.rename(path, gone)
        self.run(lambda: self._free(gone))

    def goes_on(self, name: str) -> bool:
        """Whether an earlier process has renamed it for removal; then it is removed."""
        if not name.startswith(_DELETED):
            return False
        self.run(lambda: self._free(os.path.join(self._topics, name)))
        return True

    def _free(self, path: str) -> None:
        try:
            self._disk.remove_tree(path)
        except OSError as error:
            logger.error("cannot delete %s: %s; the next start tries again", path, error.strerror)


def _here(job: Callable[[], None]) -> None:
    job()
