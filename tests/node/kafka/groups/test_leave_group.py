"""LeaveGroup: one member's own error in old versions, a result for each member in new ones."""

from collections.abc import Iterator

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_protos.generated.kafka import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
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


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("result", "code"), [(GroupError.NONE, 0), (GroupError.UNKNOWN_MEMBER, 25)])
def test_the_result_of_the_only_member_is_the_answers_own(
    line: GroupLine, groups: ScriptedGroups, version: int, result: GroupError, code: int
) -> None:
    groups.left = [result]
    got = line.ask(LeaveGroupRequest("g", "m"), LeaveGroupResponse, version)
    assert (got.error_code, got.members) == (code, [])
    assert groups.asked == [("g", [("m", None)])]


@pytest.mark.parametrize("version", range(3, 6))
def test_each_member_has_a_result(line: GroupLine, groups: ScriptedGroups, version: int) -> None:
    """A member that is named by its instance alone is taken out by an administrator."""
    groups.left = [GroupError.NONE, GroupError.UNKNOWN_MEMBER, GroupError.FENCED_INSTANCE]
    members = [MemberIdentity("m"), MemberIdentity("", "i"), MemberIdentity("n", "j")]
    got = line.ask(LeaveGroupRequest("g", members=members), LeaveGroupResponse, version)
    assert got.error_code == 0
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in got.members] == [
        ("m", None, 0),
        ("", "i", 25),
        ("n", "j", 82),
    ]
    assert groups.asked == [("g", [("m", None), ("", "i"), ("n", "j")])]


@pytest.mark.parametrize("version", range(6))
def test_a_broker_that_is_not_the_coordinator_refuses_the_request_as_a_whole(
    line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    groups.error = GroupError.NOT_COORDINATOR
    if version < 3:
        request = LeaveGroupRequest("g", "m")
    else:
        request = LeaveGroupRequest("g", members=[MemberIdentity("m")])
    got = line.ask(request, LeaveGroupResponse, version)
    assert (got.error_code, got.members) == (16, [])
