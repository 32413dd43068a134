"""What the books say to logs that have lost something, or hold something else: nothing excuses it."""

import pytest

from tank_node.limits import Limits
from tank_node.log.log import PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.metrics import Metrics
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Tick
from tank_node.refusal_log import RefusalLog
from tank_node.segment.record import REWRITTEN, SPARSE
from tank_protos import bundle
from tests.simulation.books.committed import Committed
from tests.simulation.books.message_books import MessageBooks, Seen
from tests.simulation.books.replicas import differences
from tests.simulation.books.stored_batches import Batch, same, stored
from tests.simulation.world.world import Violation, World
from tests.support.nodes.replicas import push
from tests.support.storage.logs import TOPIC, Folder, append

SMALL = LogSettings(segment_bytes=100, replication_factor=3)
COUNT = 12


def replica(log: PartitionLog) -> Partition:
    """At rest, with its mark at its end."""
    made = Partition(
        "t",
        0,
        log,
        tick=Tick(),
        limits=Limits(),
        metrics=Metrics(),
        refusals=RefusalLog(Metrics()),
        on_failure=lambda partition, error: None,
    )
    made.high_water_mark = log.high_water_mark = log.written
    return made


def filled(count: int = COUNT, *, value: bytes = b"message", epoch: int = 1) -> PartitionLog:
    """So many messages, one a batch, two a segment."""
    log = Folder(settings=SMALL).log()
    for number in range(count):
        append(log, b"%b %05d" % (value, number) * 2, epoch=epoch)
    return log


def copy_of(leader: PartitionLog) -> PartitionLog:
    """A follower that has everything."""
    log = Folder(settings=SMALL).log()
    push(leader, log)
    return log


@pytest.fixture
def leader() -> PartitionLog:
    return filled()


@pytest.fixture
def books(leader: PartitionLog) -> MessageBooks:
    """All of it is committed."""
    books = MessageBooks(World(0))
    for record, data in stored(leader, 0, COUNT):
        of(books).commit(Batch.of(record, data), 1)
    return books


def of(books: MessageBooks) -> Committed:
    return books.of((TOPIC, 0))


def test_a_copy_of_everything_is_well(books: MessageBooks, leader: PartitionLog) -> None:
    books.check_rest("b1", replica(copy_of(leader)))
    assert not differences([replica(leader), replica(copy_of(leader))])


def test_a_loss_at_all_replicas_is_seen_though_they_are_the_same(
    books: MessageBooks, leader: PartitionLog
) -> None:
    leader.truncate_to(COUNT - 1)
    assert not differences([replica(leader), replica(copy_of(leader))])
    with pytest.raises(Violation, match="without the committed batch at 12"):
        books.check_rest("b1", replica(leader))


def test_what_was_never_committed_is_seen_at_rest(books: MessageBooks, leader: PartitionLog) -> None:
    append(leader, b"more")
    with pytest.raises(Violation, match="with 13, committed is 12"):
        books.check_rest("b1", replica(leader))


def test_a_log_start_excuses_no_loss_where_everything_is_retained(
    books: MessageBooks, leader: PartitionLog
) -> None:
    follower = copy_of(leader)
    follower.retain_from(5)
    with pytest.raises(Violation, match="without the committed batch at 1 "):
        books.check_rest("b1", replica(follower))


def test_a_log_start_excuses_no_more_than_retention_may_take(
    books: MessageBooks, leader: PartitionLog
) -> None:
    of(books).retains, of(books).retained = True, 5
    follower = copy_of(leader)
    follower.retain_from(5)
    books.check_rest("b1", replica(follower))
    follower.retain_from(follower.written)
    with pytest.raises(Violation, match="without the committed batch at 5 "):
        books.check_rest("b1", replica(follower))


def test_what_retention_may_take_may_be_gone_and_never_another(
    books: MessageBooks, leader: PartitionLog
) -> None:
    of(books).retains, of(books).retained = True, 5
    leader.truncate_to(2)
    append(leader, b"another")
    for number in range(3, COUNT):
        append(leader, b"message %05d" % number * 2)
    with pytest.raises(Violation, match="with another batch at 3 "):
        books.check_rest("b1", replica(leader))


