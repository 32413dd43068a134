"""What a broker holds of groups is bounded, in number and in bytes."""

from dataclasses import replace
from pathlib import Path

from tank_node.coordinators.iggy.consumer_ids import group_consumer, named_consumer
from tank_node.coordinators.machine.committed_offset import CommittedOffset
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_memory import GROUP_BYTES, MEMBER_BYTES, OFFSET_BYTES
from tank_node.coordinators.machine.group_settings import GroupSettings
from tests.support.groups.coordinating import GROUP, Coordinating, coordinating


def ready(at: Coordinating) -> Coordinating:
    """The internal topic is there, and its groups are read."""
    at.found()
    at.load()
    return at


def test_what_clients_ask_for_has_bounds(tmp_path: Path) -> None:
    settings = GroupSettings(topic_partitions=1, offset_metadata_length=4)
    limits = replace(settings.limits, groups=1, offsets=2)
    with coordinating(tmp_path, settings=replace(settings, limits=limits)) as at:
        ready(at)
        assert at.commit(metadata="12345") == [GroupError.METADATA_TOO_LARGE]
        assert at.commit(places=[("orders", 99), ("none", 0)]) == [GroupError.UNKNOWN_TOPIC] * 2
        assert at.commit(1, places=[("orders", 0), ("orders", 1)]) == [GroupError.NONE] * 2
        assert at.commit(2, "other") == [GroupError.NOT_AVAILABLE]
        assert [each.error for each in at.join(group_id="other")] == [GroupError.NOT_AVAILABLE]
        assert at.commit(2, places=[("orders", 2)]) == [GroupError.NOT_AVAILABLE]
        assert at.commit(3, places=[("orders", 1)]) == [GroupError.NONE], "it has a place already"
        assert at.commit(3, metadata="\u00e9" * 4) == [GroupError.NONE], "characters count"


def test_what_groups_take_is_bounded_in_bytes(tmp_path: Path) -> None:
    settings = GroupSettings(topic_partitions=1, initial_delay_ms=0)
    limits = replace(settings.limits, held_bytes=2 * (GROUP_BYTES + OFFSET_BYTES) + 1_000)
    with coordinating(tmp_path, settings=replace(settings, limits=limits)) as at:
        ready(at)
        assert at.commit(1, metadata="x" * 900) == [GroupError.NONE]
        assert at.commit(2, "other") == [GroupError.NONE]
        assert at.commit(3, metadata="x" * 1_100) == [GroupError.NOT_AVAILABLE]
        assert at.commit(3, places=[("orders", 1)]) == [GroupError.NOT_AVAILABLE]
        assert [each.error for each in at.join()] == [GroupError.NOT_AVAILABLE]
        assert at.commit(4, metadata="x" * 800) == [GroupError.NONE], "it takes less than before"
        assert at.commit(5, metadata="") == [GroupError.NONE]
        assert at.commit(6, "other", metadata="x" * 900) == [GroupError.NONE], "there is room again"
        assert at.node.metrics.refused["groups_full"] == 3


def test_assignments_count_as_what_members_say_does(tmp_path: Path) -> None:
    settings = GroupSettings(topic_partitions=1, initial_delay_ms=0)
    limits = replace(settings.limits, held_bytes=GROUP_BYTES + MEMBER_BYTES + 1_000)
    with coordinating(tmp_path, settings=replace(settings, limits=limits)) as at:
        joined = ready(at).join()
        at.node.pass_ms(1)
        at.settle()
        member = joined[0].member_id
        synced = at.sync(member, 1, {member: b"x" * 1_001})
        assert [each.error for each in synced] == [GroupError.NOT_AVAILABLE]
        synced = at.sync(member, 1, {member: b"x" * 900})
        at.settle()
        assert [each.error for each in synced] == [GroupError.NONE]


def test_what_is_gone_takes_nothing(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        memory = at.groups.room.memory
        member = ready(at).stable_member()
        at.commit(7, member_id=member, generation=1, metadata="note")
        at.commit(7, "simple")
        assert (memory.groups, memory.offsets) == (2, 2)
        assert memory.held_bytes > 2 * (GROUP_BYTES + OFFSET_BYTES) + MEMBER_BYTES
        at.groups.leave(GROUP, [(member, None)], lambda *_: None)
        at.settle()
        at.groups.delete([GROUP, "simple"], lambda _: None)
        at.settle()
        at.node.pass_ms(20_000)  # the last time of its members is over
        at.settle()
        assert (memory.groups, memory.offsets, memory.held_bytes) == (0, 0, 0)
        at.commit(7)
        at.lead(2, 2)
        assert (memory.groups, memory.offsets, memory.held_bytes) == (0, 0, 0)


def test_no_group_has_a_name_that_its_records_can_not_hold(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        for longest, longer in (("g" * 32_767, "g" * 32_768), ("\u00e9" * 16_383, "\u00e9" * 16_384)):
            assert at.commit(7, longest) == [GroupError.NONE]
            assert at.commit(7, longer) == [GroupError.INVALID_GROUP_ID]
            assert [each.error for each in at.join(group_id=longer)] == [GroupError.INVALID_GROUP_ID]
            assert at.groups.describe(longer).error is GroupError.INVALID_GROUP_ID
            assert at.found(longer) == [(GroupError.INVALID_GROUP_ID, -1)]


def test_iggys_consumers_leave_room_for_the_groups_of_others(tmp_path: Path) -> None:
    """Their positions have no expiry, and any name is one of a consumer."""
    settings = GroupSettings(topic_partitions=1)
    limits = replace(settings.limits, iggy_consumers=2, iggy_positions=3)
    with coordinating(tmp_path, settings=replace(settings, limits=limits)) as at:
        ready(at)
        (led,) = at.groups.led()
        room = at.groups.room
        for name, number in (("a", 0), ("b", 0)):
            assert room.for_position(led, named_consumer(name))
            led.store_offsets(named_consumer(name), {("orders", number): CommittedOffset(1)}, lambda _: None)
            at.settle()
        assert not room.for_position(led, named_consumer("c")), "it would be a third consumer"
        assert room.for_position(led, named_consumer("a"))
        led.store_offsets(named_consumer("a"), {("orders", 1): CommittedOffset(1)}, lambda _: None)
        at.settle()
        assert not room.for_position(led, named_consumer("a")), "it would be a fourth position"
        assert room.for_position(led, group_consumer(7)), "a group of Iggy's goes with its topic"
        assert at.commit(1, places=[("orders", 0), ("orders", 1)]) == [GroupError.NONE] * 2
        assert room.memory.offsets == 5
        led.drop_offsets(named_consumer("b"), [("orders", 0)], lambda _: None)
        at.settle()
        assert room.for_position(led, named_consumer("c")), "there is room again"
