"""What holds of a group of Iggy's clients whatever its members, its brokers and its coordinators do."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tank_node.peers.iggy.iggy_membership import IggyMembership
from tests.support.examples import examples
from tests.support.groups.iggy_world import BrokerSide, IggyWorld

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


SOON_MS = 20_000
"""A partition that was polled so shortly before is not given to another for the time that passed."""


@dataclass
class LastPoll:
    """Who polled a partition last."""

    side: BrokerSide
    member: IggyMembership
    at_ms: int


class Offsets:
    """How far each partition was polled."""

    def __init__(self) -> None:
        self.end = 0
        self.polled: dict[tuple[int, int], int] = {}
        """By connection and partition."""
        self._last: dict[int, LastPoll] = {}

    def poll(self, world: IggyWorld, side: BrokerSide, member: IggyMembership, number: int) -> None:
        """A member polls a partition. Who did that before, and is still to give it up, has stored how far it
        came."""
        last = self._last.get(number)
        if last is not None and last.member is not member and number in last.member.draining:
            is_member = last.side.member(last.member.name.connection) is last.member
            is_heard = last.side in world.sides and last.side.here.is_current(world.now_ms)
            if is_member and is_heard and world.now_ms - last.at_ms < SOON_MS:
                assert number in last.member.released()
        self._last[number] = LastPoll(side, member, world.now_ms)
        self.end += 1
        member.begin_poll(number)
        member.end_poll(number, self.end)
        self.polled[member.name.connection, number] = self.end


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
                offsets.poll(world, side, member, number)
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
