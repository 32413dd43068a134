"""Who may join a group, and as whom."""

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_limits import GroupLimits
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.scene import INITIAL_MS, SESSION_MS, Scene


def test_a_group_without_a_name_is_refused() -> None:
    scene = Scene(group_id="")
    assert scene.join().error is GroupError.INVALID_GROUP_ID


def test_a_member_id_for_a_group_that_is_not_there_is_unknown() -> None:
    joining = Scene().join("c-1")
    assert joining.error is GroupError.UNKNOWN_MEMBER


def test_a_member_id_that_the_group_does_not_know_is_unknown() -> None:
    scene = Scene()
    scene.stable(1)
    assert scene.join("stranger").error is GroupError.UNKNOWN_MEMBER


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_a_session_outside_of_the_brokers_bounds_is_refused(session_ms: int) -> None:
    assert Scene().join(session_ms=session_ms).error is GroupError.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session_ms", [6_000, 1_800_000])
def test_a_session_at_a_bound_is_taken(session_ms: int) -> None:
    assert Scene().join(session_ms=session_ms).waits


def test_the_first_member_must_say_its_protocol_type() -> None:
    assert Scene().join(protocol_type="").error is GroupError.INCONSISTENT_PROTOCOL


def test_the_first_member_must_know_a_protocol() -> None:
    assert Scene().join(protocols={}).error is GroupError.INCONSISTENT_PROTOCOL


def test_the_protocol_type_must_be_the_groups() -> None:
    scene = Scene()
    scene.stable(1)
    assert scene.join(protocol_type="connect").error is GroupError.INCONSISTENT_PROTOCOL
    assert scene.is_in(GroupState.STABLE)


def test_a_group_without_members_may_become_one_of_another_type() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    scene.leave((member.member_id, None))
    joining = scene.join(protocol_type="connect")
    scene.wait(INITIAL_MS)
    assert joining.answer.protocol_type == "connect"


def test_one_protocol_must_be_known_to_all() -> None:
    scene = Scene()
    scene.join(protocols={"a": b"", "b": b""})
    scene.join(protocols={"b": b"", "c": b""})
    assert scene.join(protocols={"a": b"", "c": b""}).error is GroupError.INCONSISTENT_PROTOCOL
    assert scene.join(protocols={"c": b"", "b": b""}).waits


def test_a_lone_member_may_change_its_protocols() -> None:
    scene = Scene()
    (member,) = scene.stable(1, protocols={"a": b""})
    joining = scene.join(member.member_id, protocols={"b": b""})
    assert joining.answer.protocol == "b"


def test_a_new_member_of_a_newer_client_is_told_its_id_first() -> None:
    scene = Scene()
    joining = scene.join(client_id="billing", needs_member_id=True)
    assert joining.error is GroupError.MEMBER_ID_REQUIRED
    assert joining.answer.member_id == "billing-1"
    assert joining.answer.generation == -1
    assert scene.size == 0
    again = scene.join("billing-1", needs_member_id=True)
    scene.wait(INITIAL_MS)
    assert again.answer.member_id == "billing-1"


def test_an_id_that_nobody_joins_with_is_forgotten_after_the_session() -> None:
    scene = Scene()
    scene.stable(1)
    member_id = scene.join(needs_member_id=True).answer.member_id
    other_id = scene.join(needs_member_id=True, session_ms=2 * SESSION_MS).answer.member_id
    scene.wait(SESSION_MS)
    assert scene.join(member_id).error is GroupError.UNKNOWN_MEMBER
    assert scene.join(other_id).waits


def test_a_new_member_of_an_older_client_is_a_member_at_once() -> None:
    scene = Scene()
    assert scene.join().waits
    assert scene.size == 1


def test_a_new_static_member_is_a_member_at_once_under_its_instances_name() -> None:
    scene = Scene()
    joining = scene.join(instance_id="rack-1", needs_member_id=True)
    scene.wait(INITIAL_MS)
    assert joining.answer.member_id == "rack-1-1"


def test_a_full_group_takes_no_further_member() -> None:
    scene = Scene(max_size=2)
    members = scene.stable(2)
    refused = scene.join()
    assert refused.error is GroupError.GROUP_FULL
    assert refused.answer.member_id == ""
    assert scene.is_in(GroupState.STABLE)
    assert scene.heartbeat(members[0]) is GroupError.NONE


def test_a_full_groups_own_members_join_again() -> None:
    scene = Scene(max_size=2)
    leader, other = scene.stable(2)
    first = scene.join(leader.member_id)
    assert scene.join(other.member_id).error is GroupError.NONE
    assert first.error is GroupError.NONE


