"""When a broker that was started counts as one that has caught up."""

from tank_node.app.readiness import ELECTION_MS, CatchingUp
from tank_node.broker.broker import Topic
from tank_node.cluster.view import PartitionView, TopicView
from tank_protos.topic_settings import TopicSettings

ME = 2


def partition(number: int, *in_sync: int, leader: int = 1, adding: tuple[int, ...] = ()) -> PartitionView:
    return PartitionView(number, leader, 1, 1, (1, ME, 3), in_sync, adding=adding)


def topic(*partitions: PartitionView, here: tuple[int, ...] | None = None) -> Topic:
    found = Topic(TopicView(1, "t", 3, TopicSettings(), {}, list(partitions)))
    for number in range(len(partitions)) if here is None else here:
        found.partitions[number] = None  # type: ignore[assignment] # that it is here is all that counts
    return found


def test_it_waits_for_the_replicas_that_are_here_and_not_in_sync() -> None:
    process = CatchingUp(60_000, 1_000)
    behind = topic(partition(0, 1, ME), partition(1, 1), partition(2, 1, 3))
    assert process.problem(ME, [behind], 2_000) == (
        "2 of this broker's replicas are not in sync yet; it is ready in 59 s at the latest"
    )
    assert process.problem(ME, [topic(partition(0, 1, ME))], 3_000) is None


def test_what_falls_behind_later_is_not_waited_for() -> None:
    process = CatchingUp(60_000, 0)
    assert process.problem(ME, [topic(partition(0, 1, ME))], 0) is None
    assert process.problem(ME, [topic(partition(0, 1))], 1) is None


def test_it_does_not_wait_for_ever() -> None:
    process = CatchingUp(60_000, 0)
    assert process.problem(ME, [topic(partition(0, 1))], 59_999) is not None
    assert process.problem(ME, [topic(partition(0, 1))], 60_000) is None


def test_what_moves_here_or_lies_elsewhere_is_not_waited_for() -> None:
    moves_here = partition(0, 1, 3, adding=(ME,))
    elsewhere = partition(1, 1, 3)
    found = topic(moves_here, elsewhere, here=(0,))
    assert CatchingUp(60_000, 0).problem(ME, [found], 0) is None


def test_what_nobody_leads_is_waited_for_as_long_as_an_election_may_take() -> None:
    process = CatchingUp(60_000, 0)
    assert process.problem(ME, [topic(partition(0, ME, leader=0))], 0) is not None, "it may come back behind"
    assert process.problem(ME, [topic(partition(0, 1))], 1) is not None, "and does"
    assert process.problem(ME, [topic(partition(0, ME, leader=0))], ELECTION_MS - 1) is not None
    assert process.problem(ME, [topic(partition(0, ME, leader=0))], ELECTION_MS) is None
