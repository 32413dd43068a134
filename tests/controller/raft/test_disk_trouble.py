"""A controller whose disk is full, or hangs, while the others' are well: failover must not wait for it. And
one that can't use what its disk holds."""

import pytest

from tank_controller.raft.messages import NodeId
from tank_controller.raft.settings import Settings
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node.driver import HANGING_ELECTIONS
from tank_controller.state.state import SnapshotError
from tests.controller.raft.world import World

SETTINGS = Settings(election_ticks=5, heartbeat_ticks=1, trailing_entries=0)
HANGS_TICKS = SETTINGS.election_ticks * HANGING_ELECTIONS


def nobody_leads(world: World) -> bool:
    return not any(node.raft.role is RaftRole.LEADER for node in world.running())


def pass_time(world: World, ticks: int) -> None:
    """All messages arrive; disks work, but for those that are held."""
    for _ in range(ticks):
        for node in world.running():
            world.tick(node.own.ordinal)
        world.flush_disks()
        while world.network:
            world.deliver(world.network.pop(0))
            world.flush_disks()


def led_by(ordinals: range, leader: int) -> World:
    world = World(ordinals, lambda below: 0, SETTINGS)
    for _ in range(2 * SETTINGS.election_ticks):
        if nobody_leads(world):
            world.tick(leader)
    pass_time(world, 2)
    assert world.nodes[leader].raft.role is RaftRole.LEADER
    return world


def leader_of(world: World) -> NodeId:
    """Of the highest term, as the others see it."""
    return max(
        (node.raft for node in world.running() if node.raft.role is RaftRole.LEADER),
        key=lambda raft: raft.term,
    ).own


@pytest.mark.parametrize("full", [True, False])
def test_a_leader_whose_disk_does_nothing_any_more_hands_leadership_over(full: bool) -> None:
    world = led_by(range(1, 4), 1)
    sick = world.nodes[1]
    sick.storage.full, sick.disk.held = full, not full
    world.propose(1, b"a")
    pass_time(world, SETTINGS.election_ticks - 2)
    assert leader_of(world).ordinal == 1, "it may yet do it"
    pass_time(world, 2 * HANGS_TICKS)
    heir = leader_of(world).ordinal
    assert heir != 1
    assert sick.driver is not None
    assert (sick.driver.full is not None, sick.driver.hangs) == (full, not full)
    assert len(world.outcomes) == 1, "whoever waits there is told to ask the next leader"
    assert "OutcomeUnknownError" in world.outcomes[0]
    world.propose(heir, b"b")
    pass_time(world, 2)
    assert "b is number" in world.outcomes[1]
    sick.storage.full = sick.disk.held = False
    pass_time(world, HANGS_TICKS)
    assert sick.machine is not None
    assert sick.machine.commands[-1] == b"b", "with a disk it follows again"
    assert leader_of(world).ordinal == heir
    assert (sick.driver.full, sick.driver.hangs) == (None, False)


def test_an_heir_whose_disk_is_no_better_is_tried_once() -> None:
    world = led_by(range(1, 6), 1)
    world.nodes[1].disk.held = True
    world.propose(1, b"a")
    pass_time(world, 2)
    world.nodes[5].disk.held = True
    pass_time(world, 2 * HANGS_TICKS)
    assert leader_of(world).ordinal in (2, 3, 4)


def test_a_disk_that_is_slow_for_a_while_costs_nobody_the_leadership() -> None:
    world = led_by(range(1, 4), 1)
    for number in range(3):
        world.nodes[1].disk.held = True
        world.propose(1, b"%d" % number)
        pass_time(world, HANGS_TICKS - 2)
        world.nodes[1].disk.held = False
        pass_time(world, 2)
    assert leader_of(world).ordinal == 1
    assert all("is number" in outcome for outcome in world.outcomes)


def test_a_snapshot_that_cannot_be_read_ends_the_controller_instead_of_leaving_its_old_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = led_by(range(1, 4), 1)
    late = world.nodes[3]
    assert late.driver is not None
    fatal: list[Exception] = []
    world.on_fatal = fatal.append

    def of_a_newer_version(data: bytes) -> None:
        raise SnapshotError("start the newer version that wrote it")

    monkeypatch.setattr(late.machine, "restore", of_a_newer_version)
    world.cuts = {(1, 3), (3, 1)}
    for number in range(3):
        world.propose(1, b"%d" % number)
        pass_time(world, 1)
    world.nodes[1].storage.snapshot_due = True
    pass_time(world, 1)
    applied = late.driver.applied
    world.cuts.clear()
    pass_time(world, 2 * SETTINGS.election_ticks)
    assert [type(error) for error in fatal] == [SnapshotError]
    assert late.driver.failed is not None
    assert late.driver.applied == applied
