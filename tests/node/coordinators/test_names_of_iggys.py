"""Names by which Iggy's consumers and groups are known: groups of other clients that have one stay below
Iggy's feature level, and there come no more."""

from pathlib import Path

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import CommittedOffset
from tank_node.coordinators.view.held_names import held_names
from tank_protos.feature_levels import IGGY, NATIVE_GROUPS
from tank_protos.generated import control_pb2 as pb
from tests.support.groups.coordinating import Coordinating, coordinating

PLACE = ("orders", 0)
NAMES = ("iggy:g:1", "iggy:c:billing")


def commit_of_an_older_version(at: Coordinating, name: str) -> None:
    """Stores a position as a version does that doesn't know Iggy's level."""
    led = at.groups.led_by_number(at.partition(name).number)
    assert led is not None
    stored: list[GroupError] = []
    led.store_offsets(name, {PLACE: CommittedOffset(7, commit_ms=1, expire_ms=2**63 - 1)}, stored.append)
    at.settle()
    assert stored == [GroupError.NONE]


@pytest.mark.parametrize("name", NAMES)
def test_positions_that_another_client_keeps_under_such_a_name_stay(tmp_path: Path, name: str) -> None:
    with coordinating(tmp_path) as at:
        controller = at.node.controller
        controller.view.feature_level = NATIVE_GROUPS
        at.found()
        at.load()
        commit_of_an_older_version(at, name)
    controller.part()
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        at.node.pass_ms(60_000)
        at.settle()
        assert at.offsets(name) == {PLACE: 7}
        assert at.commit(8, name, places=[PLACE]) == [GroupError.NONE]
        assert held_names(at.node.broker, at.groups.led_by_number) == [name]
        deleted: list[GroupError] = []
        at.groups.delete([name], lambda results: deleted.append(results[name]))
        at.settle()
        assert deleted == [GroupError.NONE]
        assert held_names(at.node.broker, at.groups.led_by_number) == []


def test_a_name_that_is_not_utf_8_is_named_as_heartbeats_can_hold_it(tmp_path: Path) -> None:
    name = "iggy:c:\udcff"
    with coordinating(tmp_path) as at:
        at.node.controller.view.feature_level = NATIVE_GROUPS
        at.found()
        at.load()
        commit_of_an_older_version(at, name)
        named = held_names(at.node.broker, at.groups.led_by_number)
        assert named == ["iggy:c:\ufffd"]
        assert pb.NamesHeld(groups=named).SerializeToString()


@pytest.mark.parametrize("name", NAMES)
def test_no_more_come_from_a_version_on_that_knows_the_level(tmp_path: Path, name: str) -> None:
    with coordinating(tmp_path) as at:
        at.node.controller.view.feature_level = NATIVE_GROUPS
        at.found()
        at.load()
        assert at.commit(7, name, places=[PLACE]) == [GroupError.INVALID_GROUP_ID]
        assert [each.error for each in at.join(group_id=name)] == [GroupError.INVALID_GROUP_ID]
        assert held_names(at.node.broker, at.groups.led_by_number) == []
        assert at.commit(7, "billing", places=[PLACE]) == [GroupError.NONE]


def test_they_are_not_named_before_all_groups_are_read(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        at.node.controller.view.feature_level = NATIVE_GROUPS
        assert held_names(at.node.broker, at.groups.led_by_number) == [], "there is no topic for groups"
        at.found()
        assert held_names(at.node.broker, at.groups.led_by_number) is None
        at.load()
        at.settle()
        assert held_names(at.node.broker, at.groups.led_by_number) == []
        at.lead(2, 5)
        assert held_names(at.node.broker, lambda number: None) == [], "another broker coordinates"


@pytest.mark.parametrize("name", NAMES)
def test_they_are_iggys_alone_from_the_level_on_that_has_them(tmp_path: Path, name: str) -> None:
    with coordinating(tmp_path) as at:
        at.node.controller.view.feature_level = IGGY
        at.found()
        at.load()
        assert at.commit(7, name, places=[PLACE]) != [GroupError.NONE]
