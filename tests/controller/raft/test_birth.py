"""How a cluster begins: only when all are there and empty; an emptied controller never founds another."""

import itertools
from collections.abc import Callable

import pytest

from tank_controller.raft.birth import (
    AskToBeAdded,
    Birth,
    BirthRefusedError,
    Founding,
    IdentityAnswer,
    IdentityQuestion,
    StoreFounding,
)
from tank_controller.raft.core import Raft
from tank_controller.raft.messages import Configuration, EntryKind, NodeId

ALL = frozenset({1, 2, 3})


def node(ordinal: int, disk: bytes = b"a") -> NodeId:
    return NodeId(ordinal, disk)


def counting() -> Callable[[int], int]:
    numbers = itertools.count(7)
    return lambda below: next(numbers)


def birth(ordinal: int, disk: bytes = b"a", ordinals: frozenset[int] = ALL) -> Birth:
    return Birth(node(ordinal, disk), ordinals, counting(), lambda: "fresh")


def a_members_answer(question: IdentityQuestion) -> IdentityAnswer:
    """What controller 3 says, which belongs to a cluster."""
    return IdentityAnswer(node(3), question.nonce, "old")


def test_the_lowest_founds_when_all_say_to_one_question_that_they_are_empty() -> None:
    one, two, three = birth(1), birth(2), birth(3)
    question = one.ask()
    assert one.take(two.answer(question)) is None
    found = one.take(three.answer(question))
    assert found == StoreFounding(Founding("fresh", Configuration((node(1), node(2), node(3)))))


def test_the_others_found_nothing_and_keep_what_they_are_given() -> None:
    one, two, three = birth(1), birth(2), birth(3)
    question = two.ask()
    assert two.take(one.answer(question)) is None
    assert two.take(three.answer(question)) is None
    founding = Founding("fresh", Configuration((node(1), node(2), node(3))))
    assert two.accept(founding) == founding


def test_while_one_is_silent_nothing_is_founded() -> None:
    one, two = birth(1), birth(2)
    for _ in range(50):
        assert one.take(two.answer(one.ask())) is None
        assert one.alone() is None


def test_answers_to_different_questions_are_not_put_together() -> None:
    one, two, three = birth(1), birth(2), birth(3)
    old = one.ask()
    assert one.take(two.answer(old)) is None
    new = one.ask()
    assert one.take(three.answer(new)) is None
    assert one.take(two.answer(old)) is None, "2 may belong to a cluster by now"
    assert one.take(two.answer(new)) is not None


def test_an_emptied_controller_asks_to_be_added_and_founds_nothing() -> None:
    one, two = birth(1, b"new"), birth(2)
    question = one.ask()
    assert one.take(two.answer(question)) is None
    assert one.take(a_members_answer(question)) == AskToBeAdded("old")


def test_two_emptied_ones_of_three_are_no_new_cluster_either() -> None:
    one, two = birth(1, b"new"), birth(2, b"new")
    for asker, other in ((one, two), (two, one)):
        question = asker.ask()
        assert asker.take(a_members_answer(question)) == AskToBeAdded("old")
        assert asker.take(other.answer(question)) is None
        assert asker.alone() is None


def test_a_stranger_does_not_count() -> None:
    one, two = birth(1), birth(2)
    question = one.ask()
    assert one.take(two.answer(question)) is None
    assert one.take(IdentityAnswer(node(9), question.nonce)) is None
    assert one.take(IdentityAnswer(node(9), question.nonce, "elsewhere")) is None
    assert one.alone() is None


def test_a_cluster_of_one_asks_nobody() -> None:
    found = birth(1, ordinals=frozenset({1})).alone()
    assert found is not None
    assert found.founding.configuration == Configuration((node(1),))


def test_a_founding_with_another_disk_or_other_controllers_is_refused() -> None:
    with pytest.raises(BirthRefusedError, match="another disk for 2"):
        birth(2, b"new").accept(Founding("old", Configuration((node(1), node(2), node(3)))))
    with pytest.raises(BirthRefusedError, match="give all the same list"):
        birth(2).accept(Founding("other", Configuration((node(1), node(2)))))


def test_who_was_told_of_fewer_keeps_what_all_of_them_founded() -> None:
    founding = Founding("all three", Configuration((node(1), node(2), node(3))))
    assert birth(2, ordinals=frozenset({1, 2})).accept(founding) is founding


def test_what_is_founded_makes_a_log_that_can_vote() -> None:
    founding = Founding("fresh", Configuration((node(1),)))
    assert founding.entry.kind is EntryKind.CONFIGURATION
    raft = Raft(node(1), "fresh", founding.hard_state, None, [founding.entry], lambda below: 0)
    assert raft.configuration == founding.configuration
    assert (raft.term, raft.log.commit, raft.log.last_index) == (1, 1, 1)


def test_a_question_is_answered_under_its_own_nonce() -> None:
    question = IdentityQuestion(node(1), 99)
    assert birth(2).answer(question) == IdentityAnswer(node(2), 99)
