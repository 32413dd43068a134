"""A group of Iggy's clients: joining, leaving, and partitions that move."""

from tank_node.coordinators.iggy.holdings import PENDING_MS
from tank_node.coordinators.iggy.iggy_members import SILENCE_MS
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_limits import GroupLimits
from tank_node.coordinators.machine.group_requests import CommitRequest, JoinRequest, MemberName
from tank_node.coordinators.machine.group_state import GroupState
from tank_protos.error_codes import ErrorCode
from tests.support.groups.iggy_world import GROUP, IggyWorld


def two_members(*, is_sticky: bool = True, polled: int | None = None) -> IggyWorld:
    """Connection 1 at broker 1 has all; it polled to this offset in each; then 2 joins at broker 2."""
    world = IggyWorld()
    one, two, _ = world.sides
    world.join(one, 1, is_sticky=is_sticky)
    world.run()
    member = one.member(1)
    assert member is not None
    assert member.partitions == (0, 1, 2, 3)
    if polled is not None:
        for number in range(4):
            member.begin_poll(number)
            member.end_poll(number, polled)
    world.join(two, 2, is_sticky=is_sticky)
    world.run()
    for _ in range(2):  # what broker 1 hears, broker 2 hears at its next word
        world.beat()
        world.run()
    return world


def test_the_first_member_has_everything() -> None:
    world = IggyWorld()
    world.join(world.sides[0], 1)
    world.run()
    assert world.sides[0].outcomes == [ErrorCode.NONE]
    assert world.shares() == {1: (0, 1, 2, 3)}
    assert world.group.state is GroupState.STABLE


def test_a_join_is_not_answered_before_it_is_stored() -> None:
    world = IggyWorld()
    world.join(world.sides[0], 1)
    world.deliver(world.messages.pop())
    assert not world.answers
    assert len(world.unstored) == 1
    world.run()
    assert world.sides[0].outcomes == [ErrorCode.NONE]


def test_a_newcomer_gets_its_share_at_once_where_nothing_was_polled() -> None:
    world = two_members()
    assert world.shares() == {1: (0, 1), 2: (2, 3)}


def test_a_partition_that_was_polled_waits_for_its_offset() -> None:
    world = two_members(polled=9)
    one, _two, _ = world.sides
    member = one.member(1)
    assert member is not None
    assert (member.partitions, member.draining) == ((0, 1), (2, 3))
    assert world.shares()[2] == ()
    assert world.group.state is GroupState.RECONCILING
    member.store(2, 9)
    member.store(3, 8)
    world.say(one)
    world.run()
    world.beat()
    world.run()
    assert world.shares() == {1: (0, 1), 2: (2,)}
    assert member.draining == (3,)


