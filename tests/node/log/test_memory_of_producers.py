"""Snapshots of what is remembered of producers, where no record says the same, on a disk that refuses."""

import errno
import os
from collections.abc import Callable

import pytest

from tank_node.disk import Entry
from tank_node.log.errors import DiskFailed, StorageError, TooManyOpenFiles
from tank_node.log.producers import Outcome, Producers, ProducerVerdict
from tests.support.logs import FOLDER, Folder, append
from tests.support.replicas import with_memory

KNOWN = ProducerVerdict(Outcome.REPEAT, 3, 3)
"""What a log says to batch 2 of producer 9 that remembers it."""


def snapshot(first: int) -> str:
    return f"{FOLDER}/{first:020d}.producers"


def refuse_to_open(folder: Folder, number: int, patch: pytest.MonkeyPatch) -> None:
    """No snapshot can be opened any more."""
    opens = folder.fault.open

    def opened(path: str, *, create: bool = False) -> int:
        if path.endswith(".producers"):
            raise OSError(number, os.strerror(number))
        return opens(path, create=create)

    patch.setattr(folder.fault, "open", opened)


def refuse_to_list(folder: Folder, number: int, patch: pytest.MonkeyPatch) -> None:
    """The folder cannot be looked into."""

    def entries(path: str) -> list[Entry]:
        raise OSError(number, os.strerror(number))

    patch.setattr(folder.fault, "entries", entries)


@pytest.mark.parametrize("refuse", [refuse_to_open, refuse_to_list])
@pytest.mark.parametrize(
    ("number", "raised"),
    [(errno.EMFILE, TooManyOpenFiles), (errno.ENFILE, TooManyOpenFiles), (errno.EIO, DiskFailed)],
)
def test_what_cannot_be_read_is_not_taken_for_nothing(
    refuse: Callable[[Folder, int, pytest.MonkeyPatch], None],
    number: int,
    raised: type[StorageError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither by the leader itself nor for a follower, which would never learn it."""
    folder = with_memory()
    log = folder.kill()
    with monkeypatch.context() as refusing:
        refuse(folder, number, refusing)
        with pytest.raises(raised):
            log.producers_before(9)
        with pytest.raises(raised):
            log.check_producer(9, 0, 2, 1)
        with pytest.raises(raised):
            append(log, b"first", producer=(7, 0, 0))
    assert len(Producers.restore(log.producers_before(9))) == 2
    assert log.check_producer(9, 0, 2, 1) == KNOWN
    append(log, b"first", producer=(7, 0, 0))


def test_where_records_say_the_same_one_snapshot_that_cannot_be_read_is_done_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = with_memory()
    log = folder.log()
    first, *later = [int(path[-30:-10]) for path in folder.fault.paths(".producers")]
    assert (first, len(later) > 1) == (9, True)
    append(log, b"x", producer=(9, 0, 3))
    log = folder.reopen()
    opens = folder.fault.open

    def opened(path: str, *, create: bool = False) -> int:
        if path.endswith(".producers") and path != snapshot(9):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opens(path, create=create)

    monkeypatch.setattr(folder.fault, "open", opened)
    assert log.check_producer(9, 0, 2, 1) == KNOWN
    assert log.check_producer(9, 0, 3, 1) == ProducerVerdict(Outcome.REPEAT, 17, 17)
