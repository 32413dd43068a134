"""Groups of the consumer protocol (KIP-848): who joins, lives, leaves, and what all of them hear."""

import pytest

from tank_node.coordinators.machine.consumer_requests import ConsumerHeartbeat
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import MemberName
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tests.support.groups.consumer_scene import (
    HEARTBEAT_MS,
    REBALANCE_MS,
    ConsumerScene,
    two_members,
)

ALL = (0, 1, 2, 3)
NONE = GroupError.NONE


# --- joining ---


def test_the_first_member_gets_all_partitions_at_once() -> None:
    scene = ConsumerScene()
    heard = scene.join("a")
    assert (heard.error, heard.member_id, heard.epoch, heard.orders) == (NONE, "a", 1, ALL)
    assert heard.heartbeat_ms == HEARTBEAT_MS
    assert scene.is_in(GroupState.STABLE)


def test_a_member_without_an_id_gets_one_from_the_coordinator() -> None:
    scene = ConsumerScene()
    assert scene.join("").member_id == "client-1"


def test_a_member_hears_of_an_epoch_only_when_it_is_stored() -> None:
    scene = ConsumerScene()
    scene.stores_at_once = False
    answers = scene.begin_join("a")
    assert not answers
    scene.store()
    assert [each.member_epoch for each in answers] == [1]


def test_a_heartbeat_that_changes_nothing_is_answered_at_once_and_stores_nothing() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.stores_at_once = False
    heard = scene.go_on("a", 1, {"orders": ALL})
    assert (heard.error, heard.epoch, heard.assignment) == (NONE, 1, None)
    assert not scene.unstored


def test_whoever_asks_while_a_change_is_being_stored_waits_for_it() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.stores_at_once = False
    joining = scene.begin_join("b")
    living = scene.send(ConsumerHeartbeat("g", "a", member_epoch=1))
    assert not joining
    assert not living
    scene.store()
    assert joining
    assert not living, "what the heartbeat of a member changed is not stored"
    scene.store()
    assert living


def test_a_lost_change_refuses_everybody_who_waits_and_is_written_again_with_the_next() -> None:
    scene = ConsumerScene()
    scene.stores_at_once = False
    answers = scene.begin_join("a")
    scene.fail()
    assert [each.error for each in answers] == [GroupError.NOT_AVAILABLE]
    assert not scene.unstored, "it waits for the next heartbeat"
    again = scene.begin_join("a")
    scene.store()
    assert [(each.error, each.member_epoch) for each in again] == [(NONE, 1)]
    scene.move()
    assert scene.members == {"a"}


def test_an_assignment_whose_answer_failed_comes_with_the_next_answer() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.join("b")
    scene.go_on("a", 1)
    scene.go_on("a", 1, {"orders": (0, 1)})
    scene.stores_at_once = False
    answers = scene.send(ConsumerHeartbeat("g", "b", member_epoch=2))
    scene.fail()
    assert [each.error for each in answers] == [GroupError.NOT_AVAILABLE]
    again = scene.send(ConsumerHeartbeat("g", "b", member_epoch=2))
    scene.store()
    assert [each.assignment for each in again] == [{"orders": (2, 3)}]


@pytest.mark.parametrize(
    ("heartbeat", "error"),
    [
        (ConsumerHeartbeat("g", "a", topics=("t",), owned={}), GroupError.INVALID_REQUEST),
        (ConsumerHeartbeat("g", "a", rebalance_ms=1, topics=("t",)), GroupError.INVALID_REQUEST),
        (ConsumerHeartbeat("g", "a", rebalance_ms=1, owned={}), GroupError.INVALID_REQUEST),
        (
            ConsumerHeartbeat("g", "a", rebalance_ms=1, topics=("t",), owned={"t": (1,)}),
            GroupError.INVALID_REQUEST,
        ),
        (ConsumerHeartbeat("g", "", member_epoch=1), GroupError.INVALID_REQUEST),
        (
            ConsumerHeartbeat("g", "a", "", rebalance_ms=1, topics=("t",), owned={}),
            GroupError.INVALID_REQUEST,
        ),
        (ConsumerHeartbeat("g", "a", member_epoch=-2), GroupError.INVALID_REQUEST),
        (ConsumerHeartbeat("g", "a", member_epoch=-3), GroupError.INVALID_REQUEST),
        (ConsumerHeartbeat("g", "a" * 1_001, member_epoch=1), GroupError.INVALID_REQUEST),
        (
            ConsumerHeartbeat("g", "a", rebalance_ms=2**31, topics=("t",), owned={}),
            GroupError.INVALID_REQUEST,
        ),
        (
            ConsumerHeartbeat("g", "a", rebalance_ms=1, topics=("t" * 1_001,), owned={}),
            GroupError.INVALID_REQUEST,
        ),
        (ConsumerHeartbeat("g", "a", member_epoch=1), GroupError.UNKNOWN_MEMBER),
        (ConsumerHeartbeat("g", "a", member_epoch=-1), GroupError.UNKNOWN_MEMBER),
        (
            ConsumerHeartbeat("g", "a", rebalance_ms=1, topics=("t",), owned={}, assignor="mine"),
            GroupError.UNSUPPORTED_ASSIGNOR,
        ),
        (
            ConsumerHeartbeat("g", "a", rebalance_ms=1, topic_regex="(", owned={}),
            GroupError.INVALID_REGEX,
        ),
    ],
)
def test_a_heartbeat_that_can_not_be_is_refused_and_makes_no_group(
    heartbeat: ConsumerHeartbeat, error: GroupError
) -> None:
    scene = ConsumerScene()
    (answer,) = scene.send(heartbeat)
    assert answer.error is error
    assert answer.message
    assert scene.is_in(GroupState.DEAD)


