"""Members of the classic protocol in a group of the consumer protocol: their requests are translated."""

import pytest

from tank_node.coordinators.classic.subscription import read_assignment
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import JoinRequest, MemberName
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.consumer_scene import REBALANCE_MS, ConsumerScene, subscription

NONE, REBALANCING = GroupError.NONE, GroupError.REBALANCING


def assigned(scene: ConsumerScene, member_id: str, generation: int) -> tuple[int, ...]:
    """What a classic member gets at its SyncGroup."""
    answer = scene.classic_sync(member_id, generation)
    assert answer.error is NONE
    found = read_assignment(answer.assignment)
    assert found is not None
    return tuple(found.get("orders", ()))


def shared(scene: ConsumerScene) -> str:
    """`a` of the consumer protocol and a classic member have two partitions each. Returns the id of the
    classic one."""
    scene.join("a")
    answer = scene.classic_join()
    assert (answer.error, answer.generation, answer.protocol_type, answer.protocol) == (
        NONE,
        2,
        "consumer",
        "range",
    )
    assert answer.leader_id != answer.member_id
    assert not answer.members
    assert assigned(scene, answer.member_id, 2) == ()
    scene.go_on("a", 1)
    scene.go_on("a", 1, {"orders": (0, 1)})
    assert scene.classic_heartbeat(answer.member_id, 2) is REBALANCING, "what it waits for is free"
    again = scene.classic_join(answer.member_id)
    assert again.generation == 2
    assert assigned(scene, answer.member_id, 2) == (2, 3)
    assert scene.classic_heartbeat(answer.member_id, 2) is NONE
    assert scene.is_in(GroupState.STABLE)
    return answer.member_id


def assigned_again(
    scene: ConsumerScene, member_id: str, owned: tuple[int, ...]
) -> tuple[int, tuple[int, ...]]:
    """A member joins again with what it has; returns its generation, and what it gets."""
    answer = scene.classic_join(member_id, owned={"orders": owned})
    assert answer.error is NONE
    return answer.generation, assigned(scene, member_id, answer.generation)


def test_a_classic_member_joins_at_once_and_gets_its_share_when_that_is_free() -> None:
    shared(ConsumerScene())


def test_a_classic_member_gets_its_id_before_it_is_a_member() -> None:
    scene = ConsumerScene()
    scene.join("a")
    first = scene.classic_join(needs_member_id=True)
    assert (first.error, first.generation) == (GroupError.MEMBER_ID_REQUIRED, -1)
    assert scene.members == {"a"}
    assert scene.classic_join(first.member_id, needs_member_id=True).member_id == first.member_id
    assert scene.members == {"a", first.member_id}


def test_an_id_that_nobody_joined_with_is_forgotten() -> None:
    scene = ConsumerScene()
    scene.join("a")
    first = scene.classic_join(needs_member_id=True)
    scene.wait(10_000)
    assert scene.classic_join(first.member_id).error is GroupError.UNKNOWN_MEMBER


def test_a_cooperative_member_gives_up_before_another_gets() -> None:
    scene = ConsumerScene()
    old = shared(scene)
    scene.topics.grow("orders", 6)
    assert scene.classic_heartbeat(old, 2) is REBALANCING
    assert assigned_again(scene, old, (2, 3)) == (3, (2, 3, 5))
    assert scene.go_on("a", 2, {"orders": (0, 1)}).orders == (0, 1, 4)
    scene.join("b")
    assert scene.go_on("a", 3).orders == (0, 1)
    assert scene.classic_heartbeat(old, 3) is REBALANCING
    assert assigned_again(scene, old, (2, 3, 5)) == (3, (2, 3)), "it gives one up, in its generation"
    assert scene.go_on("b", 4).assignment is None
    assert scene.classic_heartbeat(old, 3) is REBALANCING
    assert assigned_again(scene, old, (2, 3)) == (4, (2, 3))
    assert scene.go_on("b", 4).orders == (5,)


def test_a_member_that_gives_up_everything_before_it_joins_goes_on_at_once() -> None:
    scene = ConsumerScene()
    old = shared(scene)
    scene.leave("a")
    assert scene.group.is_left_to_classic_members
    scene.join("b")
    answer = scene.classic_join(old, owned={})
    assert answer.generation == scene.epoch


