"""DeleteGroups: a result for each group."""

from pathlib import Path

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_protos.generated.kafka import DeleteGroupsRequest, DeleteGroupsResponse
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.nodes.bench_node import BenchNode


@pytest.mark.parametrize("version", range(3))
def test_each_group_has_its_own_result(tmp_path: Path, version: int) -> None:
    groups = ScriptedGroups()
    groups.results = {
        "lives": GroupError.NOT_EMPTY,
        "none": GroupError.UNKNOWN_GROUP,
        "elsewhere": GroupError.NOT_COORDINATOR,
    }
    with BenchNode(tmp_path / "data") as node:
        line = GroupLine(node, groups)
        request = DeleteGroupsRequest(["g", "lives", "none", "g", "elsewhere"])
        got = line.ask(request, DeleteGroupsResponse, version)
        assert line.ask(DeleteGroupsRequest(), DeleteGroupsResponse, version).results == []
    assert [(each.group_id, each.error_code) for each in got.results] == [
        ("g", 0),
        ("lives", 68),
        ("none", 69),
        ("elsewhere", 16),
    ]
    assert groups.asked[0] == ["g", "lives", "none", "elsewhere"]