def test_of_a_group_that_is_made_smaller_those_who_come_first_stay() -> None:
    scene = Scene(max_size=3)
    scene.stable(3)
    smaller = Scene(max_size=2, image=scene.stored[-1])
    joinings = [smaller.join(f"c-{number}", protocols={"range": b"new"}) for number in (3, 2, 1)]
    assert joinings[2].error is GroupError.GROUP_FULL
    smaller.joined(*joinings[:2])


def test_ids_that_are_given_out_are_as_many_as_a_group_may_have_members() -> None:
    scene = Scene(max_size=2)
    for _ in range(2):
        assert scene.join(needs_member_id=True).error is GroupError.MEMBER_ID_REQUIRED
    assert scene.join(needs_member_id=True).error is GroupError.GROUP_FULL


def test_a_member_may_not_say_more_than_a_limit() -> None:
    scene = Scene(limits=GroupLimits(member_bytes=100, group_bytes=150))
    assert scene.join(protocols={"range": bytes(96)}).error is GroupError.GROUP_FULL
    assert scene.join(protocols={"range": bytes(95)}).waits


def test_all_members_together_may_not_say_more_than_a_limit() -> None:
    scene = Scene(limits=GroupLimits(member_bytes=100, group_bytes=150))
    scene.join(protocols={"range": bytes(90)})
    assert scene.join(protocols={"range": bytes(60)}).error is GroupError.GROUP_FULL
    assert scene.join(protocols={"range": bytes(50)}).waits


def test_a_member_that_joins_again_may_say_as_much_as_before() -> None:
    scene = Scene(limits=GroupLimits(member_bytes=100, group_bytes=100))
    (member,) = scene.stable(1, protocols={"range": bytes(90)})
    assert scene.join(member.member_id, protocols={"range": bytes(95)}).error is GroupError.NONE


def test_a_stable_groups_member_that_says_the_same_is_told_the_present_generation() -> None:
    scene = Scene()
    leader, other = scene.stable(2)
    again = scene.join(other.member_id).answer
    assert (again.generation, again.leader_id, again.members) == (1, leader.member_id, ())
    assert scene.is_in(GroupState.STABLE)


def test_a_stable_groups_member_that_says_something_else_makes_it_rebalance() -> None:
    scene = Scene()
    _, other = scene.stable(2)
    assert scene.join(other.member_id, protocols={"range": b"other topics"}).waits
    assert scene.is_in(GroupState.PREPARING_REBALANCE)


def test_a_stable_groups_leader_makes_it_rebalance_by_joining() -> None:
    """It has seen that a topic has more partitions."""
    scene = Scene()
    leader, _ = scene.stable(2)
    assert scene.join(leader.member_id).waits
    assert scene.is_in(GroupState.PREPARING_REBALANCE)


def test_before_the_assignment_the_leader_that_says_the_same_gets_the_members_again() -> None:
    scene = Scene()
    joinings = [scene.join(), scene.join()]
    scene.wait(2 * INITIAL_MS)
    leader, other = scene.joined(*joinings)
    assert scene.join(leader.member_id).answer == leader
    assert scene.join(other.member_id).answer == other
    assert scene.is_in(GroupState.COMPLETING_REBALANCE)


def test_before_the_assignment_a_member_that_says_something_else_makes_it_rebalance() -> None:
    scene = Scene()
    joinings = [scene.join(), scene.join()]
    scene.wait(2 * INITIAL_MS)
    _, other = scene.joined(*joinings)
    assert scene.join(other.member_id, protocols={"range": b"other topics"}).waits
    assert scene.is_in(GroupState.PREPARING_REBALANCE)


def test_of_two_joins_of_one_member_the_later_one_waits() -> None:
    """Its client has lost a connection, and asks again over another one."""
    scene = Scene()
    leader, other = scene.stable(2)
    first = scene.join(leader.member_id)
    second = scene.join(leader.member_id)
    assert first.error is GroupError.REBALANCING
    scene.join(other.member_id)
    assert second.answer.generation == 2


@pytest.mark.parametrize("protocol_type", ["connect", "sr", "stream"])
def test_groups_of_other_types_work_and_what_their_members_say_is_never_read(protocol_type: str) -> None:
    scene = Scene()
    leader, _ = scene.stable(2, protocol_type=protocol_type, protocols={"v0": b"\xff\x00 anything"})
    assert leader.protocol_type == protocol_type
    assert [member.metadata for member in leader.members] == [b"\xff\x00 anything"] * 2
    assert scene.group.subscribed_topics() is None
