"""Members that keep their place when their process starts again."""

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.scene import INITIAL_MS, SESSION_MS, Scene


def test_a_new_process_takes_the_old_ones_place_without_a_rebalance() -> None:
    scene = Scene()
    leader, static = scene.stable(1, "rack-1")
    joining = scene.join(instance_id="rack-1", needs_member_id=True)
    answer = joining.answer
    assert answer.member_id == "rack-1-3"
    assert (answer.generation, answer.leader_id, answer.members) == (1, leader.member_id, ())
    assert scene.is_in(GroupState.STABLE)
    assert scene.sync(answer, instance_id="rack-1").answer.assignment == static.member_id.encode()
    assert scene.heartbeat(leader) is GroupError.NONE


def test_the_old_process_is_fenced() -> None:
    scene = Scene()
    _, static = scene.stable(1, "rack-1")
    scene.join(instance_id="rack-1")
    assert scene.heartbeat(static, instance_id="rack-1") is GroupError.FENCED_INSTANCE
    assert scene.sync(static, instance_id="rack-1").error is GroupError.FENCED_INSTANCE
    assert scene.join(static.member_id, instance_id="rack-1").error is GroupError.FENCED_INSTANCE
    assert scene.leave((static.member_id, "rack-1")) == [GroupError.FENCED_INSTANCE]
    commit = scene.commit(static.member_id, static.generation, instance_id="rack-1")
    assert commit is GroupError.FENCED_INSTANCE


def test_the_old_processs_id_alone_is_unknown() -> None:
    scene = Scene()
    _, static = scene.stable(1, "rack-1")
    scene.join(instance_id="rack-1")
    assert scene.heartbeat(static) is GroupError.UNKNOWN_MEMBER


def test_an_instance_that_the_group_does_not_know_is_unknown() -> None:
    scene = Scene()
    (leader,) = scene.stable(1)
    assert scene.heartbeat(leader, instance_id="rack-1") is GroupError.UNKNOWN_MEMBER


def test_a_join_that_waits_under_the_old_id_is_fenced() -> None:
    scene = Scene()
    leader, static = scene.stable(1, "rack-1")
    waiting = scene.join(static.member_id, instance_id="rack-1", protocols={"range": b"other topics"})
    fresh = scene.join(instance_id="rack-1")
    assert waiting.error is GroupError.FENCED_INSTANCE
    scene.join(leader.member_id)
    assert fresh.answer.generation == 2


def test_a_sync_that_waits_under_the_old_id_is_fenced() -> None:
    scene = Scene()
    joinings = [scene.join(), scene.join(instance_id="rack-1")]
    scene.wait(2 * INITIAL_MS)
    _, static = scene.joined(*joinings)
    waiting = scene.sync(static, instance_id="rack-1")
    scene.join(instance_id="rack-1")
    assert waiting.error is GroupError.FENCED_INSTANCE


def test_the_new_process_is_told_after_its_id_is_stored() -> None:
    scene = Scene()
    scene.stable(1, "rack-1")
    scene.stores_at_once = False
    joining = scene.join(instance_id="rack-1")
    assert joining.waits
    scene.store()
    assert joining.answer.member_id == scene.stored[-1].members[-1].member_id
    assert [member.assignment for member in scene.stored[-1].members] == [b"c-1", b"rack-1-2"]


def test_where_its_id_can_not_be_stored_it_hears_so_and_joins_again() -> None:
    scene = Scene()
    scene.stable(1, "rack-1")
    scene.stores_at_once = False
    joining = scene.join(instance_id="rack-1")
    scene.fail(GroupError.NOT_AVAILABLE)
    assert joining.error is GroupError.NOT_AVAILABLE
    again = scene.join(instance_id="rack-1")
    scene.store()
    assert again.answer.generation == 1
    assert scene.size == 2


def test_of_two_new_processes_the_later_one_is_the_member() -> None:
    scene = Scene()
    scene.stable(1, "rack-1")
    scene.stores_at_once = False
    first = scene.join(instance_id="rack-1")
    second = scene.join(instance_id="rack-1")
    assert first.error is GroupError.FENCED_INSTANCE
    scene.store()
    assert second.waits
    scene.store()
    assert second.answer.member_id == "rack-1-4"
    assert scene.size == 2


