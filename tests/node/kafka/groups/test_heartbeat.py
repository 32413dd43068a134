"""Heartbeat: the coordinator's answer at once, in every version."""

from collections.abc import Iterator

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import MemberName
from tank_protos.generated.kafka import HeartbeatRequest, HeartbeatResponse
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.nodes.bench_node import BenchNode


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchNode]:
    with BenchNode(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GroupError.NONE, 0),
        (GroupError.LOADING, 0),
        (GroupError.NOT_COORDINATOR, 16),
        (GroupError.ILLEGAL_GENERATION, 22),
        (GroupError.UNKNOWN_MEMBER, 25),
        (GroupError.REBALANCING, 27),
        (GroupError.FENCED_INSTANCE, 82),
    ],
)
def test_a_heartbeat_is_answered_at_once(node: BenchNode, version: int, error: GroupError, code: int) -> None:
    groups = ScriptedGroups()
    groups.error = error
    instance_id = "i" if version >= 3 else None
    line = GroupLine(node, groups)
    got = line.ask(HeartbeatRequest("g", 3, "m", instance_id), HeartbeatResponse, version)
    assert got.error_code == code
    assert groups.asked == [(MemberName("g", "m", instance_id), 3)]
