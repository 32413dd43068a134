"""What a group shows of itself, how it is loaded, and how it is deleted."""

import pytest

from tank_node.coordinators.classic.subscription import topics_in
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_settings import GroupSettingError, GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_protos.generated.kafka.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.support.groups.scene import INITIAL_MS, REBALANCE_MS, SESSION_MS, WALL_MS, Scene


def subscription(*topics: str, version: int = 0) -> bytes:
    return version.to_bytes(2, "big") + b"".join(
        ConsumerProtocolSubscription(topics=list(topics)).encode(min(version, 3))
    )


# What it shows


def test_a_stable_group_shows_what_members_say_and_are_to_do() -> None:
    scene = Scene()
    (member,) = scene.stable(0, "rack-1", client_id="billing")
    group = scene.group.described()
    assert (group.state, group.protocol_type, group.protocol) == (GroupState.STABLE, "consumer", "range")
    (shown,) = group.members
    assert (shown.member_id, shown.instance_id) == (member.member_id, "rack-1")
    assert (shown.client_id, shown.client_host) == ("billing", "/10.0.0.7")
    assert (shown.metadata, shown.assignment) == (b"m", member.member_id.encode())


def test_another_group_shows_its_members_without_that() -> None:
    scene = Scene()
    scene.stable(1)
    scene.join()
    group = scene.group.described()
    assert (group.state, group.protocol) == (GroupState.PREPARING_REBALANCE, "")
    assert {(member.metadata, member.assignment) for member in group.members} == {(b"", b"")}


def test_a_group_that_is_not_there_is_dead() -> None:
    group = Scene().group.described()
    assert (group.error, group.state, group.members) == (GroupError.NONE, GroupState.DEAD, ())


def test_a_groups_line_in_a_list() -> None:
    scene = Scene()
    scene.stable(1, protocol_type="sr")
    listed = scene.group.listed()
    assert (listed.group_id, listed.protocol_type, listed.state) == ("g", "sr", GroupState.STABLE)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 99])
def test_topics_are_found_in_every_version_of_a_subscription(version: int) -> None:
    assert topics_in(subscription("orders", "returns", version=version)) == frozenset({"orders", "returns"})


def test_what_a_later_version_adds_is_not_looked_at() -> None:
    assert topics_in(subscription("orders", version=4) + b"news") == frozenset({"orders"})


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        b"\x00\x00",
        b"\xff\xff" + subscription("orders")[2:],
        subscription("orders")[:-1],
        b"\xff" * 20,
    ],
)
def test_what_can_not_be_parsed_names_no_topics_and_is_no_error(metadata: bytes) -> None:
    assert topics_in(metadata) is None
    scene = Scene()
    scene.stable(1, protocols={"range": metadata})
    assert scene.group.subscribed_topics() is None


def test_the_topics_of_a_group_are_those_of_all_its_members() -> None:
    scene = Scene()
    scene.join(protocols={"range": subscription("orders")})
    scene.join(protocols={"range": subscription("returns")})
    scene.wait(2 * INITIAL_MS)
    assert scene.group.subscribed_topics() == frozenset({"orders", "returns"})


# It is loaded


def test_a_loaded_groups_members_go_on_without_a_rebalance() -> None:
    scene = Scene()
    leader, static = scene.stable(1, "rack-1")
    loaded = Scene(image=scene.stored[-1])
    assert loaded.is_in(GroupState.STABLE)
    assert loaded.heartbeat(leader) is GroupError.NONE
    assert loaded.commit(static.member_id, 1, instance_id="rack-1") is GroupError.NONE
    assert loaded.sync(leader).answer.assignment == leader.member_id.encode()
    assert loaded.join(static.member_id, instance_id="rack-1").answer.generation == 1
    assert loaded.group.described() == scene.group.described()


def test_a_loaded_groups_members_have_one_full_session() -> None:
    scene = Scene()
    leader, _ = scene.stable(2)
    loaded = Scene(image=scene.stored[-1])
    loaded.wait(SESSION_MS - 1)
    assert loaded.heartbeat(leader) is GroupError.NONE
    loaded.wait(1)
    assert loaded.is_in(GroupState.PREPARING_REBALANCE)


def test_a_loaded_groups_next_generation_is_a_greater_one() -> None:
    scene = Scene()
    (leader,) = scene.stable(1)
    loaded = Scene(image=scene.stored[-1])
    assert loaded.join(leader.member_id).answer.generation == 2


def test_of_a_loaded_member_the_chosen_protocol_alone_is_known_until_it_joins_again() -> None:
    scene = Scene()
    both = {"sticky": b"s", "range": b"r"}
    (leader,) = scene.stable(1, protocols=both)
    loaded = Scene(image=scene.stored[-1])
    assert loaded.join(protocols={"range": b"r"}).error is GroupError.INCONSISTENT_PROTOCOL
    loaded.assigned(loaded.join(leader.member_id, protocols=both).answer)
    assert loaded.join(protocols={"range": b"r"}).waits


