"""The books of the simulator: what they let pass after a lossy election, and what they never do."""

import pytest

from tests.simulation.books.committed import Committed
from tests.simulation.books.message_books import MessageBooks
from tests.simulation.books.written_books import KEY, committed
from tests.simulation.world.world import Violation, World


@pytest.fixture
def books() -> MessageBooks:
    books = MessageBooks(World(0))
    committed(books.of(KEY), 1, b"a", b"b")
    committed(books.of(KEY), 3, b"c", epoch=3)
    return books


def test_acknowledged_means_committed_and_where_it_was_said(books: MessageBooks) -> None:
    books.acknowledged(KEY, b"b", 2)
    with pytest.raises(Violation, match="acknowledged before it is committed"):
        books.acknowledged(KEY, b"new")
    with pytest.raises(Violation, match="acknowledged at 1 and stored at"):
        books.acknowledged(KEY, b"b", 1)


def test_retention_may_take_messages_in_the_event_that_commits_them_alone(
    books: MessageBooks,
) -> None:
    of_key = books.of(KEY)
    of_key.note_unseen(6)
    assert not of_key.unseen, "the topic keeps all messages"
    of_key.retains = True
    of_key.note_unseen(6)  # a leader's log begins with 6; 4 and 5 were never looked at
    committed(of_key, 6, b"f", epoch=3)
    books.acknowledged(KEY, b"d", 4)
    with pytest.raises(Violation, match="acknowledged before it is committed"):
        books.acknowledged(KEY, b"g", 7)
    with pytest.raises(Violation, match="acknowledged at 5 and stored at"):
        books.acknowledged(KEY, b"f", 5)


def test_what_was_refused_is_never_committed(books: MessageBooks) -> None:
    books.refused(KEY, [b"new"])
    with pytest.raises(Violation, match="was refused, and is committed"):
        committed(books.of(KEY), 4, b"new")
    with pytest.raises(Violation, match="is refused, and is committed"):
        books.refused(KEY, [b"a"])


def test_a_lossy_election_excuses_what_was_before_and_nothing_else(books: MessageBooks) -> None:
    books.acknowledged(KEY, b"a", 1)
    books.lossy(KEY, 4)
    books.acknowledged(KEY, b"c", 3)  # an answer that was under way
    books.check_acknowledged()
    with pytest.raises(Violation, match="acknowledged before it is committed"):
        books.acknowledged(KEY, b"new")
    committed(books.of(KEY), 1, b"a", b"b", epoch=4)
    committed(books.of(KEY), 3, b"new", epoch=4)
    books.acknowledged(KEY, b"new", 3)
    with pytest.raises(Violation, match="acknowledged at 2 and stored at"):
        books.acknowledged(KEY, b"new", 2)
    assert books.read(KEY, 3, b"new")
    assert not books.read(KEY, 3, b"c"), "it may be shown by a leader of before"
    with pytest.raises(Violation, match="is not committed"):
        books.read(KEY, 4, b"newer")


def test_a_leader_has_what_was_committed_before_its_epoch(books: MessageBooks) -> None:
    assert [books.of(KEY).end_before(epoch) for epoch in (1, 2, 3, 4)] == [0, 2, 2, 3]


def test_the_end_that_clients_see_does_not_go_back_from_one_leader_to_the_next(books: MessageBooks) -> None:
    books.shown_end(KEY, 2, 1, {}, 0)
    since = books.ends_shown(KEY)
    books.shown_end(KEY, 3, 3, since, 0)
    with pytest.raises(Violation, match="shown the end 1"):
        books.shown_end(KEY, 1, 3, since, 0)
    with pytest.raises(Violation, match="committed is 3"):
        books.shown_end(KEY, 4, 3, since, 0)
    books.shown_end(KEY, 2, 1, books.ends_shown(KEY), 0)  # replaced, and it has not heard of it


def test_compaction_may_take_what_a_later_message_supersedes() -> None:
    books = Committed(KEY, compacts=True)
    committed(books, 1, b"old", key=b"k")
    committed(books, 2, b"other", key=b"l")
    committed(books, 3, b"new", key=b"k")
    assert books.must_be_there(1, 3) == [2, 3]


def test_the_next_message_is_the_next_that_was_committed(books: MessageBooks) -> None:
    committed(books.of(KEY), 10, b"behind a gap")
    assert [books.of(KEY).next_from(number) for number in (1, 4, 10, 11)] == [1, 10, 10, 0]


def test_a_position_that_was_kept_does_not_go_back(books: MessageBooks) -> None:
    books.keep(KEY, "group", 5)
    books.keep(KEY, "group", 4)  # an answer that was late
    assert books.kept(KEY, "group") == 5
    assert books.kept(KEY, "another") == 0
