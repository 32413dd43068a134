"""OffsetFetch: nothing committed is no error but in version 0, and each version has its place for errors."""

from collections.abc import Iterator

import pytest

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import CommittedOffset
from tank_node.kafka.groups import offset_fetch
from tank_protos.feature_levels import GROUPS
from tank_protos.generated.kafka import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.nodes.bench_node import BenchNode

EVERY = range(10)
Offsets = dict[tuple[str, int], tuple[int, int, str | None, int]]
"""By topic and partition: offset, leader epoch, note, error."""
NONE = (-1, -1, "", 0)


@pytest.fixture
def groups() -> ScriptedGroups:
    groups = ScriptedGroups()
    groups.offsets["g"] = {
        ("b", 0): CommittedOffset(9),
        ("a", 1): CommittedOffset(7, 3, "note", 77, 88),
        ("a", 0): CommittedOffset(5),
    }
    return groups


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchNode]:
    with BenchNode(tmp_path_factory.mktemp("node")) as node:
        node.controller.view.feature_level = GROUPS  # from the next level on, version 0 is asked elsewhere
        yield node


@pytest.fixture
def line(node: BenchNode, groups: ScriptedGroups) -> GroupLine:
    return GroupLine(node, groups)


def request(version: int, topics: dict[str, list[int]] | None, group_id: str = "g") -> OffsetFetchRequest:
    """topics: None asks for all."""
    if version >= 8:
        named = None if topics is None else [OffsetFetchRequestTopics(*each) for each in topics.items()]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, topics=named)])
    older = None if topics is None else [OffsetFetchRequestTopic(*each) for each in topics.items()]
    return OffsetFetchRequest(group_id, older)


def ask(line: GroupLine, version: int, asked: OffsetFetchRequest) -> tuple[int, Offsets]:
    """The error of the request, or of its only group, and the offsets."""
    answer = line.ask(asked, OffsetFetchResponse, version)
    found: Offsets = {}
    if version >= 8:
        (group,) = answer.groups
        for newer in group.topics:
            for each in newer.partitions:
                found[newer.name, each.partition_index] = (
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.metadata,
                    each.error_code,
                )
        return group.error_code, found
    for topic in answer.topics:
        for one in topic.partitions:
            found[topic.name, one.partition_index] = (
                one.committed_offset,
                one.committed_leader_epoch,
                one.metadata,
                one.error_code,
            )
    return answer.error_code, found


@pytest.mark.parametrize("version", EVERY)
def test_committed_offsets_come_with_their_epochs_and_notes(line: GroupLine, version: int) -> None:
    error, found = ask(line, version, request(version, {"a": [1, 0]}))
    assert error == 0
    assert found == {("a", 1): (7, 3 if version >= 5 else -1, "note", 0), ("a", 0): (5, -1, "", 0)}


@pytest.mark.parametrize("version", range(1, 10))
@pytest.mark.parametrize("group_id", ["g", "none"])
def test_nothing_committed_is_no_error(line: GroupLine, version: int, group_id: str) -> None:
    """Nor is an unknown topic or group: franz-go asks again and again after an error."""
    asked = request(version, {"a": [7], "none": [0]}, group_id)
    assert ask(line, version, asked) == (0, {("a", 7): NONE, ("none", 0): NONE})


@pytest.mark.parametrize("group_id", ["g", "none"])
def test_in_version_0_nothing_committed_is_an_unknown_partition(line: GroupLine, group_id: str) -> None:
    wanted = (-1, -1, "", 3)
    asked = request(0, {"a": [7], "none": [0]}, group_id)
    assert ask(line, 0, asked) == (0, {("a", 7): wanted, ("none", 0): wanted})


ERRORS = [(GroupError.NOT_COORDINATOR, 16), (GroupError.LOADING, 14)]


