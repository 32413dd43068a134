"""What holds of a group of the consumer protocol whatever its members, its topics, its log and its
coordinators do."""

from hypothesis import given
from hypothesis import strategies as st

from tank_node.coordinators.machine.group_state import GroupState
from tests.support.examples import examples
from tests.support.groups.consumer_world import REBALANCE_MS, SESSION_MS, TOPICS, ConsumerWorld, by_name

ACTS = (
    *("go on",) * 6,
    *("give up",) * 4,
    *("store",) * 4,
    "fail",
    "move",
    "leave",
    "restart",
    "lose an answer",
    "subscribe",
    "topics",
    "wait",
    "wait",
)
STEPS = st.tuples(st.sampled_from(ACTS), st.integers(0, 4), st.integers(0, 3))
WAITS_MS = (100, 5_000, REBALANCE_MS, SESSION_MS)


def take(world: ConsumerWorld, act: str, who: int, choice: int) -> None:
    process = world.processes[who]
    match act:
        case "go on":
            world.go_on(process)
        case "give up":
            world.give_up(process)
            world.check()
        case "store":
            world.store()
        case "fail":
            world.fail(is_kept=choice % 2 == 0)
        case "move":
            world.move(choice)
        case "leave":
            world.leave(process, for_a_while=choice % 2 == 0)
        case "restart":
            world.restart(process)
        case "lose an answer":
            world.drop_connection(process)
        case "subscribe":
            process.topics = TOPICS[choice]
            process.says_all = process.wants_to_join = True
        case "topics":
            world.change_topics(choice)
        case _:
            world.wait(WAITS_MS[choice])


@examples(300)
@given(st.integers(0, 3), st.lists(STEPS, max_size=200))
def test_no_partition_has_two_owners_and_no_epoch_goes_back_whatever_happens(
    classic: int, steps: list[tuple[str, int, int]]
) -> None:
    world = ConsumerWorld(classic=classic)
    for act, who, choice in steps:
        take(world, act, who, choice)
    settle(world)
    silence(world)


def settle(world: ConsumerWorld) -> None:
    """From now on nothing fails: in bounded time all who live read everything, each partition once."""
    for _ in range(60):
        for process in world.processes:
            world.go_on(process)
            while world.unstored:
                world.store()
            world.give_up(process)
            world.check()
        if world.is_settled and len(world.group.sharing.members) == len(world.processes):
            break
        world.wait(5_000)
    assert world.group.state is GroupState.STABLE
    assert {process.member_id for process in world.processes} == {
        member.member_id for member in world.group.sharing.members
    }
    read = [part for process in world.processes for part in process.reads]
    assert len(read) == len(set(read))
    shapes = [world.topics.named(name) for process in world.processes for name in process.topics]
    assert set(read) == {
        (shape.name, number) for shape in shapes if shape is not None for number in range(shape.partitions)
    }
    for process in world.processes:
        assert set(by_name(process.reads)) <= set(process.topics)


def silence(world: ConsumerWorld) -> None:
    """Everybody dies: the group is empty after a session."""
    world.wait(SESSION_MS)
    while world.unstored:
        world.store()
    assert world.group.state is GroupState.EMPTY
    assert world.group.next_deadline_ms() is None
