"""How a group gets from one generation to the next."""

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_limits import LEAST_REBALANCE_MS
from tank_node.coordinators.machine.group_requests import JoinAnswer
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.scene import INITIAL_MS, REBALANCE_MS, SESSION_MS, Scene

NEW = {"range": b"other topics"}


# A rebalance begins


def test_syncs_that_wait_are_told_to_join_again() -> None:
    scene = Scene()
    joinings = [scene.join(), scene.join()]
    scene.wait(2 * INITIAL_MS)
    _, other = scene.joined(*joinings)
    syncing = scene.sync(other)
    assert syncing.waits
    scene.join()
    assert syncing.error is GroupError.REBALANCING


def test_a_group_without_members_waits_the_initial_delay() -> None:
    scene = Scene()
    joining = scene.join()
    scene.wait(INITIAL_MS - 1)
    assert joining.waits
    scene.wait(1)
    assert joining.answer.generation == 1


def test_it_waits_again_whenever_somebody_new_came() -> None:
    scene = Scene()
    first = scene.join()
    scene.wait(INITIAL_MS - 1)
    second = scene.join()
    scene.wait(INITIAL_MS)
    assert first.waits
    scene.wait(1)
    assert first.answer.generation == second.answer.generation == 1


def test_it_waits_at_most_the_rebalance_timeout() -> None:
    scene = Scene()
    first = scene.join(rebalance_ms=3 * INITIAL_MS + 500)
    for _ in range(3):
        scene.wait(INITIAL_MS - 1)
        scene.join()
    scene.wait(502)
    assert first.waits
    scene.wait(1)
    assert first.answer.generation == 1


def test_the_initial_delay_may_be_none() -> None:
    scene = Scene(initial_delay_ms=0)
    assert scene.join().answer.generation == 1


def test_the_initial_delay_is_never_longer_than_the_rebalance_timeout() -> None:
    scene = Scene()
    joining = scene.join(rebalance_ms=1_000)
    scene.wait(1_000)
    assert joining.answer.generation == 1


def test_a_group_with_members_waits_until_all_have_joined_again() -> None:
    scene = Scene()
    leader, other = scene.stable(2)
    third = scene.join()
    first = scene.join(leader.member_id)
    assert third.waits
    second = scene.join(other.member_id)
    assert [member.generation for member in scene.joined(first, second, third)] == [2, 2, 2]


def test_it_waits_for_those_who_have_been_given_an_id() -> None:
    scene = Scene()
    (leader,) = scene.stable(1)
    member_id = scene.join(needs_member_id=True).answer.member_id
    first = scene.join(leader.member_id)
    assert first.waits
    second = scene.join(member_id)
    assert [member.generation for member in scene.joined(first, second)] == [2, 2]


def test_it_waits_for_them_only_until_their_session_is_over() -> None:
    scene = Scene()
    (leader,) = scene.stable(1)
    scene.join(needs_member_id=True)
    first = scene.join(leader.member_id)
    scene.wait(SESSION_MS)
    assert first.answer.generation == 2


def test_it_waits_at_most_the_greatest_rebalance_timeout() -> None:
    scene = Scene()
    joinings = [scene.join(rebalance_ms=REBALANCE_MS), scene.join(rebalance_ms=REBALANCE_MS + 5_000)]
    scene.wait(2 * INITIAL_MS)
    leader, other = scene.assigned(*scene.joined(*joinings))
    third = scene.join(rebalance_ms=1_000)
    _heart_beats(scene, REBALANCE_MS + 4_000, leader, other)
    scene.wait(999)
    assert third.waits
    scene.wait(1)
    assert third.answer.generation == 2


def test_a_new_member_that_waits_is_kept_for_five_minutes() -> None:
    scene = Scene()
    leader, other = scene.stable(2, rebalance_ms=600_000)
    third = scene.join()
    _heart_beats(scene, 298_000, leader, other)
    scene.wait(1_999)
    assert third.waits
    scene.wait(1)
    assert third.error is GroupError.UNKNOWN_MEMBER


