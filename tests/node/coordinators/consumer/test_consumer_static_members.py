"""Static members of groups of the consumer protocol keep their place when their process starts again."""

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.consumer_scene import SESSION_MS, ConsumerScene

ALL = (0, 1, 2, 3)
NONE = GroupError.NONE


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions() -> None:
    scene = ConsumerScene()
    scene.join("a", instance_id="one")
    scene.join("b")
    scene.go_on("a", 1)
    scene.go_on("a", 1, {"orders": (0, 1)})
    scene.go_on("b", 2)
    heard = scene.leave("a", instance_id="one", epoch=-2)
    assert (heard.error, heard.epoch) == (NONE, -2)
    assert scene.go_on("b", 2).assignment is None
    epoch = scene.epoch
    again = scene.join("a2", instance_id="one")
    assert (again.error, again.orders, again.epoch) == (NONE, (0, 1), 2)
    assert scene.epoch == epoch, "nobody else notices"
    assert scene.members == {"a2", "b"}


def test_a_static_member_that_does_not_come_back_within_its_session_is_out() -> None:
    scene = ConsumerScene()
    scene.join("a", instance_id="one")
    scene.leave("a", instance_id="one", epoch=-2)
    scene.wait(SESSION_MS)
    assert scene.is_in(GroupState.EMPTY)


def test_an_instance_id_is_not_released_while_its_member_lives() -> None:
    scene = ConsumerScene()
    scene.join("a", instance_id="one")
    assert scene.join("b", instance_id="one").error is GroupError.UNRELEASED_INSTANCE_ID
    assert scene.members == {"a"}


def test_a_member_whose_place_another_took_is_fenced_by_its_instance_id() -> None:
    scene = ConsumerScene()
    scene.join("a", instance_id="one")
    scene.leave("a", instance_id="one", epoch=-2)
    scene.join("b", instance_id="one")
    assert scene.go_on("a", 1, instance_id="one").error is GroupError.FENCED_INSTANCE
    assert scene.go_on("a", 1).error is GroupError.UNKNOWN_MEMBER
    assert scene.leave("a", instance_id="one").error is GroupError.FENCED_INSTANCE
    assert scene.members == {"b"}


def test_a_static_member_that_comes_back_with_another_subscription_begins_an_epoch() -> None:
    scene = ConsumerScene({"orders": 2, "bills": 2})
    scene.join("a", instance_id="one")
    scene.leave("a", instance_id="one", epoch=-2)
    again = scene.join("b", ("bills",), instance_id="one")
    assert again.assignment == {"bills": (0, 1)}
    assert again.epoch == 2


def test_a_static_member_may_leave_for_good() -> None:
    scene = ConsumerScene()
    scene.join("a", instance_id="one")
    scene.leave("a", instance_id="one")
    assert scene.is_in(GroupState.EMPTY)
    assert scene.join("b", instance_id="one").orders == ALL