def test_a_group_that_is_full_takes_no_more_members_but_those_that_it_has() -> None:
    scene = ConsumerScene(settings=GroupSettings(consumer_max_size=1))
    scene.join("a")
    assert scene.join("b").error is GroupError.GROUP_FULL
    assert scene.join("a").error is NONE


# --- going on ---


def test_a_partition_is_given_away_only_after_its_owner_no_longer_names_it() -> None:
    scene = ConsumerScene()
    scene.join("a")
    assert scene.join("b").orders == ()
    told = scene.go_on("a", 1, {"orders": ALL})
    assert (told.epoch, told.orders) == (1, (0, 1)), "it gives up two, and stays in its epoch"
    assert scene.go_on("b", 2).assignment is None
    assert scene.go_on("a", 1, {"orders": (0, 1, 2)}).epoch == 1, "it still has one of them"
    assert scene.go_on("b", 2).assignment is None
    assert scene.is_in(GroupState.RECONCILING)
    assert scene.go_on("a", 1, {"orders": (0, 1)}).epoch == 2
    assert scene.go_on("b", 2).orders == (2, 3)
    assert scene.is_in(GroupState.STABLE)


def test_a_member_that_does_not_say_what_it_has_has_not_given_anything_up() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.join("b")
    scene.go_on("a", 1)
    assert scene.go_on("a", 1).epoch == 1
    assert scene.go_on("b", 2).assignment is None


def test_each_free_partition_is_given_without_waiting_for_the_others() -> None:
    scene = ConsumerScene({"orders": 6})
    for member_id in ("a", "b"):
        scene.join(member_id)
    scene.go_on("a", 1)
    scene.go_on("a", 1, {"orders": (0, 1, 2)})
    scene.go_on("b", 2)
    assert scene.join("c").orders == ()
    scene.go_on("a", 2)
    scene.go_on("a", 2, {"orders": (0, 1)})
    heard = scene.go_on("c", 3)
    assert len(heard.orders) == 1, "that of the first member alone"
    scene.go_on("b", 2)
    scene.go_on("b", 2, {"orders": (3, 4)})
    assert len(scene.go_on("c", 3).orders) == 2
    assert scene.is_in(GroupState.STABLE)


def test_a_member_that_says_everything_hears_its_assignment_though_nothing_changed() -> None:
    scene = ConsumerScene()
    scene.join("a")
    assert scene.go_on("a", 1, {"orders": ALL}, is_full=True).orders == ALL


def test_a_member_with_its_previous_epoch_goes_on_if_all_it_has_is_still_its_own() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.topics.grow("orders", 6)
    assert scene.go_on("a", 1, {"orders": ALL}).epoch == 2
    again = scene.go_on("a", 1, {"orders": ALL})
    assert (again.error, again.epoch, again.orders) == (NONE, 2, (0, 1, 2, 3, 4, 5))


def test_a_member_with_its_previous_epoch_that_has_something_else_is_fenced() -> None:
    scene = ConsumerScene()
    two_members(scene)
    assert scene.go_on("a", 1, {"orders": ALL}).error is GroupError.FENCED_MEMBER_EPOCH
    assert scene.go_on("a", 1).error is GroupError.FENCED_MEMBER_EPOCH, "it doesn't say what it has"


