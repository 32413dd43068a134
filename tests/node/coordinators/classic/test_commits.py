"""Whose commits a group takes."""

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.scene import INITIAL_MS, Scene


def test_a_simple_commit_makes_a_group() -> None:
    scene = Scene()
    assert scene.is_in(GroupState.DEAD)
    assert scene.commit() is GroupError.NONE
    assert scene.is_in(GroupState.EMPTY)


def test_a_group_without_members_takes_simple_commits() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    scene.leave((member.member_id, None))
    assert scene.commit() is GroupError.NONE


def test_a_group_without_members_takes_them_with_a_member_id_too() -> None:
    """Clients that have left send the id that they had."""
    scene = Scene()
    (member,) = scene.stable(1)
    scene.leave((member.member_id, None))
    assert scene.commit(member.member_id) is GroupError.NONE


def test_a_group_with_members_takes_no_simple_commit() -> None:
    scene = Scene()
    scene.stable(1)
    assert scene.commit() is GroupError.UNKNOWN_MEMBER


def test_a_member_commits_in_its_generation() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    assert scene.commit(member.member_id, 1) is GroupError.NONE


def test_a_commit_of_an_older_generation_is_refused() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    scene.assigned(scene.join(member.member_id).answer)
    assert scene.commit(member.member_id, 1) is GroupError.ILLEGAL_GENERATION
    assert scene.commit(member.member_id, 2) is GroupError.NONE


def test_a_member_without_a_generation_does_not_commit() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    assert scene.commit(member.member_id) is GroupError.ILLEGAL_GENERATION


def test_a_stranger_does_not_commit() -> None:
    scene = Scene()
    scene.stable(1)
    assert scene.commit("stranger", 1) is GroupError.UNKNOWN_MEMBER


def test_a_member_that_has_left_does_not_commit_in_its_generation() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    scene.leave((member.member_id, None))
    assert scene.commit(member.member_id, 1) is GroupError.UNKNOWN_MEMBER


def test_while_members_are_gathered_the_old_generations_members_commit() -> None:
    scene = Scene()
    leader, other = scene.stable(2)
    scene.join(other.member_id, protocols={"range": b"other topics"})
    assert scene.commit(leader.member_id, 1) is GroupError.NONE


def test_before_the_assignment_a_member_is_told_that_the_group_rebalances() -> None:
    scene = Scene()
    joining = scene.join()
    scene.wait(INITIAL_MS)
    assert scene.commit(joining.answer.member_id, 1) is GroupError.REBALANCING


def test_a_generation_of_a_group_that_is_not_there_is_refused_as_the_client_understands_it() -> None:
    scene = Scene()
    assert scene.commit("c-1", 3) is GroupError.ILLEGAL_GENERATION
    assert scene.commit("c-1", 3, unknown_group=GroupError.UNKNOWN_GROUP) is GroupError.UNKNOWN_GROUP
    assert scene.is_in(GroupState.DEAD)
