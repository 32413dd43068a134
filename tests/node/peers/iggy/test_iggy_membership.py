"""One member at the broker that has its connection: what it polls, and when it gives a partition up."""

import pytest

from tank_node.coordinators.machine.iggy_requests import IggyMemberName
from tank_node.peers.iggy.iggy_membership import IggyMembership


def member(*, is_sticky: bool = True) -> IggyMembership:
    found = IggyMembership(IggyMemberName(1, 101, is_sticky), 1)
    found.hear(1, (0, 2, 5), ())
    return found


def poll(found: IggyMembership) -> int | None:
    number = found.next_partition()
    if number is not None:
        found.begin_poll(number)
        found.end_poll(number, 3)
    return number


def test_it_goes_round_its_partitions() -> None:
    found = member()
    assert [poll(found) for _ in range(4)] == [0, 2, 5, 0]
    found.hear(2, (1, 2), (0,))
    assert [poll(found) for _ in range(3)] == [1, 2, 1]
    found.hear(3, (), ())
    assert poll(found) is None


def test_what_it_never_polled_it_gives_up_at_once() -> None:
    found = member()
    found.hear(2, (0,), (2, 5))
    assert found.released() == [2, 5]


@pytest.mark.parametrize(("stored", "released"), [(2, []), (3, [0]), (4, [0])])
def test_what_it_polled_it_gives_up_when_it_is_stored(stored: int, released: list[int]) -> None:
    found = member()
    assert poll(found) == 0
    found.hear(2, (2, 5), (0,))
    assert found.released() == []
    found.store(0, stored)
    assert found.released() == released


def test_before_b3_nobody_waits_for_that_but_for_a_poll_under_way() -> None:
    found = member(is_sticky=False)
    found.begin_poll(0)
    found.begin_poll(0)
    found.hear(2, (2, 5), (0,))
    found.end_poll(0, 3)
    assert found.released() == []
    found.end_poll(0, None)
    assert found.released() == [0]


def test_a_partition_that_comes_again_begins_anew() -> None:
    found = member()
    assert poll(found) == 0
    found.store(0, 3)
    found.hear(2, (2, 5), ())
    found.hear(3, (0, 2, 5), ())
    found.begin_poll(0)
    found.end_poll(0, 9)
    found.hear(4, (2, 5), (0,))
    assert found.released() == []


def test_offsets_of_other_partitions_are_not_kept() -> None:
    found = member()
    for number in range(1_000):
        found.store(number, 1)
        found.end_poll(number, 1)
    found.hear(2, (7,), (0,))
    assert found.released() == [0]