def test_what_a_member_with_its_previous_epoch_has_is_no_sign_that_it_gave_something_up() -> None:
    scene = ConsumerScene({"orders": 6})
    scene.join("a")
    scene.join("b")
    scene.go_on("a", 1)
    scene.go_on("a", 1, {"orders": (0, 1, 2)})
    scene.go_on("b", 2)
    scene.join("c")
    heard = scene.go_on("a", 2, {"orders": (0, 1, 2)})
    assert (heard.epoch, heard.orders) == (2, (0, 1)), "it is to give one up"
    late = scene.go_on("a", 1, {"orders": ()})
    assert (late.error, late.epoch) == (NONE, 2)
    assert scene.go_on("c", 3).assignment is None


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_member_with_any_other_epoch_is_fenced(epoch: int) -> None:
    scene = ConsumerScene()
    scene.join("a")
    for partitions in (5, 6):
        scene.topics.grow("orders", partitions)
        scene.go_on("a", partitions - 4)
    assert scene.go_on("a", 3).epoch == 3
    other = 1 if epoch == 1 else 4
    heard = scene.go_on("a", other, {"orders": ()})
    assert heard.error is GroupError.FENCED_MEMBER_EPOCH
    assert heard.message


def test_a_fenced_member_joins_again_under_its_id_and_keeps_its_target() -> None:
    scene = ConsumerScene()
    two_members(scene)
    heard = scene.join("b")
    assert (heard.error, heard.epoch, heard.orders) == (NONE, 2, (2, 3))
    assert scene.epoch == 2


def test_a_member_that_joins_again_has_nothing_until_it_is_free() -> None:
    scene = ConsumerScene()
    two_members(scene)
    scene.leave("a")
    scene.join("c")
    told = scene.go_on("b", 2, {"orders": (2, 3)})
    assert told.epoch >= 2
    again = scene.join("b")
    both = set(again.orders) | set(scene.go_on("c", scene.epoch, is_full=True, owned={}).orders)
    assert both == set(ALL)


# --- subscriptions and topics ---


def test_another_subscription_begins_another_epoch() -> None:
    scene = ConsumerScene({"orders": 2, "bills": 2})
    scene.join("a")
    heard = scene.go_on("a", 1, {"orders": (0, 1)}, topics=("orders", "bills"))
    assert (heard.epoch, heard.assignment) == (2, {"orders": (0, 1), "bills": (0, 1)})


def test_new_partitions_begin_another_epoch_with_the_next_heartbeat() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.topics.grow("orders", 5)
    heard = scene.go_on("a", 1, {"orders": ALL})
    assert (heard.epoch, heard.orders) == (2, (0, 1, 2, 3, 4))


def test_a_deleted_topic_is_taken_from_its_readers() -> None:
    scene = ConsumerScene({"orders": 2, "bills": 1})
    scene.join("a", ("orders", "bills"))
    scene.topics.delete("bills")
    heard = scene.go_on("a", 1, {"orders": (0, 1)})
    assert (heard.epoch, heard.assignment) == (2, {"orders": (0, 1)})


def test_a_topic_that_is_made_again_is_another_one() -> None:
    scene = ConsumerScene()
    two_members(scene)
    scene.topics.delete("orders")
    scene.topics.make("orders", 2)
    assert scene.go_on("a", 2, {}).orders == (0,)
    assert scene.go_on("b", 2, {}).orders == (1,)


def test_a_topic_that_is_made_later_is_read_when_it_is_there() -> None:
    scene = ConsumerScene({})
    assert scene.join("a").assignment == {}
    scene.topics.make("orders", 1)
    assert scene.go_on("a", 1).orders == (0,)


def test_another_topic_changes_nothing() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.topics.make("bills", 1)
    assert scene.go_on("a", 1).epoch == 1


def test_a_pattern_reads_all_topics_that_match_also_later_ones() -> None:
    scene = ConsumerScene({"orders-1": 1, "orders-2": 1, "bills": 1})
    heard = scene.join("a", None, regex="orders-.*")
    assert heard.assignment == {"orders-1": (0,), "orders-2": (0,)}
    scene.topics.make("orders-3", 1)
    later = scene.go_on("a", 1, {"orders-1": (0,), "orders-2": (0,)})
    assert later.assignment == {"orders-1": (0,), "orders-2": (0,), "orders-3": (0,)}
    assert scene.group.subscribed_topics() == {"orders-1", "orders-2", "orders-3"}


def test_a_pattern_and_names_together_read_both() -> None:
    scene = ConsumerScene({"orders": 1, "bills": 1, "else": 1})
    assert scene.join("a", ("bills",), regex="ord.*").assignment == {"bills": (0,), "orders": (0,)}