def test_a_sync_in_another_generation_is_refused() -> None:
    scene = ConsumerScene()
    old = shared(scene)
    assert scene.classic_sync(old, 1).error is GroupError.ILLEGAL_GENERATION
    assert scene.classic_heartbeat(old, 1) is GroupError.ILLEGAL_GENERATION


def test_a_sync_while_the_group_has_gone_on_sends_the_member_to_join_again() -> None:
    scene = ConsumerScene()
    scene.join("a")
    answer = scene.classic_join()
    scene.join("b")
    assert scene.classic_sync(answer.member_id, answer.generation).error is REBALANCING


def test_a_classic_member_that_does_not_sync_or_join_again_in_time_is_out() -> None:
    scene = ConsumerScene()
    scene.join("a")
    answer = scene.classic_join()
    for _ in range(REBALANCE_MS // 5_000):
        scene.wait(5_000)
        scene.go_on("a", 1, {"orders": (0, 1)} if scene.now_ms > 5_000 else None)
        scene.classic_heartbeat(answer.member_id, answer.generation)
    assert answer.member_id not in scene.members


def test_a_silent_classic_member_is_out_after_its_own_session() -> None:
    scene = ConsumerScene()
    old = shared(scene)
    scene.wait(10_000)
    assert scene.members == {"a"}
    assert scene.classic_heartbeat(old, 2) is GroupError.UNKNOWN_MEMBER


def test_classic_members_leave_each_with_a_result() -> None:
    scene = ConsumerScene()
    old = shared(scene)
    errors = scene.group.leave(scene.now_ms, [(old, None), ("x", None)])
    scene.act()
    assert errors == [NONE, GroupError.UNKNOWN_MEMBER]
    assert scene.members == {"a"}


def test_a_static_classic_member_keeps_its_place_when_its_process_starts_again() -> None:
    scene = ConsumerScene()
    scene.join("a")
    first = scene.classic_join(instance_id="one")
    again = scene.classic_join(instance_id="one")
    assert again.member_id != first.member_id
    assert scene.members == {"a", again.member_id}
    name = MemberName("g", first.member_id, "one")
    assert scene.group.heartbeat(0, name, first.generation) is GroupError.FENCED_INSTANCE


def test_a_classic_member_commits_in_its_generation() -> None:
    scene = ConsumerScene()
    old = shared(scene)
    assert scene.commit(old, 2) is NONE
    assert scene.commit(old, 1) is GroupError.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [
        ("connect", (("range", subscription(("orders",))),)),
        ("consumer", ()),
        ("consumer", (("range", b"nonsense"),)),
        ("consumer", (("other", subscription(("orders",))),)),
    ],
)
def test_a_member_that_is_no_consumer_or_knows_no_common_protocol_is_refused(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    scene = ConsumerScene()
    shared(scene)
    answers: list[object] = []
    request = JoinRequest(MemberName("g", ""), "c", "/h", 10_000, 60_000, protocol_type, protocols)
    scene.group.join(0, request, answers)
    scene.act()
    assert [getattr(each, "error", None) for each in answers] == [GroupError.INCONSISTENT_PROTOCOL]


def test_sessions_of_classic_members_have_their_own_bounds() -> None:
    scene = ConsumerScene(settings=GroupSettings(min_session_ms=20_000))
    scene.join("a")
    assert scene.classic_join().error is GroupError.INVALID_SESSION_TIMEOUT


def test_the_described_group_says_who_is_classic() -> None:
    scene = ConsumerScene()
    old = shared(scene)
    members = scene.group.described_consumer().members
    assert {each.member_id: each.is_classic for each in members} == {"a": False, old: True}


def test_another_coordinator_knows_the_classic_members() -> None:
    scene = ConsumerScene()
    old = shared(scene)
    before = scene.group.described_consumer()
    scene.move()
    assert scene.group.described_consumer() == before
    assert scene.classic_heartbeat(old, 2) is NONE
    assert assigned(scene, old, 2) == (2, 3)
