"""How a member shows that it lives, and how it goes."""

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.scene import INITIAL_MS, SESSION_MS, Scene


def test_a_heartbeat_while_members_are_gathered_says_so_and_counts() -> None:
    scene = Scene()
    leader, _ = scene.stable(2)
    scene.join()
    for _ in range(3):
        scene.wait(SESSION_MS - 1)
        assert scene.heartbeat(leader) is GroupError.REBALANCING


def test_a_heartbeat_of_another_generation_is_refused_and_does_not_count() -> None:
    scene = Scene()
    leader, _ = scene.stable(2)
    assert scene.heartbeat(leader, generation=0) is GroupError.ILLEGAL_GENERATION
    scene.wait(SESSION_MS - 1)
    assert scene.heartbeat(leader, generation=2) is GroupError.ILLEGAL_GENERATION
    scene.wait(1)
    assert scene.heartbeat(leader) is GroupError.UNKNOWN_MEMBER


def test_a_heartbeat_of_a_stranger_is_refused() -> None:
    scene = Scene()
    (leader,) = scene.stable(1)
    scene.leave((leader.member_id, None))
    assert scene.heartbeat(leader) is GroupError.UNKNOWN_MEMBER


def test_before_the_assignment_heartbeats_are_well() -> None:
    scene = Scene()
    joining = scene.join()
    scene.wait(INITIAL_MS)
    for _ in range(3):
        scene.wait(SESSION_MS - 1)
        assert scene.heartbeat(joining.answer) is GroupError.NONE


def test_in_a_stable_group_heartbeats_are_well() -> None:
    scene = Scene()
    (leader,) = scene.stable(1)
    for _ in range(3):
        scene.wait(SESSION_MS - 1)
        assert scene.heartbeat(leader) is GroupError.NONE


def test_commits_of_members_count_as_heartbeats() -> None:
    scene = Scene()
    leader, _ = scene.stable(2)
    for _ in range(3):
        scene.wait(SESSION_MS - 1)
        assert scene.commit(leader.member_id, leader.generation) is GroupError.NONE
    scene.join()
    assert scene.is_in(GroupState.PREPARING_REBALANCE)
    for _ in range(3):
        scene.wait(SESSION_MS - 1)
        assert scene.commit(leader.member_id, leader.generation) is GroupError.NONE


def test_a_member_that_is_silent_for_its_session_is_out_and_the_group_rebalances() -> None:
    scene = Scene()
    joinings = [scene.join(session_ms=2 * SESSION_MS), scene.join()]
    scene.wait(2 * INITIAL_MS)
    leader, other = scene.assigned(*scene.joined(*joinings))
    scene.wait(SESSION_MS - 1)
    assert scene.is_in(GroupState.STABLE)
    scene.wait(1)
    assert scene.is_in(GroupState.PREPARING_REBALANCE)
    assert scene.heartbeat(other) is GroupError.UNKNOWN_MEMBER
    assert scene.join(leader.member_id).answer.generation == 2


def test_a_group_whose_members_are_all_silent_is_empty() -> None:
    scene = Scene()
    scene.stable(3)
    scene.wait(SESSION_MS)
    assert scene.is_in(GroupState.EMPTY)
    assert scene.group.generation.number == 2
    assert scene.group.next_deadline_ms() is None


def test_a_silent_member_that_others_wait_for_does_not_hold_them_up_longer() -> None:
    scene = Scene()
    leader, _ = scene.stable(2)
    joining = scene.join(leader.member_id)
    scene.wait(SESSION_MS)
    assert joining.answer.generation == 2


def test_each_of_those_who_leave_has_a_result() -> None:
    scene = Scene()
    one, other, third = scene.stable(3)
    left = scene.leave((one.member_id, None), ("stranger", None), (other.member_id, None), ("", None))
    assert left == [GroupError.NONE, GroupError.UNKNOWN_MEMBER, GroupError.NONE, GroupError.UNKNOWN_MEMBER]
    assert [member.member_id for member in scene.group.described().members] == [third.member_id]
    assert scene.is_in(GroupState.PREPARING_REBALANCE)


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    scene = Scene()
    leader, other = scene.stable(2)
    joining = scene.join(other.member_id, protocols={"range": b"other topics"})
    scene.leave((other.member_id, None))
    assert joining.error is GroupError.UNKNOWN_MEMBER
    assert scene.join(leader.member_id).answer.generation == 2


def test_a_member_that_waits_for_its_assignment_leaves_too() -> None:
    scene = Scene()
    joinings = [scene.join(), scene.join()]
    scene.wait(2 * INITIAL_MS)
    _, other = scene.joined(*joinings)
    syncing = scene.sync(other)
    scene.leave((other.member_id, None))
    assert syncing.error is GroupError.UNKNOWN_MEMBER


def test_an_id_that_was_given_out_can_be_left_before_it_joined() -> None:
    scene = Scene()
    (leader,) = scene.stable(1)
    member_id = scene.join(needs_member_id=True).answer.member_id
    joining = scene.join(leader.member_id)
    assert joining.waits
    assert scene.leave((member_id, None)) == [GroupError.NONE]
    assert joining.answer.generation == 2
    assert scene.join(member_id).error is GroupError.UNKNOWN_MEMBER


def test_it_can_be_left_under_any_instances_name() -> None:
    """As in Kafka: nobody has joined with it, so there is no name that it has."""
    scene = Scene()
    member_id = scene.join(needs_member_id=True).answer.member_id
    assert scene.leave((member_id, "a")) == [GroupError.NONE]
    assert scene.leave((member_id, None)) == [GroupError.UNKNOWN_MEMBER]


def test_an_administrator_removes_a_static_member_by_its_instances_name() -> None:
    scene = Scene()
    _, static = scene.stable(1, "rack-1")
    left = scene.leave(("", "rack-1"), ("", "rack-2"))
    assert left == [GroupError.NONE, GroupError.UNKNOWN_MEMBER]
    assert scene.heartbeat(static, instance_id="rack-1") is GroupError.UNKNOWN_MEMBER


def test_nobody_leaves_a_group_that_is_not_there() -> None:
    assert Scene().leave(("c-1", None)) == [GroupError.UNKNOWN_MEMBER]


def test_a_group_without_a_name_has_no_members() -> None:
    scene = Scene(group_id="")
    assert scene.leave(("c-1", None), ("c-2", None)) == [GroupError.INVALID_GROUP_ID] * 2
    assert scene.sync(Scene().stable(1)[0]).error is GroupError.INVALID_GROUP_ID
    assert scene.heartbeat(Scene().stable(1)[0]) is GroupError.INVALID_GROUP_ID