@pytest.mark.parametrize("version", range(8))
@pytest.mark.parametrize(("error", "code"), ERRORS)
def test_below_version_8_an_error_stands_at_each_partition(
    line: GroupLine, groups: ScriptedGroups, version: int, error: GroupError, code: int
) -> None:
    """From version 2 on it stands above all partitions, too. There are clients that read only one of the two
    places, and an answer without partitions says to them that nothing is committed: they begin anew."""
    groups.error = error
    refused = (-1, -1, "", code)
    of_all = code if version >= 2 else 0
    wanted = of_all, {("a", 0): refused, ("a", 1): refused}
    assert ask(line, version, request(version, {"a": [0, 1]})) == wanted


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize(("error", "code"), ERRORS)
def test_from_version_8_on_an_error_stands_at_the_group(
    line: GroupLine, groups: ScriptedGroups, version: int, error: GroupError, code: int
) -> None:
    groups.error = error
    assert ask(line, version, request(version, {"a": [0]})) == (code, {})


@pytest.mark.parametrize("version", range(2, 10))
@pytest.mark.parametrize(("error", "code"), ERRORS)
def test_an_error_for_all_that_is_committed_has_no_partitions(
    line: GroupLine, groups: ScriptedGroups, version: int, error: GroupError, code: int
) -> None:
    groups.error = error
    assert ask(line, version, request(version, None)) == (code, {})


@pytest.mark.parametrize("version", range(2, 10))
def test_null_asks_for_all_that_is_committed(line: GroupLine, groups: ScriptedGroups, version: int) -> None:
    error, found = ask(line, version, request(version, None))
    assert error == 0
    assert {place: each[0] for place, each in found.items()} == {("a", 0): 5, ("a", 1): 7, ("b", 0): 9}
    assert groups.asked == [("g", None)]
    assert ask(line, version, request(version, None, "none")) == (0, {})


@pytest.mark.parametrize("version", EVERY)
def test_no_topics_ask_for_nothing(line: GroupLine, version: int) -> None:
    assert ask(line, version, request(version, {})) == (0, {})


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_are_answered_together_each_once(line: GroupLine, version: int) -> None:
    asked = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("b", [0])]),
            OffsetFetchRequestGroup("h", topics=None),
            OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("a", [0])]),
        ]
    )
    answer = line.ask(asked, OffsetFetchResponse, version)
    assert [
        (group.group_id, [(t.name, [p.committed_offset for p in t.partitions]) for t in group.topics])
        for group in answer.groups
    ] == [("g", [("a", [5])]), ("h", [])]


@pytest.mark.parametrize("version", range(7, 10))
def test_every_offset_is_stable_while_there_are_no_transactions(line: GroupLine, version: int) -> None:
    asked = request(version, {"a": [0]})
    asked.require_stable = True
    assert ask(line, version, asked) == (0, {("a", 0): (5, -1, "", 0)})


def test_a_member_that_says_its_epoch_is_answered_as_any_other(line: GroupLine) -> None:
    asked = request(9, {"a": [0]})
    asked.groups[0].member_id, asked.groups[0].member_epoch = "m", 3
    assert ask(line, 9, asked) == (0, {("a", 0): (5, -1, "", 0)})


@pytest.mark.parametrize("version", range(2, 10))
def test_an_answer_with_all_that_is_committed_is_bounded(
    line: GroupLine, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch, "FETCHED_OFFSETS", 2)
    assert ask(line, version, request(version, None)) == (44, {})
    named = request(version, {"a": [0, 1], "b": [0]})
    assert len(ask(line, version, named)[1]) == 3, "a client that names partitions gets them"


def test_groups_of_one_request_share_the_bound(
    line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch, "FETCHED_OFFSETS", 5)
    groups.offsets["h"] = groups.offsets["g"]
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, topics=None) for name in ("g", "h")])
    answer = line.ask(asked, OffsetFetchResponse, 9)
    assert [(group.group_id, group.error_code) for group in answer.groups] == [("g", 0), ("h", 44)]


@pytest.mark.parametrize("version", EVERY)
def test_notes_are_bounded_however_often_a_partition_is_named(
    line: GroupLine, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch, "FETCHED_NOTE_BYTES", 8)
    assert ask(line, version, request(version, {"a": [1, 1]}))[1][("a", 1)][2:] == ("note", 0)
    error, found = ask(line, version, request(version, {"a": [1, 1, 1]}))
    assert error == (44 if version >= 2 else 0)
    assert [each[3] for each in found.values()] == ([44] if version < 8 else [])
    if version >= 2:
        monkeypatch.setattr(offset_fetch, "FETCHED_NOTE_BYTES", 3)
        assert ask(line, version, request(version, None)) == (44, {})
