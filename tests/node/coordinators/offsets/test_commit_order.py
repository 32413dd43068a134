"""Commits that come by way of other brokers, in time or late."""

from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.coordinators.offsets import commit_order
from tank_node.coordinators.offsets.commit_order import CommitOrder

PLACE: TopicPartition = ("orders", 0)
OTHER: TopicPartition = ("orders", 1)


def test_a_commit_is_late_when_another_connection_went_on_since_its_client_asked() -> None:
    order = CommitOrder(10)
    order.taken("g", [PLACE], "second", 15)
    assert order.is_late("g", [PLACE], "first", 14)
    assert order.is_late("g", [OTHER, PLACE], "first", 14), "one of them is enough"
    assert not order.is_late("g", [PLACE], "first", 15), "its broker had heard of the other one"
    assert not order.is_late("g", [OTHER], "first", 14)
    assert not order.is_late("another group", [PLACE], "first", 14)


def test_one_connection_brings_its_commits_in_their_order() -> None:
    order = CommitOrder(10)
    order.taken("g", [PLACE], "first", 15)
    assert not order.is_late("g", [PLACE], "first", 10)


def test_what_was_asked_before_the_coordinator_began_is_late() -> None:
    order = CommitOrder(10)
    assert order.is_late("g", [PLACE], "first", 9)
    assert not order.is_late("g", [PLACE], "first", 10)


def test_of_forgotten_positions_the_newest_counts() -> None:
    order = CommitOrder(0)
    for number in range(commit_order.MOST_PLACES + 2):
        order.taken("g", [("orders", number)], "first", number + 1)
    assert order.is_late("g", [("orders", 0)], "second", 1)
    assert not order.is_late("g", [("orders", 0)], "second", 2)
    assert order.is_late("g", [("orders", commit_order.MOST_PLACES)], "second", 2)
