"""Who is to have which partition of an Iggy group's topic."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tank_node.coordinators.iggy.shares import NOBODY, by_number, sticky
from tests.support.examples import examples


def test_before_b3_partition_i_is_of_member_i_modulo_their_number() -> None:
    assert by_number(5, 2) == [0, 1, 0, 1, 0]
    assert by_number(1, 3) == [0]
    assert by_number(2, 0) == [NOBODY, NOBODY]


def test_an_idle_newcomer_takes_its_whole_share_at_once() -> None:
    assert Counter(sticky(2, [0] * 10, [0] * 10)) == {0: 5, 1: 5}


def test_a_member_gives_nothing_up_that_it_could_keep() -> None:
    assert sticky(2, [1, 1, 0], [1, 1, 0]) == [1, 1, 0]


def test_what_is_free_goes_to_who_has_least() -> None:
    assert sticky(2, [0, 0, NOBODY, NOBODY], [0, 0, NOBODY, NOBODY]) == [0, 0, 1, 1]


def test_a_partition_on_its_way_goes_back_to_who_has_it_still_if_its_heir_has_left() -> None:
    assert sticky(2, [0, NOBODY, 1], [0, 1, 1]) == [0, 1, 1]


PLACES = st.integers(1, 8).flatmap(
    lambda members: st.tuples(
        st.just(members),
        st.lists(st.tuples(st.integers(NOBODY, members - 1), st.integers(NOBODY, members - 1)), max_size=30),
    )
)


@examples(300)
@given(PLACES)
def test_loads_differ_by_one_at_most_and_no_more_moves_than_has_to(
    given_: tuple[int, list[tuple[int, int]]],
) -> None:
    members, places = given_
    meant = [each[0] for each in places]
    held = [each[1] for each in places]
    shares = sticky(members, meant, held)
    loads = Counter(shares)
    assert all(0 <= member < members for member in loads)
    counts = [loads[member] for member in range(members)]
    assert max(counts, default=0) - min(counts, default=0) <= 1
    # Who gave something up has no room for it.
    before = Counter(meant)
    for number, member in enumerate(meant):
        if member != NOBODY and shares[number] != member:
            assert loads[member] == counts[member] >= len(places) // members
            assert before[member] > len(places) // members
