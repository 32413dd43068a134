"""FindCoordinator: where a group's members go, in every version."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_protos.generated.kafka import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import BrokerCell

EVERY = range(7)
GROUP, TRANSACTION = 0, 1
Found = tuple[int, int, str, int]
"""Error, broker id, host, port."""


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path_factory.mktemp("cell"), brokers=2)
    yield cell
    cell.close()


@pytest.fixture
def groups() -> ScriptedGroups:
    return ScriptedGroups()


def request(version: int, *keys: str, key_type: int = GROUP) -> FindCoordinatorRequest:
    if version >= 4:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    (key,) = keys
    return FindCoordinatorRequest(key, key_type)


def found(line: GroupLine, version: int) -> dict[str, Found]:
    """What the only answer says of each key; before version 4 the key is empty."""
    (frame,) = line.frames()
    _, answer = line.read(frame, FindCoordinatorResponse, version)
    if version >= 4:
        return {
            each.key: (each.error_code, each.node_id, each.host, each.port) for each in answer.coordinators
        }
    return {"": (answer.error_code, answer.node_id, answer.host, answer.port)}


@pytest.mark.parametrize("version", EVERY)
def test_the_coordinator_is_named_with_its_address_for_kafkas_clients(
    cell: BrokerCell, groups: ScriptedGroups, version: int
) -> None:
    line = GroupLine(cell.nodes[1], groups)
    line.send(request(version, "g"), version)
    ((group_id, done),) = groups.finding
    assert group_id == "g"
    assert line.frames() == [], "the answer waits for the coordinators' topic"
    done(GroupError.NONE, 2)
    assert found(line, version) == {"g" if version >= 4 else "": (0, 2, "127.0.0.1", 9002)}


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("error", "code"), [(GroupError.NOT_AVAILABLE, 15), (GroupError.INVALID_GROUP_ID, 24)]
)
def test_an_answer_without_a_coordinator_has_no_address(
    cell: BrokerCell, groups: ScriptedGroups, version: int, error: GroupError, code: int
) -> None:
    """Clients read the address before the error."""
    line = GroupLine(cell.nodes[1], groups)
    line.send(request(version, "g"), version)
    groups.finding[0][1](error, 0)
    assert list(found(line, version).values()) == [(code, -1, "", -1)]


@pytest.mark.parametrize("version", [0, 6])
def test_a_coordinator_that_clients_cannot_reach_is_none(
    cell: BrokerCell, groups: ScriptedGroups, version: int
) -> None:
    line = GroupLine(cell.nodes[1], groups)
    line.send(request(version, "g"), version)
    groups.finding[0][1](GroupError.NONE, 7)
    assert list(found(line, version).values()) == [(15, -1, "", -1)]


@pytest.mark.parametrize("version", range(4, 7))
def test_several_groups_are_answered_together_each_once(
    cell: BrokerCell, groups: ScriptedGroups, version: int
) -> None:
    line = GroupLine(cell.nodes[1], groups)
    line.send(request(version, "a", "b", "a"), version)
    assert [key for key, _ in groups.finding] == ["a", "b"]
    groups.finding[1][1](GroupError.NONE, 1)
    assert line.frames() == []
    groups.finding[0][1](GroupError.NOT_AVAILABLE, 0)
    assert found(line, version) == {"a": (15, -1, "", -1), "b": (0, 1, "127.0.0.1", 9001)}


@pytest.mark.parametrize("version", range(4, 7))
def test_no_groups_have_no_coordinators(cell: BrokerCell, groups: ScriptedGroups, version: int) -> None:
    line = GroupLine(cell.nodes[1], groups)
    line.send(request(version), version)
    assert found(line, version) == {}


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize(("key_type", "code"), [(TRANSACTION, 35), (2, 42), (-1, 42)])
def test_there_are_coordinators_of_groups_alone(
    cell: BrokerCell, groups: ScriptedGroups, version: int, key_type: int, code: int
) -> None:
    line = GroupLine(cell.nodes[1], groups)
    line.send(request(version, "t", key_type=key_type), version)
    assert list(found(line, version).values()) == [(code, -1, "", -1)]
    assert groups.finding == []


def test_an_answer_for_a_connection_that_has_ended_goes_nowhere(
    tmp_path: Path, groups: ScriptedGroups
) -> None:
    with BenchNode(tmp_path / "data") as node:
        line = GroupLine(node, groups)
        line.send(request(6, "g"), 6)
        line.session.close()
        groups.finding[0][1](GroupError.NONE, 1)
        assert line.frames() == []