def test_a_generation_that_was_loaded_without_its_assignments_waits_for_its_leader() -> None:
    scene = Scene()
    joinings = [scene.join(), scene.join()]
    scene.wait(2 * INITIAL_MS)
    leader, other = scene.joined(*joinings)
    loaded = Scene(image=scene.stored[-1])
    assert loaded.is_in(GroupState.COMPLETING_REBALANCE)
    waiting = loaded.sync(other)
    loaded.assigned(leader)
    assert waiting.error is GroupError.NONE
    assert loaded.group.generation.number == 1


def test_and_no_longer_than_the_rebalance_timeout() -> None:
    scene = Scene()
    joining = scene.join(session_ms=2 * REBALANCE_MS)
    scene.wait(INITIAL_MS)
    loaded = Scene(image=scene.stored[-1])
    loaded.wait(REBALANCE_MS)
    assert loaded.heartbeat(joining.answer) is GroupError.UNKNOWN_MEMBER


def test_a_stable_group_with_nothing_to_do_is_loaded_as_such() -> None:
    scene = Scene()
    joining = scene.join()
    scene.wait(INITIAL_MS)
    assert scene.sync(joining.answer, {}).answer.assignment == b""
    assert Scene(image=scene.stored[-1]).is_in(GroupState.STABLE)


def test_an_empty_group_is_loaded_with_its_generation_and_its_time() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    scene.wait(1_000)
    scene.leave((member.member_id, None))
    loaded = Scene(image=scene.stored[-1])
    assert loaded.is_in(GroupState.EMPTY)
    assert loaded.group.empty_since_ms == scene.group.empty_since_ms == WALL_MS + scene.now_ms
    joining = loaded.join()
    loaded.wait(INITIAL_MS)
    assert joining.answer.generation == 3


# It ends


def test_a_group_without_members_can_be_deleted() -> None:
    scene = Scene()
    scene.commit()
    assert scene.group.bury() is GroupError.NONE
    assert scene.is_in(GroupState.DEAD)
    assert scene.group.bury() is GroupError.UNKNOWN_GROUP


def test_a_group_with_members_can_not() -> None:
    scene = Scene()
    scene.stable(1)
    assert scene.group.bury() is GroupError.NOT_EMPTY
    assert scene.is_in(GroupState.STABLE)


def test_who_joins_a_group_that_is_being_deleted_makes_it_anew_with_a_greater_generation() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    scene.leave((member.member_id, None))
    scene.group.bury()
    joining = scene.join(protocol_type="connect")
    scene.wait(INITIAL_MS)
    assert joining.answer.generation == 3


def test_a_group_whose_deletion_failed_is_there_again() -> None:
    scene = Scene()
    scene.commit()
    scene.group.bury()
    scene.group.revive()
    assert scene.is_in(GroupState.EMPTY)


def test_an_id_that_was_given_out_is_forgotten_with_the_group() -> None:
    scene = Scene()
    member_id = scene.join(needs_member_id=True).answer.member_id
    assert scene.group.bury() is GroupError.NONE
    assert scene.join(member_id).error is GroupError.UNKNOWN_MEMBER


def test_offsets_are_deleted_of_topics_that_nobody_reads() -> None:
    scene = Scene()
    assert scene.group.may_delete_offset("orders") is GroupError.UNKNOWN_GROUP
    (member,) = scene.stable(1, protocols={"range": subscription("orders")})
    assert scene.group.may_delete_offset("orders") is GroupError.SUBSCRIBED
    assert scene.group.may_delete_offset("former") is GroupError.NONE
    scene.leave((member.member_id, None))
    assert scene.group.may_delete_offset("orders") is GroupError.NONE


def test_offsets_are_not_deleted_where_it_is_unknown_what_is_read() -> None:
    scene = Scene()
    scene.stable(1, protocols={"range": b""})
    assert scene.group.may_delete_offset("orders") is GroupError.SUBSCRIBED
    other = Scene()
    other.stable(1, protocol_type="connect")
    assert other.group.may_delete_offset("orders") is GroupError.NOT_EMPTY


# What an operator sets


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_session_ms": 0},
        {"min_session_ms": 2_000_000},
        {"initial_delay_ms": -1},
        {"max_size": 0},
        {"max_size": 1_000_000},
        {"offset_metadata_length": -1},
        {"offsets_retention_ms": 0},
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(GroupSettingError, match=r"must be"):
        GroupSettings(**wrong)  # type: ignore[arg-type]
