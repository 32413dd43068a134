"""The simulator's books of groups: what they take for a broken promise, and what not."""

import pytest

from tank_node.coordinators.machine.group_requests import CommittedOffset
from tank_protos.generated.kafka import GroupMetadataValue, JoinGroupResponse, JoinGroupResponseMember
from tank_protos.generated.kafka.group_metadata_value import MemberMetadata
from tests.simulation.books.committed import Committed
from tests.simulation.books.group_books import GroupBook
from tests.simulation.clients.group_assignors import COOPERATIVE, EAGER, shared
from tests.simulation.world.world import MS, Violation, World

PLACE = ("t0", 0)
EPOCH = 3
SESSION_MS = 1000


class Books:
    """Those of one group, whose partition is led in epoch 3."""

    def __init__(self) -> None:
        self.world = World(0)
        self.partition = Committed((1, 0))
        self.book = GroupBook(self.world, "g", self.partition)

    def store(self, generation: int, *members: str, leader: str = "", instance: str | None = None) -> None:
        """A whole image of these members, the last of which may be a static one."""
        image = GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol="range" if members else None,
            leader=leader or (members[0] if members else None),
            current_state_timestamp=1,
            members=[
                MemberMetadata(
                    member_id=name,
                    group_instance_id=instance if name == members[-1] else None,
                    session_timeout=SESSION_MS,
                    assignment=name.encode(),
                )
                for name in members
            ],
        )
        self.book.store_image(image)

    def joined(self, member_id: str, generation: int, epoch: int = EPOCH, leader: str = "m") -> None:
        members = [JoinGroupResponseMember(member_id)] if leader == member_id else []
        answer = JoinGroupResponse(
            generation_id=generation,
            protocol_name="range",
            leader=leader,
            member_id=member_id,
            members=members,
        )
        self.book.joined(self.book.before(), epoch, member_id, answer)

    def commit(self, text: str, offset: int = 1) -> None:
        self.book.store_offset(PLACE, CommittedOffset(offset, metadata=text))


@pytest.fixture
def books() -> Books:
    """A group of m and n in generation 2."""
    books = Books()
    books.store(2, "m", "n")
    books.joined("m", 2)
    return books


def test_a_generation_is_told_that_is_not_stored(books: Books) -> None:
    with pytest.raises(Violation, match="is told of generation 3, which is not stored"):
        books.joined("m", 3)


def test_a_generation_is_led_by_two(books: Books) -> None:
    with pytest.raises(Violation, match="generation 2 of group g is led by m and by n"):
        books.joined("n", 2, leader="n")
    with pytest.raises(Violation, match="generation 2 of group g is led by m and by n"):
        books.store(2, "m", "n", leader="n")


def test_the_generation_goes_back_in_the_log_or_in_an_answer(books: Books) -> None:
    books.store(3, "m", "n")
    books.joined("m", 3)
    with pytest.raises(Violation, match="is in generation 2, after 3 was told"):
        books.joined("m", 2)
    books.joined("m", 2, epoch=EPOCH - 1)  # one who has been replaced does not know
    with pytest.raises(Violation, match="goes back from 3 to 1"):
        books.store(1, "m")


def test_an_assignment_is_told_that_is_another_or_not_stored(books: Books) -> None:
    books.book.synced(books.book.before(), EPOCH, "n", 2, b"n")
    with pytest.raises(Violation, match="is told the assignment"):
        books.book.synced(books.book.before(), EPOCH, "n", 2, b"m")
    with pytest.raises(Violation, match="an assignment of generation 3, which is not stored"):
        books.book.synced(books.book.before(), EPOCH, "n", 3, b"n")


def test_a_process_goes_on_that_another_one_has_replaced(books: Books) -> None:
    books.store(3, "m", "old", instance="i")
    books.store(3, "m", "new", instance="i")
    asked = books.book.before()
    books.joined("new", 3)
    books.book.lived(asked, EPOCH, "old", 3)  # it asked before
    with pytest.raises(Violation, match="old of group g goes on"):
        books.book.lived(books.book.before(), EPOCH, "old", 3)


