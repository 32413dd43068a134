"""ListGroups: the groups of one broker, and filters by state and type."""

from collections.abc import Iterator

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import DescribedGroup
from tank_node.coordinators.machine.group_state import GroupState
from tank_protos.generated.kafka import ListGroupsRequest, ListGroupsResponse
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.nodes.bench_node import BenchNode

EVERY = range(6)


@pytest.fixture
def groups() -> ScriptedGroups:
    groups = ScriptedGroups()
    for name, state, kind in (("a", GroupState.STABLE, "consumer"), ("b", GroupState.EMPTY, "")):
        groups.groups[name] = DescribedGroup(GroupError.NONE, name, state, kind)
    return groups


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchNode]:
    with BenchNode(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest.fixture
def line(node: BenchNode, groups: ScriptedGroups) -> GroupLine:
    return GroupLine(node, groups)


def names(line: GroupLine, version: int, states: list[str], types: list[str] | None = None) -> list[str]:
    answer = line.ask(ListGroupsRequest(states, types or []), ListGroupsResponse, version)
    assert answer.error_code == 0
    return [each.group_id for each in answer.groups]


@pytest.mark.parametrize("version", EVERY)
def test_all_groups_are_listed(line: GroupLine, version: int) -> None:
    answer = line.ask(ListGroupsRequest(), ListGroupsResponse, version)
    states = ["Stable", "Empty"] if version >= 4 else ["", ""]
    types = ["classic", "classic"] if version >= 5 else ["", ""]
    assert [
        (each.group_id, each.protocol_type, each.group_state, each.group_type) for each in answer.groups
    ] == [("a", "consumer", states[0], types[0]), ("b", "", states[1], types[1])]


@pytest.mark.parametrize("version", [4, 5])
def test_states_are_compared_without_regard_to_case(line: GroupLine, version: int) -> None:
    assert names(line, version, ["stable"]) == ["a"]
    assert names(line, version, ["EMPTY", "Dead"]) == ["b"]
    assert names(line, version, ["Stable", "empty"]) == ["a", "b"]
    assert names(line, version, ["no state"]) == []


def test_types_are_compared_without_regard_to_case(line: GroupLine) -> None:
    assert names(line, 5, [], ["Classic"]) == ["a", "b"]
    assert names(line, 5, [], ["consumer"]) == []
    assert names(line, 5, ["Empty"], ["classic", "consumer"]) == ["b"]


@pytest.mark.parametrize("version", EVERY)
def test_a_coordinator_that_still_reads_its_groups_says_so(
    line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    groups.error = GroupError.LOADING
    assert line.ask(ListGroupsRequest(), ListGroupsResponse, version).error_code == 14


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("count", [1_000, 1_001, 2_500])
def test_many_groups_are_written_in_portions(
    line: GroupLine, groups: ScriptedGroups, node: BenchNode, version: int, count: int
) -> None:
    groups.groups = {
        f"group-{number}": DescribedGroup(GroupError.NONE, f"group-{number}", GroupState.STABLE, "consumer")
        for number in range(count)
    }
    line.send(ListGroupsRequest(), version)
    frames = line.frames()
    assert len(frames) == (count <= 1_000)
    while not frames:
        node.pass_ms(1)
        frames = line.frames()
    _, answer = line.read(frames[0], ListGroupsResponse, version)
    assert [each.group_id for each in answer.groups] == list(groups.groups)
    assert {each.protocol_type for each in answer.groups} == {"consumer"}
