"""SyncGroup: assignments go to the coordinator, and the member's own comes back, in every version."""

from collections.abc import Iterator

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import MemberName, SyncAnswer
from tank_protos.generated.kafka import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.nodes.bench_node import BenchNode

EVERY = range(6)


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


def request(version: int) -> SyncGroupRequest:
    return SyncGroupRequest(
        "g",
        3,
        "m",
        "i" if version >= 3 else None,
        "consumer" if version >= 5 else None,
        "range" if version >= 5 else None,
        [SyncGroupRequestAssignment("m", b"one"), SyncGroupRequestAssignment("n", b"")],
    )


def answer(line: GroupLine, version: int) -> SyncGroupResponse:
    (frame,) = line.frames()
    return line.read(frame, SyncGroupResponse, version)[1]


@pytest.mark.parametrize("version", EVERY)
def test_the_coordinator_gets_the_leaders_assignments(
    line: GroupLine, groups: ScriptedGroups, version: int
) -> None:
    line.send(request(version), version)
    ((asked, _),) = groups.syncing
    assert asked.member == MemberName("g", "m", "i" if version >= 3 else None)
    assert (asked.generation, asked.assignments) == (3, {"m": b"one", "n": b""})
    assert {type(each) for each in asked.assignments.values()} == {bytes}
    said = ("consumer", "range") if version >= 5 else (None, None)
    assert (asked.protocol_type, asked.protocol) == said


@pytest.mark.parametrize("version", EVERY)
def test_a_member_waits_for_its_assignment(line: GroupLine, groups: ScriptedGroups, version: int) -> None:
    line.send(request(version), version)
    assert line.frames() == []
    groups.syncing[0][1](SyncAnswer(GroupError.NONE, b"one", "consumer", "range"))
    got = answer(line, version)
    assert (got.error_code, bytes(got.assignment)) == (0, b"one")
    told = ("consumer", "range") if version >= 5 else (None, None)
    assert (got.protocol_type, got.protocol_name) == told


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GroupError.REBALANCING, 27),
        (GroupError.ILLEGAL_GENERATION, 22),
        (GroupError.UNKNOWN_MEMBER, 25),
        (GroupError.TOO_LARGE, 28),
    ],
)
def test_a_refusal_has_an_empty_assignment(
    line: GroupLine, groups: ScriptedGroups, version: int, error: GroupError, code: int
) -> None:
    line.send(request(version), version)
    groups.syncing[0][1](SyncAnswer(error))
    got = answer(line, version)
    assert (got.error_code, bytes(got.assignment)) == (code, b"")


@pytest.mark.parametrize(("protocol_type", "protocol"), [(None, "range"), ("consumer", None), (None, None)])
def test_from_version_5_on_a_member_says_its_protocol(
    line: GroupLine, groups: ScriptedGroups, protocol_type: str | None, protocol: str | None
) -> None:
    line.send(SyncGroupRequest("g", 3, "m", None, protocol_type, protocol), 5)
    assert answer(line, 5).error_code == 23
    assert groups.syncing == []