def test_it_waits_for_half_a_minute_at_most() -> None:
    world = two_members(polled=9)
    for _ in range(PENDING_MS // 1_000 - 3):
        world.beat()
        world.run()
    assert world.shares()[2] == ()
    for _ in range(4):
        world.beat()
        world.run()
    assert world.shares() == {1: (0, 1), 2: (2, 3)}


def test_a_third_member_does_not_make_the_wait_longer() -> None:
    world = two_members(polled=9)
    since_ms = world.now_ms
    world.beat(20_000 // 10)
    world.run()
    world.join(world.sides[2], 3)
    world.run()
    while world.now_ms - since_ms < PENDING_MS + 1_000:
        world.beat()
        world.run()
    member = world.sides[0].member(1)
    assert member is not None
    assert not member.draining


def test_members_of_before_b3_give_up_when_they_hear_of_it() -> None:
    world = two_members(is_sticky=False, polled=9)
    assert world.shares() == {1: (0, 2), 2: (1, 3)}


def test_a_poll_under_way_is_waited_for() -> None:
    world = IggyWorld()
    one, two, _ = world.sides
    world.join(one, 1, is_sticky=False)
    world.run()
    member = one.member(1)
    assert member is not None
    member.begin_poll(1)
    world.join(two, 2, is_sticky=False)
    world.run()
    for _ in range(2):
        world.beat()
        world.run()
    assert world.shares() == {1: (0, 2), 2: (3,)}
    member.end_poll(1, 4)
    world.say(one)
    world.run()
    world.beat()
    world.run()
    assert world.shares() == {1: (0, 2), 2: (1, 3)}


def test_who_leaves_waits_for_nothing() -> None:
    world = two_members(polled=9)
    world.leave(world.sides[0], 1)
    world.run()
    world.beat()
    world.run()
    assert world.shares() == {2: (0, 1, 2, 3)}


def test_more_members_than_partitions_have_nothing() -> None:
    world = IggyWorld(partitions=1)
    world.join(world.sides[0], 1)
    world.join(world.sides[0], 2)
    world.run()
    assert world.shares() == {1: (0,), 2: ()}


def test_new_partitions_are_shared_out() -> None:
    world = two_members()
    world.known.partitions = 6
    for _ in range(2):
        world.beat()
        world.run()
    assert world.shares() == {1: (0, 1, 4), 2: (2, 3, 5)}


def test_partitions_that_are_gone_are_gone() -> None:
    world = two_members()
    world.known.partitions = 2
    for _ in range(3):
        world.beat()
        world.run()
    assert sorted(world.shares().values()) == [(0,), (1,)]


def test_the_members_of_a_silent_broker_are_out() -> None:
    world = two_members()
    world.sides[1].here.members.clear()  # it says nothing
    for _ in range(SILENCE_MS // 1_000 + 1):
        world.beat()
        world.run()
    assert world.shares() == {1: (0, 1, 2, 3)}


def test_a_broker_judges_no_longer_by_what_it_heard_than_its_coordinator_waits() -> None:
    world = two_members()
    world.wait(SILENCE_MS - 1)
    assert world.sides[0].here.is_current(world.now_ms - 1)
    world.wait(1)
    assert not world.sides[0].here.is_current(world.now_ms)


def test_another_process_of_a_broker_has_none_of_the_members() -> None:
    world = two_members()
    world.restart(world.sides[1])
    world.join(world.sides[1], 9)
    world.run()
    world.beat()
    world.run()
    assert world.shares() == {1: (0, 1), 9: (2, 3)}


def test_a_fenced_broker_is_refused_and_joins_again_when_it_is_not() -> None:
    world = two_members()
    two = world.sides[1]
    world.known.lost.add((2, 102))
    world.beat()
    world.run()
    assert world.sides[0].member(1) is not None
    world.beat()
    world.run()
    assert world.shares()[1] == (0, 1, 2, 3)
    world.known.lost.clear()
    for _ in range(3):
        world.beat()
        world.run()
    assert two.member(2) is not None
    assert world.shares() == {1: (0, 1), 2: (2, 3)}


def test_the_next_coordinator_knows_generation_and_members() -> None:
    world = two_members(polled=9)
    generation = world.group.generation
    world.move()
    assert world.group.generation == generation
    assert world.group.state is GroupState.RECONCILING
    world.beat()
    world.run()
    assert world.shares() == {1: (0, 1), 2: ()}
    member = world.sides[0].member(1)
    assert member is not None
    assert member.draining == (2, 3)


def test_a_message_that_comes_late_or_twice_changes_nothing() -> None:
    world = IggyWorld()
    one = world.sides[0]
    world.join(one, 1)
    late = world.messages[0]
    world.leave(one, 1)
    world.run()
    world.messages.append(late)
    world.run()
    assert world.group.state is GroupState.EMPTY
    assert world.shares() == {}


def test_what_was_given_up_once_is_not_given_up_when_it_is_asked_for_anew() -> None:
    """A release on its way from before: the partition went back to its owner meanwhile, which polled it."""
    world = two_members(polled=9)
    one, two, _ = world.sides
    member = one.member(1)
    assert member is not None
    for number in (2, 3):
        member.store(number, 9)
    world.say(one)
    release = world.messages.pop()
    world.leave(two, 2)
    world.run()
    world.beat()
    world.run()
    assert world.shares() == {1: (0, 1, 2, 3)}
    member.begin_poll(2)
    member.end_poll(2, 20)
    world.join(two, 2)
    world.run()
    release.said = type(release.said)(
        1, 101, one.sequence + 1, release.said.members, release.said.generation, release.said.released
    )
    one.sequence += 1
    world.messages.append(release)
    world.run()
    for _ in range(2):
        world.beat()
        world.run()
    assert world.shares() == {1: (0, 1), 2: (3,)}, "3 was not polled since"


def test_a_change_that_is_not_stored_is_stored_with_the_next_one() -> None:
    world = IggyWorld()
    one = world.sides[0]
    world.join(one, 1)
    world.deliver(world.messages.pop())
    world.fail(is_kept=False)
    assert [answer.error for _, answer in world.answers] == [GroupError.NOT_AVAILABLE]
    assert not world.unstored
    world.answers.clear()
    world.beat()
    world.run()
    assert world.shares() == {1: (0, 1, 2, 3)}
    assert one.outcomes == [ErrorCode.NONE]


def test_no_more_members_than_a_group_may_have() -> None:
    world = IggyWorld()
    world.limits = GroupLimits(members=1)
    world.move()
    world.join(world.sides[0], 1)
    world.join(world.sides[0], 2)
    world.run()
    assert world.sides[0].outcomes == [ErrorCode.NONE, ErrorCode.GROUP_FULL]
    assert world.shares() == {1: (0, 1, 2, 3)}


def test_a_group_that_was_deleted_has_nobody() -> None:
    world = two_members()
    world.known.is_deleted = True
    world.beat()
    world.run()
    assert world.shares() == {}
    assert world.group.state is GroupState.EMPTY
    assert world.group.bury() is GroupError.NONE
    assert world.group.listed().state is GroupState.DEAD


def test_members_and_positions_of_other_protocols_are_refused() -> None:
    world = IggyWorld()
    name = MemberName(GROUP, "m")
    world.group.join(0, JoinRequest(name, "", "", 1, 1, "consumer", ()), None)
    (action,) = world.group.take_actions(0)
    assert getattr(action, "answer").error is GroupError.INCONSISTENT_PROTOCOL  # noqa: B009
    assert world.group.check_commit(0, CommitRequest(name, -1, {})) is GroupError.INCONSISTENT_PROTOCOL
    assert world.group.state is GroupState.DEAD


def test_tools_see_a_group() -> None:
    world = two_members(polled=9)
    found = world.group.described()
    assert (found.protocol_type, found.state) == ("iggy", GroupState.RECONCILING)
    assert [member.client_id for member in found.members] == ["1001", "1002"]
    assert world.group.shown() == [(1_001, (0, 1, 2, 3)), (1_002, ())]