def test_the_assignor_that_most_members_want_is_used() -> None:
    scene = ConsumerScene({"orders": 4, "bills": 4})
    scene.join("a", ("orders", "bills"), assignor="range")
    assert scene.group.described_consumer().assignor == "range"
    scene.join("b", ("orders", "bills"), assignor="range")
    scene.go_on("a", 1)
    scene.go_on("a", 1, {"orders": (0, 1), "bills": (0, 1)})
    assert scene.go_on("b", 2).assignment == {"orders": (2, 3), "bills": (2, 3)}


# --- time ---


def test_a_silent_member_is_out_after_its_session_and_what_it_had_is_free() -> None:
    scene = ConsumerScene()
    two_members(scene)
    for _ in range(9):
        scene.wait(HEARTBEAT_MS)
        assert scene.go_on("a", 2).error is NONE
    scene.wait(1)
    assert scene.members == {"a"}
    assert scene.go_on("a", 2, {"orders": (0, 1)}).orders == ALL
    assert scene.go_on("b", 2).error is GroupError.UNKNOWN_MEMBER


def test_a_member_that_takes_longer_than_its_rebalance_timeout_to_give_up_is_out() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.join("b")
    scene.go_on("a", 1)
    while scene.now_ms < REBALANCE_MS - HEARTBEAT_MS:
        scene.wait(HEARTBEAT_MS)
        assert scene.go_on("a", 1, {"orders": ALL}).error is NONE
        scene.go_on("b", 2)
    scene.wait(HEARTBEAT_MS + 1)
    assert scene.go_on("a", 1, {"orders": ALL}).error is GroupError.UNKNOWN_MEMBER
    assert scene.go_on("b", 2).orders == ALL


def test_a_member_that_gave_up_in_time_stays() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.join("b")
    scene.go_on("a", 1)
    scene.go_on("a", 1, {"orders": (0, 1)})
    for _ in range(REBALANCE_MS // HEARTBEAT_MS + 2):
        scene.wait(HEARTBEAT_MS)
        assert scene.go_on("a", 2).error is NONE
        assert scene.go_on("b", 2).error is NONE


# --- leaving ---


def test_a_member_that_leaves_is_out_at_once() -> None:
    scene = ConsumerScene()
    two_members(scene)
    heard = scene.leave("a")
    assert (heard.error, heard.epoch) == (NONE, -1)
    assert scene.members == {"b"}
    assert scene.go_on("b", 2).orders == ALL


def test_when_the_last_member_has_left_the_group_is_empty_and_its_epoch_stays() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.leave("a")
    assert scene.is_in(GroupState.EMPTY)
    assert scene.group.has_nobody
    assert scene.join("b").epoch > 1


# --- offsets ---


def test_a_member_commits_and_fetches_in_its_epoch_alone() -> None:
    scene = ConsumerScene()
    two_members(scene)
    assert scene.commit("a", 2) is NONE
    assert scene.commit("a", 1) is GroupError.STALE_MEMBER_EPOCH
    assert scene.commit("c", 2) is GroupError.UNKNOWN_MEMBER
    assert scene.commit("", -1) is GroupError.UNKNOWN_MEMBER, "a simple commit, while there are members"
    assert scene.group.check_fetch("a", 2) is NONE
    assert scene.group.check_fetch("a", 1) is GroupError.STALE_MEMBER_EPOCH
    assert scene.group.check_fetch("c", 2) is GroupError.UNKNOWN_MEMBER
    assert scene.group.check_fetch("", -1) is NONE


def test_a_simple_commit_is_taken_while_the_group_is_empty() -> None:
    scene = ConsumerScene()
    scene.join("a")
    scene.leave("a")
    assert scene.commit("", -1) is NONE
    assert scene.commit("a", 1) is GroupError.UNKNOWN_MEMBER


def test_offsets_of_topics_that_members_read_are_not_deleted() -> None:
    scene = ConsumerScene()
    scene.join("a")
    assert scene.group.may_delete_offset("orders") is GroupError.SUBSCRIBED
    assert scene.group.may_delete_offset("bills") is NONE


# --- classic members ---


def test_an_unknown_classic_member_is_none() -> None:
    scene = ConsumerScene()
    scene.join("a")
    assert scene.group.heartbeat(0, MemberName("g", "x"), 1) is GroupError.UNKNOWN_MEMBER
    assert scene.group.heartbeat(0, MemberName("g", "a"), 1) is GroupError.UNKNOWN_MEMBER
