"""Told stories of a consumer group's machine, its members, its log and its coordinators: no cluster."""

from tank_node.coordinators.committed_offsets import CommittedOffsets
from tank_node.coordinators.group_requests import CommittedOffset
from tank_node.coordinators.group_state import GroupState
from tank_node.coordinators.offset_expiry import expiry_of
from tests.simulation.world import must
from tests.support.groups.world import SESSION_MS, World

RETENTION_MS = 7 * 86_400_000
ORDERS = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"
"""What a consumer says that reads the topic `orders`."""
DYNAMIC, OTHER, OLD, NEW = 0, 2, 3, 4
"""Processes: two of members without a name, and an old and a new one of a static member."""


def _stable(*numbers: int) -> World:
    """A stable group of these processes."""
    world = World(0)
    for _ in range(4):
        for number in numbers:
            world.go_on(world.processes[number], 0)
            while world.unstored:
                world.store()
    must(world.group.state is GroupState.STABLE, "the group is not stable")
    return world


def _next_generation(world: World) -> None:
    """The only member, which leads, joins again and is assigned."""
    member = world.processes[DYNAMIC]
    world.join(member, member.protocols)
    world.store()
    world.go_on(member, 0)
    world.store()


def a_groups_coordinator_dies_and_its_members_join_again() -> None:
    world = _stable(DYNAMIC)
    member = world.processes[DYNAMIC]
    _next_generation(world)
    world.move(0)
    world.join(member, member.protocols)
    world.store()
    must(member.generation == 3, "the member is in no new generation")


def a_coordinator_dies_before_a_generation_is_stored() -> None:
    """The next coordinator has never heard of the generation, and another member is there first."""
    world = World(0)
    for number in (DYNAMIC, OTHER):
        world.go_on(world.processes[number], 0)
        world.move(0)
    world.go_on(world.processes[OTHER], 0)
    world.store()
    must(world.processes[OTHER].generation == 1, "the member is in no generation")


def assignments_are_lost_with_their_coordinator() -> None:
    world = World(0)
    leader = world.processes[DYNAMIC]
    world.go_on(leader, 0)
    world.store()
    world.go_on(leader, 0)
    must(len(world.unstored) == 1, "the assignments are not being stored")
    world.move(0)
    must(world.group.state is GroupState.COMPLETING_REBALANCE, "the generation has no assignments")


def a_member_commits_what_it_read_in_an_older_generation() -> None:
    world = _stable(DYNAMIC)
    member = world.processes[DYNAMIC]
    _next_generation(world)
    world.commit(member, 0)
    world.commit(member, 1)


def an_old_process_of_a_static_member_goes_on() -> None:
    world = _stable(DYNAMIC, OLD)
    world.go_on(world.processes[NEW], 0)
    world.store()
    old = world.processes[OLD]
    must(world.processes[NEW].member_id != old.member_id, "the new process has the old one's id")
    world.commit(old, 0)
    world.heartbeat(old)


def members_that_live_are_kept() -> None:
    world = _stable(DYNAMIC)
    for _ in range(3):
        world.wait(SESSION_MS - 1)
        world.heartbeat(world.processes[DYNAMIC])
    must(world.group.state is GroupState.STABLE, "a member that lives is out")


def a_group_reads_slowly_what_it_has_committed_long_ago() -> None:
    world = World(0)
    member = world.processes[DYNAMIC]
    world.join(member, (("range", ORDERS),))
    world.store()
    world.go_on(member, 0)
    world.store()
    offsets = CommittedOffsets()
    for topic in ("orders", "former"):
        offsets.load((topic, 0), CommittedOffset(7))
    expiry = expiry_of(world.group, 2 * RETENTION_MS, RETENTION_MS)
    must(expiry is not None, "nothing expires of a group of consumers")
    gone = [place for place, offset in offsets.items() if expiry is not None and expiry.takes(place, offset)]
    must(gone == [("former", 0)], f"of a group that lives {gone} expired")


STORIES = (
    a_groups_coordinator_dies_and_its_members_join_again,
    a_coordinator_dies_before_a_generation_is_stored,
    assignments_are_lost_with_their_coordinator,
    a_member_commits_what_it_read_in_an_older_generation,
    an_old_process_of_a_static_member_goes_on,
    members_that_live_are_kept,
    a_group_reads_slowly_what_it_has_committed_long_ago,
)
