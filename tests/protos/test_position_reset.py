"""Where a reset puts positions: within what the partitions hold."""

from dataclasses import dataclass

import pytest

from tank_protos.position_reset import Goal, NoPositionError, PositionChange, To, changes


@dataclass
class Ends:
    """The ends of a partition."""

    first_available: int
    high_water_mark: int


def one(goal: Goal, before: int | None, ends: Ends, time: int | None = None) -> PositionChange:
    """The change of a single partition."""
    at = ("t", 0)
    positions = {} if before is None else {at: before}
    (change,) = changes(goal, [at], positions, {at: ends}, {} if time is None else {at: time})
    return change


@pytest.mark.parametrize(
    ("goal", "after", "messages"),
    [
        (Goal(To.FIRST), 4, -3),
        (Goal(To.END), 11, 4),
        (Goal(To.NUMBER, 9), 9, 2),
        (Goal(To.NUMBER, 0), 4, -3),
        (Goal(To.NUMBER, 99), 11, 4),
        (Goal(To.BY, 2), 9, 2),
        (Goal(To.BY, -2), 5, -2),
        (Goal(To.BY, -99), 4, -3),
        (Goal(To.TIME, 5_000), 6, -1),
    ],
)
def test_each_goal_stays_within_what_the_partition_holds(goal: Goal, after: int, messages: int) -> None:
    change = one(goal, 7, Ends(4, 10), time=6)
    assert (change.after, change.messages) == (after, messages)


def test_what_expired_before_it_was_read_is_not_read_again() -> None:
    assert one(Goal(To.FIRST), 10, Ends(50, 99)).messages == 0
    assert one(Goal(To.BY, 5), 10, Ends(50, 99)).after == 55


def test_a_partition_that_was_never_written_begins_at_its_first_number() -> None:
    for goal in (Goal(To.FIRST), Goal(To.END), Goal(To.TIME, 5), Goal(To.NUMBER, 0)):
        change = one(goal, None, Ends(0, 0))
        assert (change.after, change.messages) == (1, None)


def test_a_step_needs_a_position_to_count_from() -> None:
    partitions = [("t", number) for number in range(3)]
    ends = dict.fromkeys(partitions, Ends(1, 9))
    with pytest.raises(NoPositionError, match=r"no position in t/1 \(and 1 more\)"):
        changes(Goal(To.BY, 3), partitions, {("t", 0): 1}, ends, {})


def test_changes_come_by_topic_and_partition() -> None:
    partitions = [("b", 0), ("a", 10), ("a", 9)]
    found = changes(Goal(To.END), partitions, {}, dict.fromkeys(partitions, Ends(1, 9)), {})
    assert [(each.topic, each.partition) for each in found] == [("a", 9), ("a", 10), ("b", 0)]
