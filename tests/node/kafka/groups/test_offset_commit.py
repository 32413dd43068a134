"""OffsetCommit: a result for each partition, and what older and newer versions say beside the offset."""

from collections.abc import Iterator

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import CommitRequest, CommittedOffset, MemberName
from tank_protos.feature_levels import GROUPS
from tank_protos.generated.kafka import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.nodes.bench_node import BenchNode

EVERY = range(10)


@pytest.fixture
def groups() -> ScriptedGroups:
    return ScriptedGroups()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchNode]:
    with BenchNode(tmp_path_factory.mktemp("node")) as node:
        node.controller.view.feature_level = GROUPS  # from the next level on, version 0 is asked elsewhere
        node.controller.add("a", partitions=2)
        yield node


@pytest.fixture
def line(node: BenchNode, groups: ScriptedGroups) -> GroupLine:
    return GroupLine(node, groups)


def partition(number: int, offset: int = 5, **said: object) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(number, offset, **said)  # type: ignore[arg-type]


def request(
    *partitions: OffsetCommitRequestPartition, topic: str = "a", **said: object
) -> OffsetCommitRequest:
    topics = [OffsetCommitRequestTopic(topic, list(partitions))]
    return OffsetCommitRequest("g", topics=topics, **said)  # type: ignore[arg-type]


def asked(line: GroupLine, groups: ScriptedGroups, version: int, said: OffsetCommitRequest) -> CommitRequest:
    """What the coordinator gets."""
    line.send(said, version)
    commit, done = groups.committing.pop()
    done(dict.fromkeys(commit.offsets, GroupError.NONE))
    line.frames()
    return commit


def errors(line: GroupLine, version: int) -> dict[tuple[str, int], int]:
    """The answer's results."""
    (frame,) = line.frames()
    _, answer = line.read(frame, OffsetCommitResponse, version)
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", EVERY)
def test_the_answer_waits_until_the_offsets_are_stored(
    line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    line.send(request(partition(0), partition(1, 7)), version)
    assert line.frames() == []
    commit, done = groups.committing[0]
    assert {place: each.offset for place, each in commit.offsets.items()} == {("a", 0): 5, ("a", 1): 7}
    done({("a", 0): GroupError.NONE, ("a", 1): GroupError.METADATA_TOO_LARGE})
    assert errors(line, version) == {("a", 0): 0, ("a", 1): 12}


def test_version_0_comes_from_no_member(line: GroupLine, groups: ScriptedGroups) -> None:
    commit = asked(line, groups, 0, request(partition(0)))
    assert (commit.member, commit.generation) == (MemberName("g", ""), -1)


@pytest.mark.parametrize("version", range(1, 10))
def test_a_member_says_its_generation(line: GroupLine, groups: ScriptedGroups, version: int) -> None:
    instance_id = "i" if version >= 7 else None
    said = request(
        partition(0), generation_id_or_member_epoch=3, member_id="m", group_instance_id=instance_id
    )
    commit = asked(line, groups, version, said)
    assert (commit.member, commit.generation) == (MemberName("g", "m", instance_id), 3)


@pytest.mark.parametrize("version", EVERY)
def test_an_offset_is_kept_with_its_epoch_its_note_and_its_time(
    node: BenchNode, line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    """A null note is an empty one."""
    epoch = 4 if version >= 6 else -1
    said = request(
        partition(0, committed_leader_epoch=epoch, committed_metadata="note"),
        partition(1, committed_metadata=None),
    )
    commit = asked(line, groups, version, said)
    now_ms = node.clock.now_ms()
    assert commit.offsets == {
        ("a", 0): CommittedOffset(5, epoch, "note", now_ms, -1),
        ("a", 1): CommittedOffset(5, -1, "", now_ms, -1),
    }


def test_in_version_1_the_client_may_say_when_it_committed(
    node: BenchNode, line: GroupLine, groups: ScriptedGroups
) -> None:
    said = request(partition(0, commit_timestamp=77), partition(1, commit_timestamp=-1))
    commit = asked(line, groups, 1, said)
    times = [each.commit_ms for each in commit.offsets.values()]
    assert times == [77, node.clock.now_ms()]


@pytest.mark.parametrize("version", range(2, 5))
def test_in_versions_2_to_4_the_client_may_say_how_long_offsets_are_kept(
    node: BenchNode, line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    commit = asked(line, groups, version, request(partition(0), retention_time_ms=1000))
    assert commit.offsets["a", 0].expire_ms == node.clock.now_ms() + 1000
    commit = asked(line, groups, version, request(partition(0), retention_time_ms=-1))
    assert commit.offsets["a", 0].expire_ms == -1


@pytest.mark.parametrize("version", EVERY)
def test_a_group_that_is_not_there_is_an_error_of_its_own_from_version_9_on(
    line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    wanted = GroupError.UNKNOWN_GROUP if version >= 9 else GroupError.ILLEGAL_GENERATION
    assert asked(line, groups, version, request(partition(0))).unknown_group is wanted


@pytest.mark.parametrize("version", EVERY)
def test_partitions_that_do_not_exist_fail_alone(
    line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    said = request(partition(0), partition(-1))
    said.topics.append(OffsetCommitRequestTopic("none", [partition(0)]))
    line.send(said, version)
    commit, done = groups.committing[0]
    assert list(commit.offsets) == [("a", 0), ("a", -1), ("none", 0)]
    done(
        {
            ("a", 0): GroupError.NONE,
            ("a", -1): GroupError.UNKNOWN_TOPIC,
            ("none", 0): GroupError.UNKNOWN_TOPIC,
        }
    )
    assert errors(line, version) == {("a", 0): 0, ("a", -1): 3, ("none", 0): 3}


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GroupError.NOT_AVAILABLE, 15),
        (GroupError.NOT_COORDINATOR, 16),
        (GroupError.LOADING, 14),
        (GroupError.ILLEGAL_GENERATION, 22),
        (GroupError.UNKNOWN_MEMBER, 25),
        (GroupError.REBALANCING, 27),
        (GroupError.TOO_LARGE, 28),
        (GroupError.FENCED_INSTANCE, 82),
    ],
)
def test_a_refusal_stands_at_each_partition(
    line: GroupLine, groups: ScriptedGroups, version: int, error: GroupError, code: int
) -> None:
    line.send(request(partition(0), partition(1)), version)
    groups.committing[0][1](dict.fromkeys([("a", 0), ("a", 1)], error))
    assert errors(line, version) == {("a", 0): code, ("a", 1): code}


def test_a_negative_offset_is_one_too(line: GroupLine, groups: ScriptedGroups) -> None:
    """kafkajs resets a group to the beginning with -2, and to the end with -1."""
    commit = asked(line, groups, 5, request(partition(0, -2), partition(1, -1)))
    assert [each.offset for each in commit.offsets.values()] == [-2, -1]


def test_of_a_partition_that_is_named_twice_the_last_offset_counts(
    line: GroupLine, groups: ScriptedGroups
) -> None:
    line.send(request(partition(0, 5), partition(0, 6)), 9)
    commit, done = groups.committing[0]
    assert [each.offset for each in commit.offsets.values()] == [6]
    done({("a", 0): GroupError.NONE})
    assert errors(line, 9) == {("a", 0): 0}