def test_a_new_member_then_has_its_session() -> None:
    scene = Scene()
    joining = scene.join()
    scene.wait(INITIAL_MS)
    (member,) = scene.assigned(joining.answer)
    scene.wait(SESSION_MS - 1)
    assert scene.heartbeat(member) is GroupError.NONE
    scene.wait(SESSION_MS)
    assert scene.heartbeat(member) is GroupError.UNKNOWN_MEMBER


def test_a_member_that_waits_for_others_needs_no_heartbeats() -> None:
    scene = Scene()
    leader, other = scene.stable(2)
    first = scene.join(leader.member_id)
    _heart_beats(scene, 2 * SESSION_MS, other)
    assert first.waits
    scene.join(other.member_id)
    assert first.answer.generation == 2


# It ends


def test_dynamic_members_that_did_not_come_are_out() -> None:
    scene = Scene()
    leader, other = scene.stable(2, session_ms=2 * REBALANCE_MS)
    joining = scene.join(leader.member_id)
    scene.wait(REBALANCE_MS)
    assert [member.member_id for member in joining.answer.members] == [leader.member_id]
    assert scene.heartbeat(other) is GroupError.UNKNOWN_MEMBER


def test_static_members_that_did_not_come_stay() -> None:
    scene = Scene()
    leader, static = scene.stable(1, "rack-1", session_ms=2 * REBALANCE_MS)
    joining = scene.join(leader.member_id)
    scene.wait(REBALANCE_MS)
    assert {member.member_id for member in joining.answer.members} == {leader.member_id, static.member_id}


def test_where_nobody_came_it_waits_again() -> None:
    scene = Scene()
    one, other = scene.stable(0, "rack-1", "rack-2", session_ms=3 * REBALANCE_MS)
    scene.join("", instance_id="rack-3")
    third = scene.group.described().members[-1]
    scene.leave((third.member_id, "rack-3"))
    scene.wait(REBALANCE_MS)
    assert scene.is_in(GroupState.PREPARING_REBALANCE)
    assert scene.group.generation.number == 1
    joinings = [
        scene.join(each.member_id, instance_id=name) for each, name in ((one, "rack-1"), (other, "rack-2"))
    ]
    assert [member.generation for member in scene.joined(*joinings)] == [2, 2]


def test_each_generation_is_one_more() -> None:
    scene = Scene()
    (leader,) = scene.stable(1)
    numbers = []
    for _ in range(3):
        (member,) = scene.assigned(scene.join(leader.member_id).answer)
        numbers.append(member.generation)
    assert numbers == [2, 3, 4]


def test_each_member_votes_for_its_first_protocol_that_all_know() -> None:
    scene = Scene()
    scene.join(protocols={"a": b"", "b": b"", "c": b""})
    scene.join(protocols={"x": b"", "c": b"", "b": b""})
    joining = scene.join(protocols={"c": b"", "b": b""})
    scene.wait(2 * INITIAL_MS)
    assert joining.answer.protocol == "c"  # by two of three; b has one, and a is not known to all


def test_the_leader_stays_if_it_is_there() -> None:
    scene = Scene()
    leader, other = scene.stable(2)
    first = scene.join(other.member_id, protocols=NEW)
    second = scene.join(leader.member_id)
    assert first.answer.leader_id == second.answer.leader_id == leader.member_id


def test_else_the_first_that_joined_leads() -> None:
    scene = Scene()
    leader, *others = scene.stable(4)
    scene.leave((leader.member_id, None))
    order = [others[2], others[0], others[1]]
    members = scene.joined(*[scene.join(each.member_id) for each in order])
    assert {member.leader_id for member in members} == {others[2].member_id}


