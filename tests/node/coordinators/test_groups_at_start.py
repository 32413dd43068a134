"""A broker makes what coordinates groups at its start where there are groups, and else at their first use."""

from pathlib import Path

from tank_node.cluster.link import Position
from tank_node.coordinators.groups_at_start import GroupsAtStart
from tank_protos.feature_levels import GROUPS, NATIVE_GROUPS
from tests.support.controllers.instant_controller import InstantController
from tests.support.groups.coordinating import GROUP, coordinating

PLACE = ("orders", 0)


def begun(folder: Path, controller: InstantController, *, with_topic: bool = False) -> list[str]:
    """What was begun within some seconds of the start; the feature level rises meanwhile."""
    controller.add("orders", 10)
    controller.view.feature_level = GROUPS
    found: list[str] = []
    with coordinating(folder, controller=controller) as at:
        if with_topic:
            at.found()
        GroupsAtStart(at.node.broker, lambda: found.append("begun"))
        at.node.pass_ms(3_000)
        at.settle()
        assert with_topic or not found
        controller.view.feature_level = NATIVE_GROUPS
        for _ in range(30):
            at.node.pass_ms(100)
            at.settle()
    return found


def test_a_broker_without_groups_begins_nothing(tmp_path: Path) -> None:
    assert begun(tmp_path, InstantController()) == []


def test_positions_at_the_controllers_begin_it_when_the_level_has_risen(tmp_path: Path) -> None:
    controller = InstantController()
    controller.positions[GROUP] = {PLACE: Position(*PLACE, 7, "", 1_000)}
    assert begun(tmp_path, controller) == ["begun"]


def test_the_internal_topic_begins_it(tmp_path: Path) -> None:
    assert begun(tmp_path, InstantController(), with_topic=True) == ["begun"]
