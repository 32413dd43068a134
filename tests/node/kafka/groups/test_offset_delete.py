"""OffsetDelete: a result for each partition, or one error for all."""

from collections.abc import Iterator

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_protos.generated.kafka import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteRequestTopicCollection,
    OffsetDeleteResponse,
)
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.nodes.bench_node import BenchNode


@pytest.fixture
def groups() -> ScriptedGroups:
    return ScriptedGroups()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchNode]:
    with BenchNode(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest.fixture
def line(node: BenchNode, groups: ScriptedGroups) -> GroupLine:
    return GroupLine(node, groups)


def ask(line: GroupLine, *topics: tuple[str, list[int]]) -> tuple[int, dict[tuple[str, int], int]]:
    request = OffsetDeleteRequest(
        "g",
        OffsetDeleteRequestTopicCollection(
            OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(number) for number in numbers])
            for name, numbers in topics
        ),
    )
    answer = line.ask(request, OffsetDeleteResponse, 0)
    return answer.error_code, {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


def test_each_partition_has_its_own_result(line: GroupLine, groups: ScriptedGroups) -> None:
    groups.results = {("a", 1): GroupError.UNKNOWN_TOPIC, ("b", 0): GroupError.SUBSCRIBED}
    assert ask(line, ("a", [0, 1]), ("b", [0])) == (0, {("a", 0): 0, ("a", 1): 3, ("b", 0): 86})
    assert groups.asked == [("g", [("a", 0), ("a", 1), ("b", 0)])]


def test_a_partition_that_is_named_twice_comes_once(line: GroupLine, groups: ScriptedGroups) -> None:
    assert ask(line, ("a", [0, 0]), ("a", [1])) == (0, {("a", 0): 0, ("a", 1): 0})
    assert groups.asked == [("g", [("a", 0), ("a", 1)])]


@pytest.mark.parametrize(
    ("error", "code"),
    [(GroupError.UNKNOWN_GROUP, 69), (GroupError.NOT_EMPTY, 68), (GroupError.NOT_COORDINATOR, 16)],
)
def test_a_group_that_can_not_be_changed_is_one_error(
    line: GroupLine, groups: ScriptedGroups, error: GroupError, code: int
) -> None:
    groups.error = error
    assert ask(line, ("a", [0])) == (code, {})