def test_the_leader_alone_gets_the_members_with_what_they_say() -> None:
    scene = Scene()
    joinings = [scene.join(protocols={"range": said}) for said in (b"one", b"two")]
    scene.wait(2 * INITIAL_MS)
    leader, other = scene.joined(*joinings)
    assert [(m.member_id, m.instance_id, m.metadata) for m in leader.members] == [
        (leader.member_id, None, b"one"),
        (other.member_id, None, b"two"),
    ]
    assert other.members == ()


def test_a_group_that_nobody_is_left_in_is_stored_as_empty() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    scene.leave((member.member_id, None))
    assert scene.is_in(GroupState.EMPTY)
    image = scene.stored[-1]
    assert (image.generation, image.members, image.protocol, image.leader) == (2, [], None, None)
    assert image.protocol_type == "consumer"


def test_members_hear_of_a_generation_after_its_number_is_stored() -> None:
    """So no later coordinator gives the number to a generation of others."""
    scene = Scene(initial_delay_ms=0)
    scene.stores_at_once = False
    joining = scene.join()
    assert joining.waits
    assert scene.is_in(GroupState.PREPARING_REBALANCE)
    scene.store()
    assert joining.answer.generation == 1
    assert scene.stored[-1].generation == 1
    assert scene.is_in(GroupState.COMPLETING_REBALANCE)


def test_where_the_number_can_not_be_stored_the_members_join_again_for_a_greater_one() -> None:
    scene = Scene()
    (leader,) = scene.stable(1)
    scene.stores_at_once = False
    joining = scene.join(leader.member_id)
    scene.fail(GroupError.NOT_AVAILABLE)
    assert joining.error is GroupError.NOT_AVAILABLE
    assert scene.group.generation.number == 1
    again = scene.join(leader.member_id)
    scene.store()
    assert again.answer.generation == 3


def test_a_new_member_whose_first_generation_was_not_stored_is_forgotten() -> None:
    """It was never told its id."""
    scene = Scene(initial_delay_ms=0)
    scene.stores_at_once = False
    joining = scene.join()
    scene.fail()
    assert joining.error is GroupError.NOT_AVAILABLE
    assert scene.size == 0
    assert scene.is_in(GroupState.EMPTY)


def test_who_joins_while_the_number_is_stored_is_in_the_next_generation() -> None:
    scene = Scene()
    (leader,) = scene.stable(1)
    scene.stores_at_once = False
    first = scene.join(leader.member_id)
    second = scene.join()
    scene.store()
    assert [member.member_id for member in first.answer.members] == [leader.member_id]
    assert second.waits
    assert scene.sync(first.answer).error is GroupError.REBALANCING
    third = scene.join(leader.member_id)
    scene.store()
    assert [member.generation for member in scene.joined(second, third)] == [3, 3]


def test_who_leaves_while_the_number_is_stored_is_in_no_generation() -> None:
    scene = Scene()
    leader, other = scene.stable(2)
    scene.stores_at_once = False
    first = scene.join(leader.member_id)
    second = scene.join(other.member_id)
    scene.leave((other.member_id, None))
    assert second.error is GroupError.UNKNOWN_MEMBER
    scene.store()
    assert scene.heartbeat(first.answer) is GroupError.REBALANCING
    scene.join(leader.member_id)
    scene.store()
    assert [member.member_id for member in scene.group.described().members] == [leader.member_id]


def test_who_says_something_else_while_the_number_is_stored_does_so_in_the_next_generation() -> None:
    scene = Scene()
    leader, other = scene.stable(2)
    scene.stores_at_once = False
    first = scene.join(leader.member_id)
    scene.join(other.member_id)
    scene.join(other.member_id, protocols=NEW)
    scene.store()
    assert [member.metadata for member in first.answer.members] == [b"m", b"m"]
    assert scene.heartbeat(first.answer) is GroupError.REBALANCING


def test_who_asks_again_while_the_number_is_stored_is_in_that_generation() -> None:
    scene = Scene()
    leader, other = scene.stable(2)
    scene.stores_at_once = False
    scene.join(leader.member_id)
    scene.join(other.member_id)
    again = scene.join(other.member_id)
    scene.store()
    assert again.answer.generation == 2
    assert scene.heartbeat(again.answer) is GroupError.NONE


