"""Groups of the consumer protocol over their coordinators, and to tools."""

from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeat
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_limits import GroupLimits
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.consumer_scene import SESSION_MS, ConsumerScene, two_members

ALL = (0, 1, 2, 3)
NONE = GroupError.NONE


def test_another_coordinator_goes_on_where_the_first_one_was() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.join("b", instance_id="one")
    scene.go_on("a", 1)
    before = scene.group.described_consumer()
    scene.move()
    assert scene.group.described_consumer() == before
    assert scene.go_on("b", 2).assignment is None, "the first member still has them"
    scene.go_on("a", 1, {"orders": (0, 1)})
    assert scene.go_on("b", 2).orders == (2, 3)


def test_another_coordinator_gives_all_members_one_session_and_one_rebalance_timeout() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.join("b")
    scene.go_on("a", 1)
    scene.wait(SESSION_MS - 1)
    scene.move()
    scene.wait(SESSION_MS - 1)
    assert scene.members == {"a", "b"}
    scene.wait(1)
    assert scene.members == set()


def test_topics_that_changed_while_there_was_no_coordinator_begin_an_epoch() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.topics.grow("orders", 5)
    scene.move()
    assert scene.go_on("a", 1).epoch == 2


def test_what_is_left_of_members_that_left_is_deleted() -> None:
    scene = ConsumerScene()
    two_members(scene)
    scene.leave("a")
    scene.leave("b")
    assert len([value for value in scene.records.values() if value is not None]) == 3
    for key, value in scene.group.tombstones():
        assert value is None
        scene.records[key] = value
    assert all(value is None for value in scene.records.values())


def test_a_deleted_group_is_there_no_more_and_begins_anew_with_the_next_member() -> None:
    scene = ConsumerScene()
    scene.join("a")
    assert scene.group.bury() is GroupError.NOT_EMPTY
    scene.leave("a")
    assert scene.group.bury() is NONE
    assert scene.is_in(GroupState.DEAD)
    assert scene.group.bury() is GroupError.UNKNOWN_GROUP
    assert scene.join("b").orders == ALL


# --- tools ---


def test_tools_see_members_with_what_they_have_and_are_to_have() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.join("b", instance_id="one")
    scene.go_on("a", 1)
    group = scene.group.described_consumer()
    assert (group.state, group.epoch, group.assignment_epoch, group.assignor) == (
        GroupState.RECONCILING,
        2,
        2,
        "uniform",
    )
    first, second = group.members
    assert (first.member_epoch, first.assignment, first.target) == (
        1,
        {"orders": (0, 1)},
        {"orders": (0, 1)},
    )
    assert (second.instance_id, second.assignment, second.target) == ("one", {}, {"orders": (2, 3)})
    assert not second.is_classic
    assert scene.group.described().error is GroupError.UNKNOWN_GROUP, "as a classic group"


def test_the_limits_of_texts_hold() -> None:
    limits = GroupLimits(name_bytes=3, member_bytes=5)
    scene = ConsumerScene(settings=GroupSettings(limits=limits))
    long = ConsumerHeartbeat("long", "a", rebalance_ms=1, topics=("t",), owned={})
    assert [each.error for each in scene.send(long)] == [GroupError.INVALID_GROUP_ID]
    many = ConsumerHeartbeat("g", "a", rebalance_ms=1, topics=("abc", "def"), owned={})
    assert [each.error for each in scene.send(many)] == [GroupError.INVALID_REQUEST]