def test_replicas_agree_below_a_lossy_election_too(leader: PartitionLog) -> None:
    other = filled(value=b"another")
    for log in (leader, other):
        append(log, b"behind the election", epoch=2)
    assert differences([replica(leader), replica(other)]) == "different batches at 1 and 1"


def test_a_batch_in_a_segment_that_was_written_anew_is_what_it_was(leader: PartitionLog) -> None:
    record, data = next(stored(leader, 0, 1))
    anew = record._replace(flags=record.flags | REWRITTEN, crc=record.crc ^ 1)
    assert same(record, data, anew, data)
    assert same(anew, data, record, data), "whichever of the two wrote it anew"
    assert not same(record, data, anew, bytes(len(data)))
    assert not same(record, data, anew._replace(leader_epoch=2), data), "the logs part there"


def test_a_lossy_election_that_can_have_lost_nothing_excuses_nothing(
    books: MessageBooks, leader: PartitionLog
) -> None:
    books.lossy((TOPIC, 0), 2, may_lose=False)
    books.check_rest("b1", replica(leader))
    leader.truncate_to(COUNT - 1)
    with pytest.raises(Violation, match="without the committed batch at 12"):
        books.check_rest("b1", replica(leader))


def test_what_the_chosen_replica_has_compacted_out_of_a_batch_others_may_keep() -> None:
    whole = Folder(settings=SMALL).log()
    append(whole, b"old", b"other", keys=[b"k", b"l"])
    append(whole, b"new", keys=[b"k"])
    books = MessageBooks(World(0))
    of(books).compacts = True
    for record, data in stored(whole, 0, 3):
        of(books).commit(Batch.of(record, data), 1)
    of(books).lossy(2)
    for record, data in stored(whole, 0, 3):
        if record.first == 1:  # all that the chosen one has of it
            data = bundle.as_batch(bundle.encode_sparse([2], [b"other"], timestamps=[1], keys=[b"l"]))
            record = record._replace(flags=record.flags | SPARSE | REWRITTEN, messages=1, length=len(data))
        of(books).commit(Batch.of(record, data), 2)
    books.check_rest("b1", replica(whole))
    of(books).newest[b"k"] = 1
    with pytest.raises(Violation, match="with another batch at 1 "):
        books.check_rest("b1", replica(whole))


def test_a_message_of_before_a_lossy_election_is_not_excused_at_another_number() -> None:
    chosen = Folder(settings=SMALL).log()
    append(chosen, b"first", b"other", keys=[b"k", b"l"])
    append(chosen, b"old", b"new", keys=[b"k", b"k"])
    books = MessageBooks(World(0))
    of(books).compacts = True
    for record, data in stored(chosen, 0, 4):
        of(books).commit(Batch.of(record, data), 1)
    of(books).lossy(2)
    for record, data in stored(chosen, 0, 4):
        of(books).commit(Batch.of(record, data), 2)
    books.check_rest("b1", replica(chosen))
    moved = Folder(settings=SMALL).log()
    append(moved, b"old", b"other", keys=[b"k", b"l"])
    append(moved, b"old", b"new", keys=[b"k", b"k"])
    with pytest.raises(Violation, match="with another batch at 1 "):
        books.check_rest("b1", replica(moved))


def test_a_mark_does_not_go_back_over_an_orderly_stop(books: MessageBooks, leader: PartitionLog) -> None:
    partition = replica(leader)
    books.look("b1", (1, 1), partition, Seen(stopped_at=COUNT))
    partition.high_water_mark = COUNT - 1
    with pytest.raises(Violation, match="was 12 at its stop, and is 11"):
        books.look("b1", (1, 2), partition, Seen(stopped_at=COUNT))


def test_changed_bytes_excuse_a_replica_until_it_is_whole_again(
    books: MessageBooks, leader: PartitionLog
) -> None:
    of(books).spoiled.add("b1")
    books.check_rest("b1", replica(leader))
    assert not of(books).spoiled