def test_a_process_whose_id_is_being_stored_waits_with_the_group_that_rebalances() -> None:
    scene = Scene()
    leader, _ = scene.stable(1, "rack-1")
    scene.stores_at_once = False
    joining = scene.join(instance_id="rack-1")
    scene.join(leader.member_id)
    scene.store()
    assert joining.waits
    scene.store()
    assert joining.answer.generation == 2


def test_a_leader_of_a_newer_client_is_told_to_skip_the_assignment() -> None:
    scene = Scene()
    leader, other = scene.stable(0, "rack-1", "rack-2")
    answer = scene.join(instance_id="rack-1", may_skip_assignment=True).answer
    assert answer.skip_assignment
    assert answer.leader_id == answer.member_id != leader.member_id
    assert [member.member_id for member in answer.members] == [other.member_id, answer.member_id]


def test_a_follower_of_a_newer_client_has_nothing_to_skip() -> None:
    scene = Scene()
    leader, _ = scene.stable(0, "rack-1", "rack-2")
    answer = scene.join(instance_id="rack-2", may_skip_assignment=True).answer
    assert not answer.skip_assignment
    assert (answer.leader_id, answer.members) == (leader.member_id, ())


def test_a_leader_of_an_older_client_is_told_the_leaders_old_id() -> None:
    """So it doesn't assign: the group is stable, and would not take it."""
    scene = Scene()
    leader, _ = scene.stable(0, "rack-1", "rack-2")
    answer = scene.join(instance_id="rack-1").answer
    assert (answer.leader_id, answer.members, answer.skip_assignment) == (leader.member_id, (), False)


def test_a_leader_that_came_back_leads_the_next_generation() -> None:
    scene = Scene()
    _, other = scene.stable(0, "rack-1", "rack-2")
    answer = scene.join(instance_id="rack-1").answer
    first = scene.join(answer.member_id, instance_id="rack-1")
    second = scene.join(other.member_id, instance_id="rack-2")
    assert first.answer.leader_id == second.answer.leader_id == answer.member_id
    assert first.answer.generation == 2


def test_a_process_that_changes_the_vote_makes_the_group_rebalance() -> None:
    scene = Scene()
    scene.stable(0, "rack-1", protocols={"a": b"", "b": b""})
    joining = scene.join(instance_id="rack-1", protocols={"b": b"", "a": b""})
    assert (joining.answer.generation, joining.answer.protocol) == (2, "b")


def test_before_the_assignment_a_new_process_makes_the_group_rebalance() -> None:
    """The leader may assign to the old id already."""
    scene = Scene()
    joinings = [scene.join(), scene.join(instance_id="rack-1")]
    scene.wait(2 * INITIAL_MS)
    leader, _ = scene.joined(*joinings)
    fresh = scene.join(instance_id="rack-1")
    assert fresh.waits
    assert scene.sync(leader, {}).error is GroupError.REBALANCING
    scene.join(leader.member_id)
    assert fresh.answer.generation == 2


def test_a_static_member_that_stays_away_is_out_after_its_session() -> None:
    scene = Scene()
    leader, static = scene.stable(1, "rack-1")
    scene.wait(SESSION_MS - 1)
    scene.heartbeat(leader)
    assert scene.is_in(GroupState.STABLE)
    scene.wait(1)
    assert scene.is_in(GroupState.PREPARING_REBALANCE)
    assert scene.heartbeat(static, instance_id="rack-1") is GroupError.UNKNOWN_MEMBER


def test_a_static_member_that_is_back_has_a_new_session() -> None:
    scene = Scene()
    leader, _ = scene.stable(1, "rack-1")
    scene.wait(SESSION_MS - 1)
    scene.heartbeat(leader)
    answer = scene.join(instance_id="rack-1").answer
    scene.wait(SESSION_MS - 1)
    assert scene.heartbeat(answer, instance_id="rack-1") is GroupError.NONE
