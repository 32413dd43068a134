"""What many groups and offsets cost is done in slices, so that the event loop is not held up."""

from pathlib import Path

from tank_node.coordinators.classic.classic_group import ClassicGroup
from tank_node.coordinators.consumer.group_machines import GroupMachines
from tank_node.coordinators.group import Group
from tank_node.coordinators.group_partition import GroupPartition
from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeat
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import ListedGroup, MemberName
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.iggy_requests import IggyKnown
from tank_node.limits import Limits
from tests.support.groups.coordinating import GROUP, Coordinating, coordinating
from tests.support.groups.known_topics import KnownTopics

SLICED = Limits(group_slice_ms=0)
"""Each step is a slice of its own."""
MANY = 600
"""More offsets than a step deletes."""
PLACES = [("large", number) for number in range(MANY)]


def ready(at: Coordinating) -> Coordinating:
    at.found()
    at.load()
    return at


def filled(at: Coordinating) -> Coordinating:
    """A group has an offset in each partition of a large topic."""
    ready(at)
    at.node.controller.add("large", MANY)
    assert set(at.commit(7, places=PLACES)) == {GroupError.NONE}
    return at


def turn(at: Coordinating) -> None:
    """One slice, and the disk has what it appended."""
    at.node.pass_ms(1)
    at.settle()


# --- deletions ---


def test_a_large_group_is_deleted_in_slices(tmp_path: Path) -> None:
    with coordinating(tmp_path, limits=SLICED) as at:
        filled(at)
        found: list[dict[str, GroupError]] = []
        at.groups.delete([GROUP], lambda results: found.append(dict(results)))
        turns = 0
        while not found:
            turn(at)
            turns += 1
            assert turns < 50
        assert turns > 2
        assert found == [{GROUP: GroupError.NONE}]
        assert at.groups.listed() == (GroupError.NONE, [])
        controller = at.node.controller
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        assert at.groups.listed() == (GroupError.NONE, [])


def test_what_is_committed_while_a_group_is_deleted_stays(tmp_path: Path) -> None:
    with coordinating(tmp_path, limits=SLICED) as at:
        filled(at)
        found: list[dict[str, GroupError]] = []
        at.groups.delete([GROUP], lambda results: found.append(dict(results)))
        turn(at)
        answers = [at.begin_commit(9, places=[place]) for place in (PLACES[0], PLACES[-1])]
        while not found:
            turn(at)
        assert [list(each.values()) for (each,) in answers] == [[GroupError.NONE]] * 2
        assert at.offsets() == {PLACES[0]: 9, PLACES[-1]: 9}
        controller = at.node.controller
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        assert at.offsets() == {PLACES[0]: 9, PLACES[-1]: 9}


def test_a_deletion_that_is_cut_short_says_so(tmp_path: Path) -> None:
    with coordinating(tmp_path, limits=SLICED) as at:
        filled(at)
        found: list[dict[str, GroupError]] = []
        at.groups.delete([GROUP], lambda results: found.append(dict(results)))
        turn(at)
        at.lead(2, 2)
        assert found == [{GROUP: GroupError.NOT_COORDINATOR}]


def test_many_offsets_are_deleted_in_slices_with_one_answer(tmp_path: Path) -> None:
    with coordinating(tmp_path, limits=SLICED) as at:
        filled(at)
        found: list[tuple[GroupError, set[GroupError]]] = []
        places = PLACES[1:]
        at.groups.delete_offsets(
            GROUP, places, lambda error, results: found.append((error, set(results.values())))
        )
        assert not found
        for _ in range(10):
            turn(at)
        assert found == [(GroupError.NONE, {GroupError.NONE})]
        assert at.offsets() == {PLACES[0]: 7}


def test_a_deletion_that_fails_in_part_is_no_deletion(tmp_path: Path) -> None:
    with coordinating(tmp_path, limits=SLICED) as at:
        filled(at)
        found: list[dict[str, GroupError]] = []
        at.groups.delete([GROUP], lambda results: found.append(dict(results)))
        at.partition().set_in_sync(1, 2)
        turn(at)
        at.partition().set_in_sync(2, 2)
        for _ in range(10):
            turn(at)
        assert found == [{GROUP: GroupError.NOT_AVAILABLE}]
        assert 0 < len(at.offsets()) < MANY
        assert at.commit(9, places=PLACES[:1]) == [GroupError.NONE]


# --- looks at all offsets ---


def test_a_large_groups_offsets_are_looked_through_in_slices(tmp_path: Path) -> None:
    with coordinating(tmp_path, limits=SLICED) as at:
        filled(at)
        at.commit(8)
        for number in range(50):
            at.node.controller.add(f"short-{number}")
            at.node.controller.delete_topic(f"short-{number}", lambda _: None)
        at.node.controller.delete_topic("large", lambda _: None)
        turn(at)
        batches = at.node.metrics.produced_batches
        turns = 0
        while at.groups.room.memory.offsets > 1:
            turn(at)
            turns += 1
            assert turns < 50
        assert turns >= MANY // 256
        assert at.node.metrics.produced_batches - batches >= MANY // 256
        assert at.offsets() == {("orders", 0): 8}


