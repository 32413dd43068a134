"""The positions that the controllers kept come to the groups' coordinators, once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tank_node.cluster.link import ChangeOutcome, GroupsOutcome, Position
from tank_node.coordinators.group_partition import GroupPartition
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.positions_move import PositionsMove
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import GROUPS, NATIVE_GROUPS
from tests.support.controllers.instant_controller import InstantController
from tests.support.groups.coordinating import GROUP, Coordinating, coordinating

FIRST, SECOND = ("orders", 0), ("orders", 1)


def held(*places: tuple[tuple[str, int], int]) -> InstantController:
    """Controllers that hold these positions of the group."""
    controller = InstantController()
    controller.add("orders", 10)
    controller.positions[GROUP] = {
        place: Position(*place, number, "a note", 1_000) for place, number in places
    }
    return controller


@contextmanager
def moving(
    folder: Path, controller: InstantController, level: int = NATIVE_GROUPS
) -> Iterator[tuple[Coordinating, PositionsMove]]:
    """A broker that coordinates, and has read its groups."""
    controller.view.feature_level = level
    with coordinating(folder, controller=controller) as at:
        at.found()
        at.load()
        yield at, PositionsMove(at.node.broker, at.groups)


def pass_until(at: Coordinating, is_so: Callable[[], bool]) -> None:
    for _ in range(100):
        if is_so():
            return
        at.node.pass_ms(100)
        at.settle()
    raise AssertionError("it did not come in time")


def the_partition(at: Coordinating) -> GroupPartition:
    (led,) = at.groups.led()
    return led


def test_they_are_stored_and_dropped_at_the_controllers(tmp_path: Path) -> None:
    controller = held((FIRST, 8), (SECOND, 1))
    with moving(tmp_path, controller) as (at, move):
        assert not move.is_over(the_partition(at))
        pass_until(at, lambda: move.is_over(the_partition(at)))
        assert at.offsets() == {FIRST: 7, SECOND: 0}
        _, found = at.groups.committed(GROUP, [FIRST])
        assert (found[FIRST].metadata, found[FIRST].commit_ms) == ("a note", 1_000)
        assert not controller.positions
        pass_until(at, lambda: move.is_done)


def test_they_are_there_after_a_restart_and_never_expire(tmp_path: Path) -> None:
    controller = held((FIRST, 8))
    with moving(tmp_path, controller) as (at, move):
        pass_until(at, lambda: move.is_done)
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        at.node.pass_ms(400 * 86_400_000)
        at.settle()
        assert at.offsets() == {FIRST: 7}


def test_nothing_is_dropped_before_it_is_stored(tmp_path: Path) -> None:
    controller = held((FIRST, 8))
    with moving(tmp_path, controller) as (at, move):
        for _ in range(30):
            at.node.pass_ms(100)
            at.node.tick()  # what is appended doesn't reach the disk
        assert not move.is_over(the_partition(at))
        assert GROUP in controller.positions
        pass_until(at, lambda: move.is_over(the_partition(at)))
        assert at.offsets() == {FIRST: 7}


def test_what_is_late_on_its_way_is_not_taken_for_stored(tmp_path: Path) -> None:
    """The append takes longer than its change waits; the move tries again meanwhile."""
    controller = held((FIRST, 8))
    with moving(tmp_path, controller) as (at, move):
        for _ in range(100):
            at.node.pass_ms(100)
            at.node.broker.give_up_late()
            at.node.tick()
        assert GROUP in controller.positions
        assert not move.is_over(the_partition(at))


def test_what_the_coordinator_has_already_stays(tmp_path: Path) -> None:
    """The one before it stored them, and a client went on, before they were dropped."""
    controller = held((FIRST, 8), (SECOND, 3))
    with moving(tmp_path, controller) as (at, move):
        assert at.commit(20) == [GroupError.NONE]
        pass_until(at, lambda: move.is_over(the_partition(at)))
        assert at.offsets() == {FIRST: 20, SECOND: 2}


def test_a_refusal_of_the_controllers_is_asked_again(tmp_path: Path) -> None:
    controller = held((FIRST, 8))
    asked: list[Callable[[GroupsOutcome], None]] = []
    dropping: list[Callable[[ChangeOutcome], None]] = []
    with moving(tmp_path, controller) as (at, move):
        answer, controller.groups_to_move = controller.groups_to_move, asked.append  # type: ignore[method-assign, assignment]
        drop = controller.drop_positions
        controller.drop_positions = lambda groups, done: dropping.append(done)  # type: ignore[method-assign]
        pass_until(at, lambda: bool(asked))
        asked[0](GroupsOutcome(ErrorCode.OVERLOADED, "not now"))
        pass_until(at, lambda: len(asked) == 2)
        controller.groups_to_move = answer  # type: ignore[method-assign]
        asked[1](GroupsOutcome(ErrorCode.NONE, "", [GROUP]))
        pass_until(at, lambda: bool(dropping))
        controller.drop_positions = drop  # type: ignore[method-assign]
        dropping[0](ChangeOutcome(ErrorCode.STORAGE, "not now"))
        assert not move.is_over(the_partition(at))
        pass_until(at, lambda: move.is_over(the_partition(at)))
        assert not controller.positions


def test_below_the_level_nothing_is_asked(tmp_path: Path) -> None:
    controller = held((FIRST, 8))
    asked: list[Callable[[GroupsOutcome], None]] = []
    controller.groups_to_move = asked.append  # type: ignore[method-assign, assignment]
    with moving(tmp_path, controller, GROUPS) as (at, move):
        for _ in range(50):
            at.node.pass_ms(100)
            at.settle()
        assert not asked
        assert not move.is_over(the_partition(at))
        controller.view.feature_level = NATIVE_GROUPS
        pass_until(at, lambda: bool(asked))


def test_the_internal_topic_is_created_for_positions_that_nobody_asks_for(tmp_path: Path) -> None:
    controller = held((FIRST, 8))
    with coordinating(tmp_path, controller=controller) as at:
        move = PositionsMove(at.node.broker, at.groups)
        pass_until(at, lambda: move.is_done)
        assert at.offsets() == {FIRST: 7}


def test_without_positions_there_is_no_internal_topic(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        move = PositionsMove(at.node.broker, at.groups)
        pass_until(at, lambda: move.is_done)
        assert at.groups.partition_of(GROUP) is None
