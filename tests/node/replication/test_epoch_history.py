"""Where two logs part: what each side names, until both name the same."""

from hypothesis import given
from hypothesis import strategies as st

from tank_node.log.epoch_history import epoch_at, last_common


def test_the_epoch_of_a_number_is_that_of_the_last_one_that_exists_before_it() -> None:
    history = [(1, 1), (3, 11)]
    assert [epoch_at(history, number) for number in (0, 1, 10, 11, 99)] == [0, 1, 1, 3, 3]


def test_a_point_has_neither_a_higher_number_nor_a_higher_epoch() -> None:
    history = [(1, 1), (3, 11), (4, 21)]
    assert last_common(history, 30, 99, 9) == (30, 4)
    assert last_common(history, 30, 25, 9) == (25, 4)
    assert last_common(history, 30, 25, 3) == (20, 3)
    assert last_common(history, 30, 25, 2) == (10, 1)
    assert last_common(history, 30, 25, 0) == (0, 0)
    assert last_common([], 0, 25, 3) == (0, 0)


def test_an_epoch_that_one_side_lacks_does_not_come_back_for_ever() -> None:
    # The follower has epoch 3 where the leader has 2: by the follower's end alone both would repeat (15, 2).
    leader, follower = [(1, 1), (2, 9)], [(1, 1), (3, 11)]
    asked = (15, 2)
    told = last_common(follower, 20, *asked)
    assert told == (10, 1)
    assert last_common(leader, 15, *told) == (8, 1)
    assert epoch_at(follower, 8) == 1


@st.composite
def logs(draw: st.DrawFn) -> list[int]:
    """A log as the epoch of each of its numbers."""
    parts = draw(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 4)), max_size=4))
    return sorted(epoch for epoch, count in parts for _ in range(count))


def history_of(log: list[int]) -> list[tuple[int, int]]:
    return [(epoch, log.index(epoch) + 1) for epoch in sorted(set(log))]


@given(logs(), logs())
def test_two_logs_always_find_the_last_point_at_which_they_may_agree(
    mine: list[int], other: list[int]
) -> None:
    point, epoch = len(mine), epoch_at(history_of(mine), len(mine))
    for _ in range(20):
        if point <= len(other) and epoch_at(history_of(other), point) == epoch:
            break
        told = last_common(history_of(other), len(other), point, epoch)
        point, epoch = last_common(history_of(mine), len(mine), *told)
    else:
        raise AssertionError("it goes on for ever")
    assert point == 0 or mine[point - 1] == other[point - 1] == epoch
    # Nothing behind it agrees: there is no later number with one epoch on both sides.
    assert all(a != b for a, b in list(zip(mine, other, strict=False))[point:])
