"""Told stories of in-sync sets of which the controllers know more than the leader. A leads, B leads next, C
last."""

from collections.abc import Callable
from unittest.mock import patch

from tank_controller.leader.brokers import deltas
from tank_node.log.refill import begin_anew
from tests.simulation.told.told import telling
from tests.simulation.world.world import SECOND, must

ALONE_IS_ENOUGH = {"flush": "disk", "min.insync.replicas": "1"}
TWO_ARE_ENOUGH = {"flush": "disk", "min.insync.replicas": "2"}


def a_leader_hears_late_that_a_replica_was_moved_away_and_back() -> None:
    """B is moved to C, and deletes what it had; then it is moved back, and has nothing. A has brought C in,
    and heard of nothing after that: it is told the whole state at once. What B had matched counts no more."""
    with (
        telling(ALONE_IS_ENOUGH, replicas=2) as story,
        patch.object(deltas, "HISTORY_DELTAS", 1),
    ):
        a, b = story.cast
        c = next(machine for machine in story.brokers.values() if machine not in (a, b))
        story.append(a, 3)
        story.until(lambda: story.at(b).high_water_mark == 3, "B's hearing of them")
        story.go_on(SECOND)
        controllers = story.controllers
        story.when_proposed(a, c, lambda: story.network.cut(controllers, [a.name], one_way=True))
        story.move(a, c)
        story.until(lambda: b.replica(story.key) is None, "B's deleting what it had", 4 * SECOND)
        story.move(a, b)
        story.until(lambda: b.replica(story.key) is not None, "B's being a replica again", 2 * SECOND)

        def look(members: tuple[int, ...]) -> None:
            must(b.broker_id not in members or story.at(b).log.synced == 3, "B is a member, and has nothing")

        story.on_in_sync(look)
        story.break_streams(a, *controllers)
        story.rejoin(a, *controllers)
        story.until(lambda: story.are_in_sync(a, b), "B's being filled", 20 * SECOND)
        must(story.placed.leader == a.broker_id, "A was fenced too early")
        story.rest()


def a_smaller_set_is_proposed_and_its_outcome_not_heard() -> None:
    """B and C don't hear A, which proposes a set of itself alone, and hears nothing of what comes of it. Then
    both match what A appends: but by the controllers' word too few may be in sync, and nothing is committed
    before A knows."""
    with telling(TWO_ARE_ENOUGH) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        proposed: list[bool] = []

        def strike() -> None:
            story.network.cut(story.controllers, [a.name], one_way=True)
            proposed.append(True)

        story.part(a, b.name, c.name)
        story.append(a)
        story.when_proposed(a, a, strike)
        story.until(lambda: bool(proposed), "the proposal")
        story.rejoin(a, b.name, c.name)
        story.until(
            lambda: story.at(b).log.synced == story.at(c).log.synced == 3, "their having it", 4 * SECOND
        )
        story.go_on(SECOND)
        must(story.at(a).high_water_mark == 2, "it was committed, though too few may be in sync")
        story.rejoin(a, *story.controllers)
        story.until(lambda: story.at(a).high_water_mark == 3, "its being committed", 20 * SECOND)
        story.rest()


def a_replica_that_is_being_filled_is_elected() -> None:
    """B begins to be filled anew, by a mistake that nobody heard of: it has nothing, and looks whole.
    A dies, and the controllers choose B. It doesn't lead; C does, which has everything."""
    with telling(TWO_ARE_ENOUGH) as story:
        a, b, c = story.cast
        story.append(a, 3)
        story.until(lambda: story.at(c).high_water_mark == 3, "C's hearing of them")
        story.go_on(SECOND)
        story.part(b, a.name)
        story.do(b, lambda: begin_anew(story.at(b).log, 1, 0))
        must(story.at(b).log.written == 0, "B has something")
        story.at(b).high_water_mark = 0
        a.end(False)
        story.until(lambda: story.placed.leader == c.broker_id, "C's leading", 10 * SECOND)
        must(story.placed.lossy_elections == 0, "an election was lossy")
        story.append(c)
        story.rest()


STORIES: tuple[Callable[[], None], ...] = (
    a_leader_hears_late_that_a_replica_was_moved_away_and_back,
    a_smaller_set_is_proposed_and_its_outcome_not_heard,
    a_replica_that_is_being_filled_is_elected,
)
