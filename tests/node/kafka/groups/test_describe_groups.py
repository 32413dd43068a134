"""DescribeGroups: states and members as tools show them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import DescribedGroup, DescribedMember
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.kafka.groups import describe_groups
from tank_protos.generated.kafka import DescribeGroupsRequest, DescribeGroupsResponse
from tank_protos.generated.kafka.describe_groups_response import DescribedGroup as KafkasGroup
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.nodes.bench_node import BenchNode

EVERY = range(7)
NOT_ASKED = -(1 << 31)


@pytest.fixture
def groups() -> ScriptedGroups:
    groups = ScriptedGroups()
    member = DescribedMember("m", "i", "test", "/10.0.0.7", b"subscribed", b"assigned")
    groups.groups["g"] = DescribedGroup(
        GroupError.NONE, "g", GroupState.STABLE, "consumer", "range", 3, (member,)
    )
    return groups


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchNode]:
    with BenchNode(tmp_path_factory.mktemp("node")) as node:
        yield node


@pytest.fixture
def line(node: BenchNode, groups: ScriptedGroups) -> GroupLine:
    return GroupLine(node, groups)


def ask(line: GroupLine, version: int, *groups: str, operations: bool = False) -> list[KafkasGroup]:
    request = DescribeGroupsRequest(list(groups), operations)
    return line.ask(request, DescribeGroupsResponse, version).groups


@pytest.mark.parametrize("version", EVERY)
def test_a_group_is_shown_with_its_members(line: GroupLine, version: int) -> None:
    """Tools parse the subscription and the assignment, to show the lag."""
    (group,) = ask(line, version, "g")
    assert (group.error_code, group.error_message, group.group_id) == (0, None, "g")
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.group_instance_id) == ("m", "i" if version >= 4 else None)
    assert (member.client_id, member.client_host) == ("test", "/10.0.0.7")
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (b"subscribed", b"assigned")


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("error", [GroupError.NONE, GroupError.UNKNOWN_GROUP])
def test_a_group_that_is_not_there_is_dead_and_an_error_from_version_6_on(
    line: GroupLine, groups: ScriptedGroups, version: int, error: GroupError
) -> None:
    groups.error = error
    (group,) = ask(line, version, "none")
    assert (group.group_id, group.group_state, group.members) == ("none", "Dead", [])
    assert group.error_code == (69 if version >= 6 else 0)
    assert ("none" in (group.error_message or "")) == (version >= 6)


OF_THE_CONSUMER_PROTOCOL = {GroupState.ASSIGNING, GroupState.RECONCILING}
"""Groups in these states are none to this request: ConsumerGroupDescribe shows them."""


@pytest.mark.parametrize("state", [each for each in GroupState if each not in OF_THE_CONSUMER_PROTOCOL])
def test_states_have_the_names_that_tools_compare(
    line: GroupLine, groups: ScriptedGroups, state: GroupState
) -> None:
    groups.groups["g"] = DescribedGroup(GroupError.NONE, "g", state, "consumer")
    (group,) = ask(line, 5, "g")
    assert group.group_state in {"PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead"}
    assert group.group_state == state.value


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(("error", "code"), [(GroupError.NOT_COORDINATOR, 16), (GroupError.LOADING, 14)])
def test_a_group_of_another_coordinator_is_an_error_without_a_state(
    line: GroupLine, groups: ScriptedGroups, version: int, error: GroupError, code: int
) -> None:
    groups.error = error
    good, bad = ask(line, version, "g", "elsewhere")
    assert (good.error_code, bad.error_code, bad.group_state) == (0, code, "")


@pytest.mark.parametrize("version", range(3, 7))
def test_what_the_client_may_do_is_said_if_it_asks(line: GroupLine, version: int) -> None:
    read, delete, describe = 1 << 3, 1 << 6, 1 << 8
    (group,) = ask(line, version, "g", operations=True)
    assert group.authorized_operations == read | delete | describe
    (group,) = ask(line, version, "g")
    assert group.authorized_operations == NOT_ASKED


def test_a_group_that_is_named_again_and_again_comes_once(line: GroupLine) -> None:
    """A request of 2 MiB could name a large group a hundred thousand times."""
    assert [group.group_id for group in ask(line, 6, "g", "g", "h", "g")] == ["g", "h"]


def test_what_members_say_is_bounded_in_an_answer_about_several_groups(
    line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_groups, "DESCRIBED_MEMBER_BYTES", 10)
    groups.groups["h"] = replace(groups.groups["g"], group_id="h")
    first, second = ask(line, 6, "g", "h")
    assert (first.error_code, len(first.members)) == (0, 1)
    assert (second.error_code, second.members) == (44, [])
    assert "fewer" in (second.error_message or "")
