"""Snapshots of what is remembered of producers, where no record says the same, on a disk that refuses."""

import errno
import os
from collections.abc import Callable
from random import Random

import pytest

from tank_node.disk import Entry
from tank_node.log.producers import Outcome, Producers, ProducerVerdict
from tank_node.log.refill import begin_anew
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import DiskFailed, StorageError, TooManyOpenFiles
from tests.support.nodes.replicas import with_memory
from tests.support.storage.logs import FOLDER, Folder, append

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


@pytest.mark.parametrize(("refuse", "asked"), [(refuse_to_open, 9), (refuse_to_list, 10)])
@pytest.mark.parametrize(
    ("number", "raised"),
    [(errno.EMFILE, TooManyOpenFiles), (errno.ENFILE, TooManyOpenFiles), (errno.EIO, DiskFailed)],
)
def test_what_cannot_be_read_is_not_taken_for_nothing(
    refuse: Callable[[Folder, int, pytest.MonkeyPatch], None],
    asked: int,
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
            log.producers_before(asked)
        with pytest.raises(raised):
            log.tail.check_producer(9, 0, 2, 1)
        with pytest.raises(raised):
            append(log, b"first", producer=(7, 0, 0))
    assert len(Producers.restore(log.producers_before(asked))) == 2
    assert log.tail.check_producer(9, 0, 2, 1) == KNOWN
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
    assert log.tail.check_producer(9, 0, 2, 1) == KNOWN
    assert log.tail.check_producer(9, 0, 3, 1) == ProducerVerdict(Outcome.REPEAT, 17, 17)


def test_a_follower_gets_the_snapshot_as_it_lies_there(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = with_memory()
    log, content = folder.log(), folder.fault.content(snapshot(9))
    restored: list[bytes] = []
    monkeypatch.setattr(Producers, "restore", restored.append)
    assert log.producers_before(9) == content
    assert not restored, "nobody reads 100,000 producers for it"


def test_a_snapshot_that_tells_of_nobody_is_not_sent() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=100, replication_factor=3))
    log = folder.log()
    for number in range(12):
        append(log, b"%05d" % number * 6)
    log.retain_from(9)
    start = log.first_available
    assert len(Producers.restore(folder.fault.content(snapshot(start)))) == 0
    assert log.producers_before(start) == b""


@pytest.mark.parametrize("left", [b"", b"torn"])
def test_a_snapshot_that_is_torn_is_made_again_of_the_older_one_and_the_records(left: bytes) -> None:
    folder = with_memory()
    log = folder.log()
    last = append(log, b"x" * 90, producer=(9, 0, 3))[1]
    append(log, b"x" * 90)
    whole = log.producers_before(last + 1)
    folder.fault.overwrite(snapshot(last + 1), left)
    assert log.producers_before(last + 1) == whole


@pytest.mark.parametrize("seed", range(8))
def test_a_stop_leaves_the_snapshot_that_nothing_else_says(seed: int) -> None:
    """Of a log that is empty since retention took all, or since it was filled anew."""
    leader, folder = with_memory().log(), Folder(settings=LogSettings(replication_factor=3))
    log = folder.log()
    begin_anew(log, 9, 1, leader.producers_before(9))
    log.flush()
    assert log.tail.check_producer(9, 0, 2, 1) == KNOWN
    folder.data.close()
    folder.fault.lose_power(Random(seed))
    log = folder.reopen_after_power_loss()
    assert log.tail.check_producer(9, 0, 2, 1) == KNOWN


def test_a_stop_writes_a_torn_snapshot_anew() -> None:
    folder = with_memory()
    log = folder.log()
    log.roll()
    path = snapshot(log.written + 1)
    whole = folder.fault.content(path)
    folder.fault.overwrite(path, whole[:9])
    folder.data.close()
    assert folder.fault.content(path) == whole


@pytest.mark.parametrize("left", [None, b"torn"])
def test_retention_makes_anew_what_a_loss_of_power_has_left_of_a_snapshot(left: bytes | None) -> None:
    """A roll writes it without an fsync, and what retention takes says the same."""
    folder = Folder(settings=LogSettings(replication_factor=3))
    log = folder.log()
    append(log, b"a", producer=(9, 0, 0))
    log.roll()
    append(log, b"b")
    log.flush()
    if left is None:
        folder.fault.delete(snapshot(2))
    else:
        folder.fault.overwrite(snapshot(2), left)
    log = folder.kill()
    log.retain_from(2)
    log = folder.kill()
    assert log.tail.check_producer(9, 0, 0, 1).outcome is Outcome.REPEAT
