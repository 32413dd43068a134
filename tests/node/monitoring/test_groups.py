"""The metrics of groups that a broker coordinates."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.coordinators.machine.group_memory import GROUP_BYTES, OFFSET_BYTES
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.monitoring import groups
from tests.support.groups.coordinating import GROUP, Coordinating, coordinating

ONE = GroupSettings(topic_partitions=1, initial_delay_ms=0)
Labels = tuple[str, ...]


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Coordinating]:
    with coordinating(tmp_path) as at:
        at.found()
        at.load()
        yield at


def seen(at: Coordinating, name: str) -> dict[Labels, float]:
    """The samples of a family by their labels."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in groups.families(at.node.broker, at.node.metrics)
        for sample in family.samples
        if sample.name == name
    }


def test_groups_are_counted_by_their_states(at: Coordinating) -> None:
    member = at.stable_member()
    at.commit(7, "simple")
    assert seen(at, "tank_groups") == {
        ("Empty",): 1,
        ("PreparingRebalance",): 0,
        ("CompletingRebalance",): 0,
        ("Stable",): 1,
        ("Assigning",): 0,
        ("Reconciling",): 0,
    }
    assert seen(at, "tank_group_members") == {(): 1}
    assert seen(at, "tank_group_rebalances_total") == {(): 1}
    at.groups.leave(GROUP, [(member, None)], lambda *_: None)
    at.settle()
    assert seen(at, "tank_groups")["Empty",] == 2
    assert seen(at, "tank_group_members") == {(): 0}
    at.groups.delete([GROUP, "simple"], lambda _: None)
    at.settle()
    assert set(seen(at, "tank_groups").values()) == {0}


def test_commits_are_counted_by_what_became_of_them(at: Coordinating) -> None:
    at.commit(7, places=[("orders", 0), ("orders", 1), ("none", 0)])
    at.commit(7, member_id="stranger", generation=3)
    assert seen(at, "tank_group_commits_total") == {("ok",): 2, ("unknown_topic",): 1, ("unknown_member",): 1}


def test_what_is_committed_stands_beside_the_ends_of_what_is_led(at: Coordinating) -> None:
    at.commit(7)
    at.commit(9, "other", places=[("orders", 3)])
    assert seen(at, "tank_group_committed_offset") == {(GROUP, "orders", "0"): 7, ("other", "orders", "3"): 9}
    assert seen(at, "tank_partition_end_offset") == {("orders", str(number)): 0 for number in range(10)}
    assert seen(at, "tank_group_offsets") == {(): 2}
    assert seen(at, "tank_group_held_bytes") == {(): 2 * (GROUP_BYTES + OFFSET_BYTES)}


def test_a_load_is_seen_while_it_lasts_and_timed(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        assert seen(at, "tank_group_partitions") == {("coordinated",): 0, ("loading",): 0}
        at.found()
        assert seen(at, "tank_group_partitions") == {("coordinated",): 0, ("loading",): 1}
        at.load()
        assert seen(at, "tank_group_partitions") == {("coordinated",): 1, ("loading",): 0}
        assert seen(at, "tank_group_load_seconds_count") == {(): 1}
        at.lead(2, 2)
        assert seen(at, "tank_group_partitions") == {("coordinated",): 0, ("loading",): 0}
        assert set(seen(at, "tank_groups").values()) == {0}


@pytest.mark.parametrize("most", [0, 2])
def test_series_of_single_partitions_are_bounded(tmp_path: Path, most: int) -> None:
    with coordinating(tmp_path, settings=replace(ONE, lag_series=most)) as at:
        at.found()
        at.load()
        at.commit(7, places=[("orders", number) for number in range(5)])
        assert len(seen(at, "tank_group_committed_offset")) == most
        assert len(seen(at, "tank_partition_end_offset")) == most
        assert seen(at, "tank_group_offsets") == {(): 5}


def test_a_name_that_is_no_utf_8_has_a_series_all_the_same(at: Coordinating) -> None:
    at.commit(7, "g\udcff")
    assert list(seen(at, "tank_group_committed_offset").values()) == [7]
