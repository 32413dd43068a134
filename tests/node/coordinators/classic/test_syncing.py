"""How the members of a generation get their assignments."""

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import JoinAnswer
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.scene import INITIAL_MS, SESSION_MS, Scene


def two_joined(scene: Scene) -> list[JoinAnswer]:
    """A generation of two members without assignments: the leader, and another one."""
    joinings = [scene.join(), scene.join()]
    scene.wait(2 * INITIAL_MS)
    return scene.joined(*joinings)


def test_while_members_are_gathered_a_sync_is_told_to_join() -> None:
    scene = Scene()
    _, other = scene.stable(2)
    scene.join()
    assert scene.sync(other).error is GroupError.REBALANCING


def test_a_sync_of_another_generation_is_refused() -> None:
    scene = Scene()
    leader, _ = two_joined(scene)
    assert scene.sync(leader, generation=0).error is GroupError.ILLEGAL_GENERATION
    assert scene.sync(leader, generation=2).error is GroupError.ILLEGAL_GENERATION


def test_a_sync_of_a_stranger_is_refused() -> None:
    scene = Scene()
    two_joined(scene)
    assert scene.sync(JoinAnswer(GroupError.NONE, "stranger", 1)).error is GroupError.UNKNOWN_MEMBER


@pytest.mark.parametrize(("protocol_type", "protocol"), [("connect", "range"), ("consumer", "sticky")])
def test_a_sync_that_says_another_protocol_is_refused(protocol_type: str, protocol: str) -> None:
    scene = Scene()
    leader, _ = two_joined(scene)
    refused = scene.sync(leader, protocol_type=protocol_type, protocol=protocol)
    assert refused.error is GroupError.INCONSISTENT_PROTOCOL
    assert scene.sync(leader, protocol_type="consumer", protocol="range").error is GroupError.NONE


def test_a_followers_sync_waits_for_the_leaders() -> None:
    scene = Scene()
    leader, other = two_joined(scene)
    waiting = scene.sync(other)
    assert waiting.waits
    first = scene.sync(leader, {leader.member_id: b"odd", other.member_id: b"even"})
    assert (first.answer.assignment, waiting.answer.assignment) == (b"odd", b"even")
    assert (waiting.answer.protocol_type, waiting.answer.protocol) == ("consumer", "range")
    assert scene.is_in(GroupState.STABLE)


def test_a_follower_can_not_assign() -> None:
    scene = Scene()
    leader, other = two_joined(scene)
    waiting = scene.sync(other, {other.member_id: b"all"})
    assert waiting.waits
    scene.sync(leader, {leader.member_id: b"all"})
    assert waiting.answer.assignment == b""


def test_a_member_that_the_leader_has_left_out_gets_an_empty_assignment() -> None:
    scene = Scene()
    leader, other = two_joined(scene)
    scene.sync(leader, {leader.member_id: b"all"})
    assert scene.sync(other).answer.assignment == b""


def test_assignments_are_stored_before_anybody_is_told() -> None:
    scene = Scene()
    leader, other = two_joined(scene)
    scene.stores_at_once = False
    waiting = scene.sync(other)
    first = scene.sync(leader, {leader.member_id: b"odd", other.member_id: b"even"})
    assert first.waits
    assert waiting.waits
    assert scene.is_in(GroupState.COMPLETING_REBALANCE)
    scene.store()
    assert (first.answer.assignment, waiting.answer.assignment) == (b"odd", b"even")
    assert [member.assignment for member in scene.stored[-1].members] == [b"odd", b"even"]


def test_where_they_can_not_be_stored_all_who_wait_hear_it_and_the_group_rebalances() -> None:
    scene = Scene()
    leader, other = two_joined(scene)
    scene.stores_at_once = False
    waiting = scene.sync(other)
    first = scene.sync(leader, {leader.member_id: b"odd", other.member_id: b"even"})
    scene.fail(GroupError.NOT_AVAILABLE)
    assert first.error is waiting.error is GroupError.NOT_AVAILABLE
    assert scene.is_in(GroupState.PREPARING_REBALANCE)


def test_what_is_stored_too_late_is_told_to_nobody() -> None:
    """The group has begun to rebalance in the meantime."""
    scene = Scene()
    leader, other = two_joined(scene)
    scene.stores_at_once = False
    first = scene.sync(leader, {leader.member_id: b"odd", other.member_id: b"even"})
    scene.join()
    assert first.error is GroupError.REBALANCING
    scene.store()
    assert scene.is_in(GroupState.PREPARING_REBALANCE)
    assert first.error is GroupError.REBALANCING


def test_of_two_assignments_in_a_generation_the_first_holds() -> None:
    scene = Scene()
    leader, _ = two_joined(scene)
    scene.stores_at_once = False
    first = scene.sync(leader, {leader.member_id: b"one"})
    second = scene.sync(leader, {leader.member_id: b"two"})
    assert first.error is GroupError.REBALANCING
    scene.store()
    assert not scene.unstored
    assert second.answer.assignment == b"one"


def test_in_a_stable_group_the_stored_assignment_is_told_again() -> None:
    scene = Scene()
    leader, other = two_joined(scene)
    scene.assigned(leader, other)
    again = scene.sync(leader, {leader.member_id: b"something else"})
    assert again.answer.assignment == leader.member_id.encode()
    assert not scene.unstored


def test_a_member_that_waits_for_the_leader_needs_no_heartbeats() -> None:
    scene = Scene()
    leader, other = two_joined(scene)
    waiting = scene.sync(other)
    for _ in range(2):
        scene.wait(SESSION_MS - 1)
        assert scene.heartbeat(leader) is GroupError.NONE
    assert waiting.waits
    scene.assigned(leader)
    assert waiting.error is GroupError.NONE
    scene.wait(SESSION_MS - 1)
    assert scene.heartbeat(other) is GroupError.NONE
