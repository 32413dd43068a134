"""What holds of a group whatever its members, its log and its coordinators do."""

from hypothesis import given
from hypothesis import strategies as st

from tank_node.coordinators.machine.group_state import GroupState
from tests.support.examples import examples
from tests.support.groups.world import INITIAL_MS, PROTOCOLS, REBALANCES_MS, SESSION_MS, World

ACTS = (
    "go on",
    "go on",
    "go on",
    "go on",
    "join",
    "restart",
    "leave",
    "commit",
    "store",
    "store",
    "fail",
    "move",
)
STEPS = st.tuples(st.sampled_from((*ACTS, "wait", "wait")), st.integers(0, 5), st.integers(0, 3))
WAITS_MS = (100, INITIAL_MS, SESSION_MS - 1, REBALANCES_MS[0])


def take(world: World, act: str, who: int, choice: int) -> None:
    process = world.processes[who]
    match act:
        case "go on":
            world.go_on(process, choice)
        case "join":
            world.join(process, PROTOCOLS[choice])
        case "restart":
            process.forget()
        case "leave":
            world.leave(process)
        case "commit":
            world.commit(process, choice % 2)
        case "store":
            world.store()
        case "fail":
            world.fail(is_kept=choice % 2 == 0)
        case "move":
            world.move(choice)
        case _:
            world.wait(WAITS_MS[choice])


@examples(200)
@given(st.sampled_from((0, INITIAL_MS)), st.lists(STEPS, max_size=150))
def test_generations_leaders_and_assignments_hold_whatever_happens(
    delay_ms: int, steps: list[tuple[str, int, int]]
) -> None:
    world = World(delay_ms)
    for act, who, choice in steps:
        take(world, act, who, choice)
    settle(world)
    silence(world)


def settle(world: World) -> None:
    """From now on nothing fails: in bounded time all who live are in one stable generation.

    All know all protocols: of members that it has loaded, a coordinator knows the chosen one alone, and it
    would refuse others that don't know that one.
    """
    living = [process for process in world.processes if process.number != 3]  # another one has its place
    for process in living:
        process.protocols = PROTOCOLS[2]
    for _ in range(120):
        for process in living:
            world.go_on(process, 0)
            while world.unstored:
                world.store()
        if world.size == len(living) and not any(p.wants_to_join or p.owes_sync for p in living):
            break
        world.wait(1_000)
    assert world.group.state is GroupState.STABLE
    assert {process.generation for process in living} == {world.group.generation.number}
    assert world.size == len(living)
    assert not world.waiting


def silence(world: World) -> None:
    """Everybody dies: the group is empty after a session."""
    world.wait(SESSION_MS)
    while world.unstored:
        world.store()
    world.wait(max(REBALANCES_MS))
    assert world.group.state is GroupState.EMPTY
    assert world.group.next_deadline_ms() is None
