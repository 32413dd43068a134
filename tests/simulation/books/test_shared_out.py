"""The simulator's books of groups whose coordinator shares the partitions out: what they take for a broken
promise, and what not."""

import pytest

from tank_node.coordinators.machine.topics import Place
from tank_node.coordinators.records.consumer_member import MemberStanding
from tank_node.coordinators.records.consumer_records import ConsumerRecord, KeyKind
from tests.simulation.books.committed import Committed
from tests.simulation.books.group_books import GroupBook
from tests.simulation.world.world import Violation, World

EPOCH = 3
TOPIC = bytes(15) + b"\1"


def places(*numbers: int) -> frozenset[Place]:
    return frozenset((TOPIC, number) for number in numbers)


class Books:
    """Those of one group, whose partition is led in epoch 3."""

    def __init__(self) -> None:
        self.book = GroupBook(World(0), "g", Committed((1, 0)))

    def store(self, *standings: tuple[str, MemberStanding | None], epoch: int = 1) -> None:
        """A batch with the group's epoch, and what members have; None: a member is gone."""
        self.book.store_share(ConsumerRecord("g", (KeyKind.GROUP, ""), epoch))
        for member_id, standing in standings:
            self.book.store_share(ConsumerRecord("g", (KeyKind.CURRENT, member_id), standing))
        self.book.batch_stored()

    def told(self, member_id: str, member_epoch: int, *numbers: int, epoch: int = EPOCH) -> None:
        given = {(TOPIC, number): ("t", number) for number in numbers}
        self.book.shared(self.book.before(), epoch, member_id, member_epoch, given)
        self.book.sharing.read_by[member_id] = frozenset(given.values())

    def hears(self, member_id: str, member_epoch: int, epoch: int = EPOCH) -> None:
        """An answer without partitions."""
        self.book.shared(self.book.before(), epoch, member_id, member_epoch, None)


def has(epoch: int, *numbers: int, revoking: tuple[int, ...] = ()) -> MemberStanding:
    return MemberStanding(epoch, assigned=places(*numbers), revoking=places(*revoking))


def test_members_hear_what_is_stored() -> None:
    books = Books()
    books.store(("a", has(1, 0, 1)))
    books.told("a", 1, 0, 1)
    books.hears("a", 1)
    books.store(("a", has(1, 0, revoking=(1,))), ("b", has(2)), epoch=2)
    books.told("a", 1, 0)
    books.store(("a", has(2, 0)), ("b", has(2, 1)), epoch=2)
    books.told("b", 2, 1)
    books.told("a", 2, 0)


def test_an_epoch_that_goes_back_is_seen() -> None:
    books = Books()
    books.store(epoch=4)
    with pytest.raises(Violation, match="goes back from 4 to 3"):
        books.store(epoch=3)


@pytest.mark.parametrize("other", [has(2, 1), has(2, revoking=(1,))])
def test_two_holders_of_a_partition_are_seen(other: MemberStanding) -> None:
    books = Books()
    books.store(("a", has(1, 0, 1)))
    with pytest.raises(Violation, match="partition 1 of group g is a's, and b's"):
        books.store(("b", other), epoch=2)


def test_a_partition_may_change_its_holder_in_one_batch() -> None:
    books = Books()
    books.store(("a", has(1, 0)))
    books.store(("b", has(2, 0)), ("a", None), epoch=2)
    books.told("b", 2, 0)


def test_what_is_told_before_it_is_stored_is_seen() -> None:
    books = Books()
    books.store(("a", has(1, 0)))
    with pytest.raises(Violation, match="told of epoch 1 and the partitions"):
        books.told("a", 1, 0, 1)
    with pytest.raises(Violation, match="told of epoch 2 and the partitions"):
        books.hears("a", 2)


def test_a_reader_who_was_not_asked_to_stop_is_seen() -> None:
    books = Books()
    books.store(("a", has(1, 0, 1)))
    books.told("a", 1, 0, 1)
    books.store(("a", has(2, 0)), ("b", has(2, 1)), epoch=2)
    with pytest.raises(Violation, match=r"b of group g is given .* which a reads"):
        books.told("b", 2, 1)


def test_a_reader_who_is_no_member_any_more_is_none() -> None:
    books = Books()
    books.store(("a", has(1, 0)))
    books.told("a", 1, 0)
    books.store(("a", None), ("b", has(2, 0)), epoch=2)
    books.told("b", 2, 0)


def test_an_answer_that_comes_after_its_members_session_gives_it_nothing() -> None:
    books = Books()
    books.store(("a", has(1, 0)))
    books.store(("a", None), ("b", has(3, 0)), epoch=3)
    books.told("b", 3, 0)
    books.told("a", 1, 0)


def test_a_coordinator_of_before_may_say_what_was_so_before() -> None:
    books = Books()
    books.store(("a", has(1, 0)))
    books.told("a", 1, 0)
    books.store(("a", None), ("b", has(2, 0)), epoch=2)
    books.told("b", 2, 0, epoch=EPOCH + 1)
    books.told("a", 1, 0, epoch=EPOCH)


def test_a_member_that_goes_back_is_seen() -> None:
    books = Books()
    books.store(("a", has(1)))
    books.store(("a", has(2)), epoch=2)
    books.hears("a", 2)
    with pytest.raises(Violation, match="is told of epoch 1, after it was told of 2"):
        books.hears("a", 1)
    with pytest.raises(Violation, match="commits in epoch 1, after it was told of 2"):
        books.book.kept(books.book.before(), EPOCH, "a", 1, {("t", 0): "text"})


def test_a_group_that_is_deleted_begins_anew() -> None:
    books = Books()
    books.store(("a", has(5)), epoch=5)
    books.store(("a", None), epoch=5)
    books.book.store_share(ConsumerRecord("g", (KeyKind.GROUP, ""), None))
    books.store(("a", has(1)), epoch=1)
    books.hears("a", 1)
