"""Told stories of brokers' wall clocks that go wrong. A leads, B leads next, C last."""

from collections.abc import Callable

from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import ProducerStamp
from tank_node.replication.role import Role
from tank_protos import bundle
from tests.simulation.told.told import ToldStory, telling
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.world import SECOND, must

DAY_MS = 86_400_000
IN_MEMORY = {"flush": "replicated", "min.insync.replicas": "2"}
NOTICED_US = 60 * SECOND
"""A clock that jumps is followed at twice the pace of time: it takes a while to be off by clock.skew.max."""


def a_leaders_clock_is_off() -> None:
    """Another leads in A's place, which follows on and is in sync; A leads again when its clock is right."""
    with telling(IN_MEMORY) as story:
        a, b, c = story.cast
        story.append(a)
        a.clock_error.wrong_by_ms += 365 * DAY_MS
        story.until(lambda: story.placed.leader not in (0, a.broker_id), "another leader", NOTICED_US)
        story.go_on(SECOND)
        must(story.are_in_sync(a, b, c), "A is no replica in sync any more")
        story.append(story.cast[0])
        b.clock_error.wrong_by_ms = a.clock_error.wrong_by_ms = 0
        story.until(lambda: story.placed.leader == a.broker_id, "A's leading again", NOTICED_US)
        story.rest()


def a_broker_whose_clock_is_off_starts_again() -> None:
    """It is known to be off, whichever of its processes runs: it isn't given anything to lead."""
    with telling(IN_MEMORY) as story:
        a, b, c = story.cast
        a.clock_error.wrong_by_ms += 365 * DAY_MS
        story.until(lambda: story.state.brokers[a.broker_id].clock_off, "its being noticed", NOTICED_US)
        epoch = story.state.brokers[a.broker_id].epoch
        a.end(False)
        story.go_on(SECOND)
        a.start()
        story.until(lambda: story.state.brokers[a.broker_id].epoch != epoch, "its registration")
        must(story.state.brokers[a.broker_id].clock_off, "its new process counts as right")
        story.until(lambda: story.are_in_sync(a, b, c), "A's being in sync")
        b.end(False)
        story.until(lambda: story.placed.leader == c.broker_id, "C's leading")
        c.end(False)
        story.until(lambda: story.placed.leader == a.broker_id, "A's leading, for there is no other")
        a.clock_error.wrong_by_ms = 0
        story.rest()


def clocks_without_a_majority_stop_nothing() -> None:
    """Each clock is an hour from every other: no broker is kept from leading, and messages are taken."""
    with telling(IN_MEMORY) as story:
        a = story.cast[0]
        for machine in story.brokers.values():
            machine.end(False)
            machine.clock_error.wrong_by_ms = machine.broker_id * 3_600_000
            machine.start()
        story.until(lambda: story.is_back(a) and len(story.placed.in_sync) == 3, "all in sync", NOTICED_US)
        story.go_on(20 * SECOND)
        leader = story.cluster.leader()
        assert leader is not None
        assert leader.brokers is not None
        off = [each.broker_id for each in story.state.brokers.values() if each.clock_off]
        must(not off, "brokers %s are kept from leading", off)
        story.append(story.cast[0])
        story.rest()


def a_leaders_clock_jumps_for_a_year() -> None:
    """What it stamps stays near to the right time, and it knows its producers."""
    with telling(IN_MEMORY) as story:
        a = story.cast[0]
        repeat = _first_copy(story, a)
        a.clock_error.wrong_by_ms = 365 * DAY_MS
        story.go_on(2 * SECOND)
        story.append(a)
        story.go_on(SECOND)
        ahead_ms = _stamped_ms(story.at(a)) - story.world.now_ms()
        must(ahead_ms < 60_000, "the last batch is stamped %s ms ahead", ahead_ms)
        repeat(a)
        a.clock_error.wrong_by_ms = 0
        story.rest()


def all_start_with_their_clocks_nine_days_ahead() -> None:
    """Their logs say that nine days have passed: a producer that wrote just before is known all the same."""
    with telling(IN_MEMORY) as story:
        repeat = _first_copy(story, story.cast[0])
        for machine in story.brokers.values():
            machine.end(False)
            machine.clock_error.wrong_by_ms = 9 * DAY_MS
            machine.start()
        machines = list(story.brokers.values())
        story.until(lambda: all(map(story.is_back, machines)), "their coming back", NOTICED_US)
        story.until(lambda: story.are_in_sync(*machines), "all in sync", NOTICED_US)
        leader = story.cast[0]
        story.until(lambda: story.at(leader).role is Role.LEADER, "its leading")
        story.go_on(SECOND)  # it hears who is in sync
        story.append(leader)
        story.until(lambda: story.at(leader).high_water_mark == 2, "its being committed")
        must(_stamped_ms(story.at(leader)) > story.world.now_ms() + 8 * DAY_MS, "the clock is not believed")
        repeat(leader)
        story.rest()


def _stamped_ms(partition: Partition) -> int:
    """When its last batch was appended, as the log says."""
    return partition.log.segments[-1].last_append_ms


class _Unheard:
    """Nobody waits for the answer."""

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        """`tank_node.partition.waiters.Completion`."""


def _first_copy(story: ToldStory, machine: BrokerMachine) -> Callable[[BrokerMachine], None]:
    """A producer writes a batch; call what is given for its repeat, which must not be stored again."""
    producer = ProducerStamp(77, 0, 0)
    story.append_again(machine, producer, 1)

    def repeat(leader: BrokerMachine) -> None:
        server, partition = leader.server, story.at(leader)
        assert server is not None
        before = partition.log.last
        batch = bytes(bundle.as_batch(bundle.encode([b"told:repeat"], timestamps=story.world.now_ms())))

        def act() -> None:
            server.begin()
            partition.append(memoryview(batch), _Unheard(), 0, producer=producer)
            server.finish()

        story.do(leader, act)
        must(partition.log.last == before, "the repeat was stored a second time")

    return repeat


STORIES: tuple[Callable[[], None], ...] = (
    a_leaders_clock_is_off,
    a_broker_whose_clock_is_off_starts_again,
    clocks_without_a_majority_stop_nothing,
    a_leaders_clock_jumps_for_a_year,
    all_start_with_their_clocks_nine_days_ahead,
)
