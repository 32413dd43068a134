"""Names by which Iggy's consumers and groups are known are names as others while the cluster has none."""

from pathlib import Path

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_protos.feature_levels import IGGY, NATIVE_GROUPS
from tests.support.groups.coordinating import coordinating

PLACE = ("orders", 0)
NAMES = ("iggy:g:1", "iggy:c:billing")


@pytest.mark.parametrize("name", NAMES)
def test_positions_that_another_client_keeps_under_such_a_name_stay(tmp_path: Path, name: str) -> None:
    with coordinating(tmp_path) as at:
        controller = at.node.controller
        controller.view.feature_level = NATIVE_GROUPS
        at.found()
        at.load()
        assert at.commit(7, name, places=[PLACE]) == [GroupError.NONE]
    controller.part()
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        at.node.pass_ms(60_000)
        at.settle()
        assert at.offsets(name) == {PLACE: 7}
        deleted: list[GroupError] = []
        at.groups.delete([name], lambda results: deleted.append(results[name]))
        at.settle()
        assert deleted == [GroupError.NONE]


@pytest.mark.parametrize("name", NAMES)
def test_they_are_iggys_alone_from_the_level_on_that_has_them(tmp_path: Path, name: str) -> None:
    with coordinating(tmp_path) as at:
        at.node.controller.view.feature_level = IGGY
        at.found()
        at.load()
        assert at.commit(7, name, places=[PLACE]) != [GroupError.NONE]
