"""JoinGroup: what the coordinator gets of a member, and what the member hears, in every version."""

from collections.abc import Iterator

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import JoinAnswer, JoinedMember, JoinRequest, MemberName
from tank_protos.generated.kafka import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupRequestProtocolCollection,
    JoinGroupResponse,
)
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.nodes.bench_node import BenchNode

EVERY = range(10)
REFUSED = JoinAnswer(GroupError.UNKNOWN_MEMBER)


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


def request(version: int, member_id: str = "", instance_id: str | None = None) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"r"), JoinGroupRequestProtocol("sticky", b"\0s")]
    return JoinGroupRequest(
        "g",
        10_000,
        60_000 if version else -1,
        member_id,
        instance_id,
        "consumer",
        JoinGroupRequestProtocolCollection(protocols),
    )


def joined(line: GroupLine, groups: ScriptedGroups, version: int, **said: str | None) -> JoinRequest:
    """What the coordinator gets."""
    line.send(request(version, **said), version)  # type: ignore[arg-type]
    groups.joining[-1][1](REFUSED)
    line.frames()
    return groups.joining[-1][0]


def answered(line: GroupLine, groups: ScriptedGroups, version: int, answer: JoinAnswer) -> JoinGroupResponse:
    """What the client gets."""
    line.send(request(version, "m"), version)
    groups.joining[-1][1](answer)
    (frame,) = line.frames()
    return line.read(frame, JoinGroupResponse, version)[1]


@pytest.mark.parametrize("version", EVERY)
def test_the_coordinator_gets_all_that_the_member_says(
    line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    asked = joined(line, groups, version, member_id="m")
    assert asked.member == MemberName("g", "m")
    assert (asked.client_id, asked.client_host) == ("test", "/10.0.0.7")
    assert asked.session_ms == 10_000
    assert asked.protocol_type == "consumer"
    assert asked.protocols == (("range", b"r"), ("sticky", b"\0s"))
    assert all(type(metadata) is bytes for _, metadata in asked.protocols), (
        "the request's buffer is used again"
    )


@pytest.mark.parametrize(("version", "rebalance_ms"), [(0, 10_000), (1, 60_000), (9, 60_000)])
def test_version_0_waits_for_members_as_long_as_a_session(
    line: GroupLine, groups: ScriptedGroups, version: int, rebalance_ms: int
) -> None:
    assert joined(line, groups, version).rebalance_ms == rebalance_ms


@pytest.mark.parametrize("version", EVERY)
def test_a_new_member_gets_its_id_first_from_version_4_on_unless_it_is_static(
    line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    assert joined(line, groups, version).needs_member_id == (version >= 4)
    if version >= 5:
        static = joined(line, groups, version, instance_id="i")
        assert not static.needs_member_id
        assert static.member == MemberName("g", "", "i")


@pytest.mark.parametrize("version", EVERY)
def test_a_leader_may_be_told_to_assign_nothing_from_version_9_on(
    line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    assert joined(line, groups, version).may_skip_assignment == (version >= 9)


@pytest.mark.parametrize("version", EVERY)
def test_a_leader_hears_of_all_members(line: GroupLine, groups: ScriptedGroups, version: int) -> None:
    members = (JoinedMember("m", "i", b"one"), JoinedMember("n", None, b"two"))
    answer = JoinAnswer(GroupError.NONE, "m", 3, "consumer", "range", "m", members)
    got = answered(line, groups, version, answer)
    assert (got.error_code, got.member_id, got.generation_id, got.protocol_name, got.leader) == (
        0,
        "m",
        3,
        "range",
        "m",
    )
    assert got.protocol_type == ("consumer" if version >= 7 else None)
    assert not got.skip_assignment
    instance_id = "i" if version >= 5 else None
    assert [(each.member_id, each.group_instance_id, bytes(each.metadata)) for each in got.members] == [
        ("m", instance_id, b"one"),
        ("n", None, b"two"),
    ]


@pytest.mark.parametrize("version", EVERY)
def test_a_follower_hears_of_no_members(line: GroupLine, groups: ScriptedGroups, version: int) -> None:
    got = answered(line, groups, version, JoinAnswer(GroupError.NONE, "m", 3, "consumer", "range", "n"))
    assert (got.error_code, got.leader, got.members) == (0, "n", [])


def test_a_leader_that_came_back_hears_that_nothing_is_to_be_assigned(
    line: GroupLine, groups: ScriptedGroups
) -> None:
    answer = JoinAnswer(GroupError.NONE, "m", 3, "consumer", "range", "m", skip_assignment=True)
    assert answered(line, groups, 9, answer).skip_assignment


@pytest.mark.parametrize("version", range(4, 10))
def test_an_id_for_a_new_member_comes_with_no_generation(
    line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    got = answered(line, groups, version, JoinAnswer(GroupError.MEMBER_ID_REQUIRED, "test-1"))
    assert (got.error_code, got.member_id, got.generation_id, got.leader) == (79, "test-1", -1, "")
    assert got.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GroupError.NOT_AVAILABLE, 15),
        (GroupError.NOT_COORDINATOR, 16),
        (GroupError.LOADING, 14),
        (GroupError.INVALID_GROUP_ID, 24),
        (GroupError.UNKNOWN_MEMBER, 25),
        (GroupError.INCONSISTENT_PROTOCOL, 23),
        (GroupError.INVALID_SESSION_TIMEOUT, 26),
        (GroupError.FENCED_INSTANCE, 82),
        (GroupError.GROUP_FULL, 81),
    ],
)
def test_a_refusal_has_no_generation(
    line: GroupLine, groups: ScriptedGroups, version: int, error: GroupError, code: int
) -> None:
    got = answered(line, groups, version, JoinAnswer(error, "m"))
    assert (got.error_code, got.generation_id, got.members) == (code, -1, [])


def test_what_a_client_sends_while_it_joins_is_taken_when_it_has_joined(
    line: GroupLine, groups: ScriptedGroups
) -> None:
    line.send(request(9, "m"), 9)
    line.send(HeartbeatRequest("g", 2, "m"), 4)
    assert groups.asked == []
    groups.joining[0][1](JoinAnswer(GroupError.NONE, "m", 3, "consumer", "range", "m"))
    line.feed(b"")
    assert groups.asked == [(MemberName("g", "m"), 2)]
    assert line.correlation_ids() == [1, 2]


def test_a_member_whose_connection_ends_while_it_joins_is_not_answered(
    line: GroupLine, groups: ScriptedGroups
) -> None:
    line.send(request(9), 9)
    line.session.close()
    groups.joining[0][1](JoinAnswer(GroupError.NONE, "m", 3, "consumer", "range", "m"))
    assert line.frames() == []


def test_an_ipv4_address_is_written_as_such_on_a_socket_for_both_kinds(
    line: GroupLine, groups: ScriptedGroups
) -> None:
    line.session.came_from = lambda: "::ffff:10.0.0.9"
    assert joined(line, groups, 9).client_host == "/10.0.0.9"
