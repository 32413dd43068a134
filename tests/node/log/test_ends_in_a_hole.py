"""A follower's log that ends in numbers without batches, when another leader has batches there: a first batch
that a client put far ahead was never committed, or its leader had begun behind what retention took."""

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import PartitionLog
from tank_node.log.pushed import append_stretch
from tank_node.log.refill import begin_anew
from tank_node.log.settings import LogSettings
from tests.support.nodes.replicas import assert_copies, push, stretch_of
from tests.support.storage.logs import Folder, append, append_sparse, read_all

FAR = 1_000_000
REPLICATED = LogSettings(replication_factor=3)


def leader_of(first: int, last: int, epoch: int) -> PartitionLog:
    log = Folder(settings=REPLICATED).log()
    if first > 1:
        begin_anew(log, first, 1)
    while log.last < last:
        append(log, b"%d" % (log.last + 1), epoch=epoch)
    return log


def names(folder: Folder) -> list[int]:
    return [int(path[-24:-4]) for path in folder.fault.paths(".log")]


def begun_far_ahead(*, with_batch: bool) -> Folder:
    """A follower whose first leader's log began at a number that a client chose. Nobody else has that."""
    folder = Folder(settings=REPLICATED)
    follower = folder.log()
    begin_anew(follower, FAR, 0)
    if with_batch:
        first = Folder(settings=REPLICATED).log()
        append_sparse(first, [FAR], b"never committed")
        append_stretch(follower, stretch_of(first, 1)._replace(start=FAR), 0)
    follower.flush()
    return folder


@pytest.mark.parametrize("with_batch", [True, False])
def test_the_next_leaders_low_numbers_are_synced_by_an_fsync_and_survive(with_batch: bool) -> None:
    folder = begun_far_ahead(with_batch=with_batch)
    follower, leader = folder.log(), leader_of(1, 5, epoch=2)
    append_stretch(follower, stretch_of(leader, 1), 0)
    assert (follower.last, follower.synced, follower.epochs) == (5, 0, [(2, 1)])
    assert names(folder) == [1], "the name is of the end before it"
    assert_copies(leader, follower)
    after = folder.kill()
    assert read_all(after) == read_all(leader)
    assert (after.first_available, after.epochs) == (1, [(2, 1)])


def test_what_is_committed_and_gone_here_is_not_taken_again() -> None:
    """The leader before had dropped it: this replica began behind it, and forgot the epoch there."""
    folder = Folder(settings=REPLICATED)
    follower, leader = folder.log(), leader_of(101, 200, epoch=1)
    begin_anew(follower, 151, 1)
    push(leader, follower, start=101, keep=150, max_bytes=1)
    assert (follower.last, follower.segments[0].base, follower.segments[0].first) == (200, 151, 151)
    kept = {n: b"%d" % n for n in range(151, 201)}
    assert read_all(follower) == kept
    assert read_all(folder.kill()) == kept


def test_where_only_a_part_is_committed_the_rest_is_taken() -> None:
    folder = Folder(settings=REPLICATED)
    follower, leader = folder.log(), leader_of(101, 200, epoch=1)
    begin_anew(follower, 151, 1)
    append_stretch(follower, stretch_of(leader, 101), 120)
    assert (follower.last, names(folder)) == (200, [121])
    kept = {n: b"%d" % n for n in range(121, 201)}
    assert read_all(follower) == kept
    assert read_all(folder.kill()) == kept


def test_a_batch_that_the_leader_has_compacted_away_is_no_hole() -> None:
    """It is committed, and the replica is in sync with it: an end below it must never be found."""
    settings = LogSettings(compact=True, min_cleanable_ratio=0.0, replication_factor=3)
    leader, theirs = Folder(settings=settings).log(), Folder(settings=settings)
    for number in range(6):
        append(leader, b"v%d" % number, keys=[b"k"])
    follower = theirs.log()
    push(leader, follower)
    follower.flush()
    append(leader, b"new", keys=[b"k"])
    leader.roll()
    leader.flush()
    maintain(leader, 10_000, leader.last)
    assert len(read_all(leader)) == 1
    held = read_all(follower)
    append_stretch(follower, stretch_of(leader, 1), 0)
    assert read_all(follower) == held | read_all(leader)
    assert follower.synced == 6
