"""Commits that come by way of other brokers, in time or late."""

from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.coordinators.offsets import commit_order
from tank_node.coordinators.offsets.commit_order import CommitOrder

PLACE: TopicPartition = ("orders", 0)
OTHER: TopicPartition = ("orders", 1)


FIRST, SECOND = 1, 2
"""Two connections."""


def stored(order: CommitOrder, place: TopicPartition, connection: int, number: int) -> None:
    """A request that sets one position, and is stored with this number."""
    order.ended(order.taken("g", [place], connection, number), number)


def test_a_commit_is_late_when_another_connection_went_on_since_its_client_asked() -> None:
    order = CommitOrder(10)
    stored(order, PLACE, SECOND, 15)
    assert order.is_late("g", [PLACE], FIRST, 14)
    assert order.is_late("g", [OTHER, PLACE], FIRST, 14), "one of them is enough"
    assert not order.is_late("g", [PLACE], FIRST, 15), "its broker had heard of the other one"
    assert not order.is_late("g", [OTHER], FIRST, 14)
    assert not order.is_late("another group", [PLACE], FIRST, 14)


def test_what_is_about_to_be_stored_counts_already() -> None:
    order = CommitOrder(10)
    setting = order.taken("g", [PLACE], SECOND, 15)
    assert order.is_late("g", [PLACE], FIRST, 14)
    order.ended(setting, 15)
    assert order.is_late("g", [PLACE], FIRST, 14)


def test_what_was_refused_is_in_nobodys_way() -> None:
    order = CommitOrder(10)
    stored(order, PLACE, FIRST, 12)
    refused = order.taken("g", [PLACE, OTHER], SECOND, 13)
    order.ended(refused, 12)
    assert not order.is_late("g", [PLACE, OTHER], FIRST, 10), "the position is its own, as it was before"
    assert order.is_late("g", [PLACE], SECOND, 11)
    assert not order.is_late("g", [PLACE], SECOND, 12)


def test_what_is_on_its_way_beside_a_refused_request_counts() -> None:
    order = CommitOrder(10)
    first = order.taken("g", [PLACE], FIRST, 12)
    refused = order.taken("g", [PLACE], SECOND, 12)
    order.ended(refused, 11)
    assert order.is_late("g", [PLACE], SECOND, 11)
    order.ended(first, 12)
    assert order.is_late("g", [PLACE], SECOND, 11)


def test_an_answer_that_comes_out_of_its_turn_leaves_the_newer_setting() -> None:
    order = CommitOrder(10)
    first = order.taken("g", [PLACE], FIRST, 12)
    second = order.taken("g", [PLACE], SECOND, 13)
    order.ended(second, 13)
    order.ended(first, 13)
    assert order.is_late("g", [PLACE], FIRST, 12)
    assert not order.is_late("g", [PLACE], SECOND, 12)


def test_one_connection_brings_its_commits_in_their_order() -> None:
    order = CommitOrder(10)
    stored(order, PLACE, FIRST, 15)
    assert not order.is_late("g", [PLACE], FIRST, 10)


def test_what_was_asked_before_the_coordinator_began_is_late() -> None:
    order = CommitOrder(10)
    assert order.is_late("g", [PLACE], FIRST, 9)
    assert not order.is_late("g", [PLACE], FIRST, 10)


def test_of_forgotten_positions_the_newest_counts() -> None:
    order = CommitOrder(0)
    for number in range(commit_order.MOST_PLACES + 2):
        stored(order, ("orders", number), FIRST, number + 1)
    assert order.is_late("g", [("orders", 0)], SECOND, 1)
    assert not order.is_late("g", [("orders", 0)], SECOND, 2)
    assert order.is_late("g", [("orders", commit_order.MOST_PLACES)], SECOND, 2)


def test_a_refused_request_of_many_positions_makes_no_others_late() -> None:
    order = CommitOrder(10)
    places = [("orders", number) for number in range(commit_order.MOST_PLACES + 2)]
    order.ended(order.taken("g", places, FIRST, 11), 10)
    assert not order.is_late("another group", [PLACE], SECOND, 10)