# --- loads ---


def test_members_that_were_loaded_have_one_full_session_however_long_that_took(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        members = {f"group-{number}": "" for number in range(20)}
        for group_id in members:
            members[group_id] = at.stable_member(group_id)
        controller = at.node.controller
    with coordinating(tmp_path, controller=controller, limits=SLICED) as at:
        while at.groups.listed()[0] is GroupError.LOADING:
            at.node.pass_ms(1_000)  # each slice is late
        for group_id, member_id in members.items():
            assert at.groups.heartbeat(MemberName(group_id, member_id), 1) is GroupError.NONE
        at.node.pass_ms(9_000)
        at.settle()
        for group_id, member_id in members.items():
            assert at.groups.heartbeat(MemberName(group_id, member_id), 1) is GroupError.NONE


def test_sessions_of_members_that_were_loaded_and_stay_silent_end(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        members = [ready(at).stable_member(), at.stable_member("other")]
        controller = at.node.controller
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        for _ in range(30):
            at.node.pass_ms(400)
            at.settle()
        for group_id, member_id in zip((GROUP, "other"), members, strict=True):
            assert at.groups.heartbeat(MemberName(group_id, member_id), 1) is GroupError.UNKNOWN_MEMBER


# --- lists ---


def test_many_groups_are_listed_in_slices(tmp_path: Path) -> None:
    settings = GroupSettings(topic_partitions=4, initial_delay_ms=0)
    with coordinating(tmp_path, settings=settings, limits=SLICED) as at:
        ready(at)
        for number in range(MANY):
            at.begin_commit(7, f"group-{number}")
        at.settle()
        found: list[tuple[GroupError, list[ListedGroup]]] = []
        at.groups.list_all(lambda *listed: found.append(listed))
        assert not found
        turn(at)
        assert at.commit(7, "late") == [GroupError.NONE]
        at.groups.list_all(lambda *listed: found.append(listed))
        for _ in range(20):
            turn(at)
        (first_error, first), (second_error, second) = found
        assert (first_error, second_error) == (GroupError.NONE, GroupError.NONE)
        assert {each.group_id for each in first} >= {f"group-{number}" for number in range(MANY)}
        assert len(second) == MANY + 1, "it has what was there when it was asked for"


def test_a_list_says_how_many_members_each_group_has(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        at.commit(7, "simple")
        at.stable_member("classic")
        for member_id in ("a", "b"):
            heartbeat = ConsumerHeartbeat("sharing", member_id, rebalance_ms=1, topics=("orders",), owned={})
            at.groups.consumer_heartbeat(heartbeat, lambda answer: None)
            at.settle()
        found: list[tuple[GroupError, list[ListedGroup]]] = []
        at.groups.list_all(lambda *listed: found.append(listed))
        ((error, listed),) = found
        assert (error, listed) == at.groups.listed()
        assert {each.group_id: each.members for each in listed} == {"simple": 0, "classic": 1, "sharing": 2}


def test_a_broker_that_stops_answers_those_who_wait_for_a_list(tmp_path: Path) -> None:
    with coordinating(tmp_path, limits=SLICED) as at:
        ready(at)
        for number in range(MANY):
            at.begin_commit(7, f"group-{number}")
        at.settle()
        found: list[object] = []
        at.groups.list_all(lambda *listed: found.append(listed))
        at.groups.list_all(lambda *listed: found.append(listed))
        at.node.broker.deadlines.end_waits()
        assert found == [(GroupError.NOT_COORDINATOR, [])] * 2


# --- the end ---


def test_a_broker_that_stops_while_times_are_over_answers_those_who_wait(tmp_path: Path) -> None:
    settings = GroupSettings(topic_partitions=1, initial_delay_ms=3_000)
    with coordinating(tmp_path, settings=settings) as at:
        joined = ready(at).join()
        at.node.clock.pass_ms(60_000)
        at.node.broker.begin_tick()
        at.node.broker.deadlines.end_waits()
        assert [answer.error for answer in joined] == [GroupError.NOT_COORDINATOR]


class Restless(ClassicGroup):
    """A machine whose next time is always over."""

    looks = 0

    def next_deadline_ms(self) -> int | None:
        return 0

    def expire(self, now_ms: int) -> None:
        self.looks += 1


def test_a_group_whose_time_is_always_over_keeps_no_look_going(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        rings: list[int] = []
        machines = GroupMachines(at.groups.settings, KnownTopics({}), IggyKnown(), str)
        led = GroupPartition(at.node.broker, at.partition(), machines, rings.append, lambda _: None)
        while led.state is GroupError.LOADING:
            led.slice()
        machine = Restless(GROUP, at.groups.settings, str)
        led.groups[GROUP] = Group(GROUP, machine, led.memory)
        led.leave(GROUP, [])
        now_ms = at.node.broker.tick.monotonic_ms
        for later in range(1, 4):
            at.node.pass_ms(1)
            led.look(now_ms + later)
            assert machine.looks == later
            assert rings[-1] == now_ms + later + 1