def test_all_who_joined_owe_a_sync_within_the_rebalance_timeout() -> None:
    scene = Scene()
    joinings = [scene.join(session_ms=2 * REBALANCE_MS) for _ in range(3)]
    scene.wait(2 * INITIAL_MS)
    leader, other, late = scene.joined(*joinings)
    scene.assigned(leader, other)
    _heart_beats(scene, REBALANCE_MS - 1_000, leader, other, late)
    assert scene.heartbeat(late) is GroupError.NONE
    _heart_beats(scene, 1_000, leader, other, late)
    assert scene.heartbeat(late) is GroupError.UNKNOWN_MEMBER
    assert scene.heartbeat(leader) is GroupError.REBALANCING


def test_a_leader_that_brings_no_assignments_is_out_and_its_followers_join_again() -> None:
    scene = Scene()
    joinings = [scene.join(session_ms=2 * REBALANCE_MS) for _ in range(2)]
    scene.wait(2 * INITIAL_MS)
    leader, other = scene.joined(*joinings)
    syncing = scene.sync(other)
    _heart_beats(scene, REBALANCE_MS, leader)
    assert syncing.error is GroupError.REBALANCING
    assert scene.heartbeat(leader) is GroupError.UNKNOWN_MEMBER
    assert scene.join(other.member_id).answer.leader_id == other.member_id


def test_a_static_member_that_did_not_join_owes_no_sync() -> None:
    scene = Scene()
    leader, static = scene.stable(1, "rack-1", session_ms=5 * REBALANCE_MS)
    joining = scene.join(leader.member_id, session_ms=5 * REBALANCE_MS)
    scene.wait(REBALANCE_MS)
    scene.assigned(joining.answer)
    scene.wait(REBALANCE_MS)
    assert scene.is_in(GroupState.STABLE)
    assert scene.size == 2
    assert scene.heartbeat(static) is GroupError.ILLEGAL_GENERATION


def _heart_beats(scene: Scene, ms: int, *members: JoinAnswer) -> None:
    """Time goes by, in which these members say every second that they live."""
    for _ in range(ms // 1_000):
        scene.wait(1_000)
        for member in members:
            scene.heartbeat(member)


def test_a_group_whose_members_give_no_time_to_join_again_begins_its_wait_anew_ten_times_in_100_ms() -> None:
    """A static member is away, so that each wait ends without it: the group must not go round for ever."""
    scene = Scene()
    joinings = [scene.join(rebalance_ms=0), scene.join(instance_id="rack-1", rebalance_ms=0)]
    scene.wait(LEAST_REBALANCE_MS)
    leader, _ = scene.assigned(*scene.joined(*joinings))
    scene.leave((leader.member_id, None))
    looks, until_ms = 0, scene.now_ms + 100
    while (due_ms := scene.group.next_deadline_ms()) is not None and due_ms <= until_ms:
        assert due_ms > scene.now_ms, "a wait that is over at once never ends"
        scene.now_ms = due_ms
        scene.group.expire(due_ms)
        scene.act()
        looks += 1
    assert looks == 10
    assert scene.is_in(GroupState.PREPARING_REBALANCE)


# A coordinator goes on


def test_a_stored_generation_whose_leader_is_gone_gathers_its_members_again() -> None:
    """No assignments would ever come for it."""
    scene = Scene()
    joinings = [scene.join(), scene.join()]
    scene.wait(2 * INITIAL_MS)
    leader, other = scene.joined(*joinings)
    image = scene.stored[-1]
    image.members = [each for each in image.members if each.member_id != leader.member_id]
    later = Scene(image=image)
    assert later.is_in(GroupState.PREPARING_REBALANCE)
    assert later.heartbeat(other) is GroupError.REBALANCING
    joining = later.join(other.member_id)
    assert (joining.answer.generation, joining.answer.leader_id) == (2, other.member_id)
