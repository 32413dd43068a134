"""When committed offsets go, and the groups that have none left."""

from tank_node.coordinators.machine.group_requests import CommittedOffset, TopicPartition
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.coordinators.offsets.committed_offsets import CommittedOffsets
from tank_node.coordinators.offsets.offset_expiry import expiry_of, may_go
from tank_node.coordinators.records.kept_offset import kept
from tank_protos.generated.kafka.consumer_protocol_subscription import ConsumerProtocolSubscription
from tests.support.groups.scene import WALL_MS, Scene

RETENTION_MS = 7 * 86_400_000


def subscription(*topics: str) -> bytes:
    return b"\x00\x00" + b"".join(ConsumerProtocolSubscription(topics=list(topics)).encode(0))


def committed(*partitions: TopicPartition, commit_ms: int = WALL_MS, expire_ms: int = -1) -> CommittedOffsets:
    offsets = CommittedOffsets()
    for partition in partitions:
        offsets.load(partition, kept(CommittedOffset(7, commit_ms=commit_ms, expire_ms=expire_ms)))
    return offsets


def expired(scene: Scene, offsets: CommittedOffsets, after_ms: int) -> list[TopicPartition]:
    """What goes so long after the scene's beginning."""
    expiry = expiry_of(scene.group, WALL_MS + after_ms, RETENTION_MS)
    return [] if expiry is None else [each for each, offset in offsets.items() if expiry.takes(each, offset)]


def test_a_simple_commit_goes_so_long_after_it() -> None:
    scene = Scene()
    scene.commit()
    offsets = committed(("orders", 0), commit_ms=WALL_MS + 5)
    offsets.load(("orders", 1), kept(CommittedOffset(7, commit_ms=WALL_MS + 6)))
    assert expired(scene, offsets, RETENTION_MS + 4) == []
    assert expired(scene, offsets, RETENTION_MS + 5) == [("orders", 0)]


def test_what_members_committed_goes_so_long_after_the_group_was_left() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    scene.wait(4_000)
    scene.leave((member.member_id, None))
    left_ms = scene.now_ms
    offsets = committed(("orders", 0), ("orders", 1))
    assert expired(scene, offsets, RETENTION_MS + left_ms - 1) == []
    assert expired(scene, offsets, RETENTION_MS + left_ms) == [("orders", 0), ("orders", 1)]


def test_what_was_committed_later_than_that_goes_later() -> None:
    """An operator has set positions of a group that rests."""
    scene = Scene()
    (member,) = scene.stable(1)
    scene.leave((member.member_id, None))
    offsets = committed(("orders", 0), commit_ms=WALL_MS + RETENTION_MS)
    assert expired(scene, offsets, RETENTION_MS + scene.now_ms) == []
    assert expired(scene, offsets, 2 * RETENTION_MS) == [("orders", 0)]


def test_a_stable_group_of_consumers_loses_only_topics_that_nobody_reads() -> None:
    scene = Scene()
    joinings = [
        scene.join(protocols={"range": subscription("orders")}),
        scene.join(protocols={"range": subscription("orders", "returns")}),
    ]
    scene.wait(6_000)
    scene.assigned(*scene.joined(*joinings))
    assert scene.is_in(GroupState.STABLE)
    offsets = committed(("orders", 0), ("returns", 0), ("former", 0))
    assert expired(scene, offsets, RETENTION_MS - 1) == []
    assert expired(scene, offsets, RETENTION_MS) == [("former", 0)]


def test_a_group_whose_consumers_can_not_be_understood_loses_nothing() -> None:
    scene = Scene()
    scene.stable(1, protocols={"range": b"\x00\x00\xff"})
    assert scene.is_in(GroupState.STABLE)
    assert expired(scene, committed(("orders", 0)), 2 * RETENTION_MS) == []


def test_a_group_of_another_type_loses_nothing_while_it_has_members() -> None:
    scene = Scene()
    (member,) = scene.stable(1, protocol_type="connect", protocols={"v0": subscription("orders")})
    offsets = committed(("orders", 0), ("former", 0))
    assert expired(scene, offsets, 2 * RETENTION_MS) == []
    scene.leave((member.member_id, None))
    assert len(expired(scene, offsets, 2 * RETENTION_MS)) == 2


def test_a_group_that_rebalances_loses_nothing() -> None:
    scene = Scene()
    scene.stable(1, protocols={"range": subscription("orders")})
    scene.join(protocols={"range": subscription("orders")})
    assert scene.is_in(GroupState.PREPARING_REBALANCE)
    assert expired(scene, committed(("former", 0)), 2 * RETENTION_MS) == []


def test_a_group_that_was_given_no_assignment_yet_loses_nothing() -> None:
    scene = Scene()
    scene.join(protocols={"range": subscription("orders")})
    scene.wait(3_000)
    assert scene.is_in(GroupState.COMPLETING_REBALANCE)
    assert expired(scene, committed(("former", 0)), 2 * RETENTION_MS) == []


def test_a_commit_that_says_how_long_it_lives_is_taken_at_its_word() -> None:
    scene = Scene()
    scene.commit()
    shorter = committed(("orders", 0), expire_ms=WALL_MS + 1_000)
    assert expired(scene, shorter, 999) == []
    assert expired(scene, shorter, 1_000) == [("orders", 0)]
    longer = committed(("orders", 0), expire_ms=WALL_MS + 3 * RETENTION_MS)
    assert expired(scene, longer, 3 * RETENTION_MS - 1) == []
    assert expired(scene, longer, 3 * RETENTION_MS) == [("orders", 0)]


def test_but_not_while_consumers_read_the_topic() -> None:
    scene = Scene()
    scene.stable(1, protocols={"range": subscription("orders")})
    offsets = committed(("orders", 0), ("former", 0), expire_ms=WALL_MS + 1_000)
    assert expired(scene, offsets, 1_000) == [("former", 0)]


def test_a_group_of_which_it_is_unknown_since_when_it_is_empty_goes_by_its_commits() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    scene.leave((member.member_id, None))
    image = scene.stored[-1]
    image.current_state_timestamp = -1
    loaded = Scene(image=image)
    assert loaded.group.empty_since_ms == -1
    assert expired(loaded, committed(("orders", 0)), RETENTION_MS) == [("orders", 0)]


def test_a_group_without_offsets_and_members_goes() -> None:
    scene = Scene()
    (member,) = scene.stable(1)
    assert not may_go(scene.group, CommittedOffsets())
    scene.leave((member.member_id, None))
    assert may_go(scene.group, CommittedOffsets())
    assert not may_go(scene.group, committed(("orders", 0)))


def test_a_group_that_somebody_joins_or_commits_in_does_not_go() -> None:
    scene = Scene()
    scene.join(needs_member_id=True)
    assert scene.is_in(GroupState.EMPTY)
    assert not may_go(scene.group, CommittedOffsets())
    scene.wait(10_000)
    offsets = CommittedOffsets()
    offsets.begin([("orders", 0)])
    assert not may_go(scene.group, offsets)
    offsets.end({("orders", 0): CommittedOffset(7)}, is_stored=False)
    assert may_go(scene.group, offsets)


def test_a_group_that_waits_for_its_first_members_does_not_go() -> None:
    scene = Scene()
    scene.join()
    assert not may_go(scene.group, CommittedOffsets())