def test_a_process_of_the_leader_that_was_not_stored_may_be_named(books: Books) -> None:
    """The coordinator could not store that it took the place of an earlier one; then another one came."""
    books.store(3, "m", "i-1", leader="i-1", instance="i")
    books.store(3, "m", "i-3", leader="i-3", instance="i")
    books.joined("i-3", 3, leader="i-2")
    with pytest.raises(Violation, match="is led by i and by j-2"):
        books.joined("i-3", 3, leader="j-2")


def test_commits_are_shown_or_later_ones(books: Books) -> None:
    book = books.book
    books.commit("first")
    asked = book.before()
    book.kept(book.before(), EPOCH, "m", 2, {PLACE: "first"})
    book.fetched(asked, EPOCH, {PLACE: None})
    with pytest.raises(Violation, match="is shown no commit"):
        book.fetched(book.before(), EPOCH, {PLACE: None})
    books.commit("second", 2)
    book.fetched(book.before(), EPOCH, {PLACE: "second"})
    book.kept(book.before(), EPOCH, "m", 2, {PLACE: "second"})
    book.fetched(book.before(), EPOCH - 1, {PLACE: "first"})  # by one who has been replaced
    with pytest.raises(Violation, match="is shown commit first"):
        book.fetched(book.before(), EPOCH, {PLACE: "first"})
    with pytest.raises(Violation, match=r"commit third of .* is not stored"):
        book.kept(book.before(), EPOCH, "m", 2, {PLACE: "third"})


def test_a_commit_is_of_an_older_generation(books: Books) -> None:
    books.commit("first")
    with pytest.raises(Violation, match="a commit of generation 1 of group g is taken, after 2"):
        books.book.kept(books.book.before(), EPOCH, "m", 1, {PLACE: "first"})


def test_offsets_go_back_in_the_log_but_for_those_that_nobody_waits_for(books: Books) -> None:
    books.commit("first", 7)
    books.book.given_up.add("late")
    books.commit("late", 3)
    with pytest.raises(Violation, match=r"commits 2 of .* behind 3"):
        books.commit("other", 2)


def test_offsets_expire_of_members_that_are_silent(books: Books) -> None:
    books.commit("first")
    with pytest.raises(Violation, match="expired in group g, whose member m was served"):
        books.book.store_offset(PLACE, None)
    books.world.run_until(SESSION_MS * MS)
    books.book.store_offset(PLACE, None)


def test_a_lossy_election_and_changed_bytes_excuse_what_was_before(books: Books) -> None:
    asked = books.book.before()
    books.partition.lossy(EPOCH + 1)
    books.joined("m", 7)  # nobody knows what is stored
    books.partition.waits = False
    books.store(1, "m", "n")
    books.book.lived(asked, EPOCH, "m", 0)
    books.joined("m", 1, epoch=EPOCH + 1)
    with pytest.raises(Violation, match="generation 2, which is not stored"):
        books.joined("m", 2, epoch=EPOCH + 1)


def test_a_deleted_group_begins_anew(books: Books) -> None:
    books.book.store_image(None)
    books.store(1, "m")
    books.joined("m", 1)


def test_what_moves_under_the_cooperative_protocol_is_in_no_share_at_first() -> None:
    places = [("t0", 0), ("t0", 1)]
    nobody: frozenset[tuple[str, int]] = frozenset()
    assert shared(EAGER[0], {"a": frozenset(places), "b": nobody}, places) == {
        "a": [("t0", 0)],
        "b": [("t0", 1)],
    }
    given = shared(COOPERATIVE[0], {"a": frozenset(places), "b": nobody}, places)
    assert given == {"a": [("t0", 0)], "b": []}
    given = shared(COOPERATIVE[0], {"a": frozenset(places[:1]), "b": nobody}, places)
    assert given == {"a": [("t0", 0)], "b": [("t0", 1)]}
