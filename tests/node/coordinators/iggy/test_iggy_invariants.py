"""What holds of a group of Iggy's clients whatever its members, its brokers and its coordinators do."""

from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.groups.iggy_world import IggyWorld

ACTS = (
    *("deliver",) * 6,
    *("hear",) * 6,
    *("store",) * 5,
    *("say",) * 3,
    *("poll",) * 5,
    *("commit",) * 4,
    *("join",) * 3,
    "leave",
    "fail",
    "move",
    "restart",
    "deliver twice",
    "lose",
    "partitions",
    "wait",
    "wait",
)
STEPS = st.tuples(st.sampled_from(ACTS), st.integers(0, 2), st.integers(0, 3))
WAITS_MS = (10, 1_000, 3_000, 40_000)


class Offsets:
    """How far each partition was polled."""

    def __init__(self) -> None:
        self.end = 0
        self.polled: dict[tuple[int, int], int] = {}
        """By connection and partition."""


def take(world: IggyWorld, offsets: Offsets, act: str, who: int, choice: int) -> None:
    side = world.sides[who]
    connection = 10 * side.epoch + choice % 2
    member = side.member(connection)
    match act:
        case "deliver" if world.messages:
            world.deliver(world.messages.pop(0))
        case "deliver twice" if world.messages:
            message = world.messages.pop(0)
            world.deliver(message)
            world.messages.insert(min(choice, len(world.messages)), message)
        case "lose" if world.messages:
            world.messages.pop(choice % len(world.messages))
        case "hear" if world.answers:
            world.hear(*world.answers.pop(choice % len(world.answers)))
        case "store":
            world.store()
        case "fail":
            world.fail(is_kept=choice % 2 == 0)
        case "move":
            world.move(keeps_unstored=choice % 2 == 0)
        case "say":
            world.say(side)
        case "join":
            world.join(side, connection, is_sticky=choice < 3)
        case "leave":
            world.leave(side, connection)
        case "restart":
            world.restart(side)
        case "poll" if member is not None and side.here.is_current(world.now_ms):
            number = member.next_partition()
            if number is not None:
                offsets.end += 1
                member.begin_poll(number)
                member.end_poll(number, offsets.end)
                offsets.polled[connection, number] = offsets.end
        case "commit" if member is not None:
            for (other, number), offset in offsets.polled.items():
                if other == connection:
                    member.store(number, offset)
        case "partitions":
            world.known.partitions = 1 + choice * 2
        case "wait":
            world.wait(WAITS_MS[choice])
        case _:
            pass


def check(world: IggyWorld) -> None:
    for number in range(8):
        assert len(world.pollers(number)) <= 1, (number, world.pollers(number))


@examples(300)
@given(st.lists(STEPS, max_size=150))
def test_no_partition_is_polled_by_two_and_all_are_polled_in_the_end(
    steps: list[tuple[str, int, int]],
) -> None:
    world, offsets = IggyWorld(), Offsets()
    for act, who, choice in steps:
        take(world, offsets, act, who, choice)
        check(world)
    settle(world)


def settle(world: IggyWorld) -> None:
    """From now on nothing fails: in bounded time every partition is some member's, and loads are fair."""
    world.run()
    for _ in range(45):
        world.beat()
        world.run()
        check(world)
    shares = list(world.shares().values())
    if shares:
        assert sorted(number for share in shares for number in share) == list(range(world.known.partitions))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
