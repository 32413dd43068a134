"""Learned OffsetCommit requests: the coordinator gets what the handler would give it, without a decoder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import CommitRequest, CommittedOffset, MemberName
from tank_node.kafka.dispatch import open_session
from tank_node.limits import Limits
from tank_node.security.gate import Gate
from tank_protos.generated.kafka import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.tagged import UnknownTag
from tests.support.clients.scripted_groups import GroupLine, ScriptedGroups
from tests.support.examples import examples
from tests.support.nodes.bench_node import BenchNode
from tests.support.values.mangled_frames import mangled

NEWEST = 9
LEARNED = range(8, NEWEST + 1)


class Decoded(Exception):
    """A request was decoded that should be known."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchNode]:
    with BenchNode(tmp_path_factory.mktemp("node")) as node:
        node.controller.add("a", partitions=2)
        yield node


@pytest.fixture
def groups() -> ScriptedGroups:
    return ScriptedGroups()


@pytest.fixture
def line(node: BenchNode, groups: ScriptedGroups) -> GroupLine:
    return GroupLine(node, groups)


def forbid_decoding(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Decoded

    patch.setattr(OffsetCommitRequest, "decode", refuse)


def commit_of(
    *offsets: int, epoch: int = 3, member: str = "m-1", note: str | None = ""
) -> OffsetCommitRequest:
    """A member's request: these offsets of the first partitions of topic a."""
    partitions = [
        OffsetCommitRequestPartition(number, offset, committed_leader_epoch=epoch, committed_metadata=note)
        for number, offset in enumerate(offsets)
    ]
    return OffsetCommitRequest("g", 7, member, topics=[OffsetCommitRequestTopic("a", partitions)])


def asked(
    line: GroupLine,
    groups: ScriptedGroups,
    request: OffsetCommitRequest,
    version: int = NEWEST,
    error: GroupError = GroupError.NONE,
) -> tuple[CommitRequest, OffsetCommitResponse]:
    """What the coordinator gets and the client is answered, where this is the first partition's result."""
    line.send(request, version)
    commit, done = groups.committing.pop()
    done({place: error if place == ("a", 0) else GroupError.NONE for place in commit.offsets})
    (frame,) = line.frames()
    return commit, line.read(frame, OffsetCommitResponse, version)[1]


def errors(answer: OffsetCommitResponse) -> list[tuple[str, int, int]]:
    return [
        (topic.name, each.partition_index, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", LEARNED)
def test_a_member_commits_on_without_a_decoder(
    node: BenchNode, line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    asked(line, groups, commit_of(5, 6), version)
    forbid_decoding(monkeypatch)
    commit, answer = asked(line, groups, commit_of(1 << 40, -2, epoch=4), version)
    assert (commit.member, commit.generation) == (MemberName("g", "m-1"), 7)
    now_ms = node.clock.now_ms()
    assert commit.offsets == {
        ("a", 0): CommittedOffset(1 << 40, 4, "", now_ms),
        ("a", 1): CommittedOffset(-2, 4, "", now_ms),
    }
    assert errors(answer) == [("a", 0, 0), ("a", 1, 0)]


def test_a_null_note_is_an_empty_one(
    line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(line, groups, commit_of(5, note=None))
    forbid_decoding(monkeypatch)
    assert asked(line, groups, commit_of(6, note=None))[0].offsets["a", 0].metadata == ""


@pytest.mark.parametrize("version", LEARNED)
def test_each_partition_has_its_own_error(
    line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    asked(line, groups, commit_of(5, 6), version)
    forbid_decoding(monkeypatch)
    _, answer = asked(line, groups, commit_of(6, 7), version, GroupError.STALE_MEMBER_EPOCH)
    assert errors(answer) == [("a", 0, 113 if version >= 9 else 35), ("a", 1, 0)]


@pytest.mark.parametrize("version", LEARNED)
def test_the_error_of_a_group_that_is_not_there_is_that_of_the_version(
    line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    before, _ = asked(line, groups, commit_of(5), version)
    forbid_decoding(monkeypatch)
    assert asked(line, groups, commit_of(6), version)[0].unknown_group is before.unknown_group


@pytest.mark.parametrize("change", ["client", "member", "generation", "topic", "note", "version"])
def test_a_request_of_another_form_goes_to_the_handler(
    line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    asked(line, groups, commit_of(5))
    request, client, version = commit_of(5), "test", NEWEST
    if change == "client":
        client = "tess"
    elif change == "member":
        request = commit_of(5, member="m-2")
    elif change == "generation":
        request.generation_id_or_member_epoch = 8
    elif change == "topic":
        request.topics[0].name = "b"
    elif change == "note":
        request = commit_of(5, note="x")
    else:
        version = 8
    forbid_decoding(monkeypatch)
    with pytest.raises(Decoded):
        line.feed(line.frame(request, version, client))


@pytest.mark.parametrize("version", range(1, 8))
def test_older_versions_are_decoded(
    line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    asked(line, groups, commit_of(5, epoch=-1), version)
    forbid_decoding(monkeypatch)
    with pytest.raises(Decoded):
        line.send(commit_of(6, epoch=-1), version)


def test_a_request_with_fields_that_this_code_does_not_know_is_decoded(
    line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = commit_of(5)
    request.topics[0].partitions[0].unknown_tags = (UnknownTag(9, b"x"),)
    asked(line, groups, request)
    forbid_decoding(monkeypatch)
    with pytest.raises(Decoded):
        line.send(request, NEWEST)


def test_a_note_that_looks_like_the_offset_is_taken_for_none(
    line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands for the offset while its place is looked for may be in what the client wrote, too."""
    stand_in = 0x6B61_666B
    note = (stand_in.to_bytes(8, "big") + stand_in.to_bytes(4, "big")).decode()
    for offset, epoch in ((5, 3), (stand_in, stand_in), (stand_in, 3), (7, 4)):
        commit, _ = asked(line, groups, commit_of(offset, offset, epoch=epoch, note=note))
        assert [(each.offset, each.leader_epoch, each.metadata) for each in commit.offsets.values()] == [
            (offset, epoch, note)
        ] * 2


def test_a_gate_that_changed_sees_learned_requests_again(
    node: BenchNode, line: GroupLine, groups: ScriptedGroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    line.session = open_session(node.broker, gate)
    asked(line, groups, commit_of(5))
    monkeypatch.setattr(gate, "allows", lambda *_: False, raising=False)
    asked(line, groups, commit_of(6))
    gate.version += 1
    with pytest.raises(WireError):
        line.send(commit_of(7), NEWEST)


def test_no_more_lengths_are_kept_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = ScriptedGroups()
    with BenchNode(tmp_path / "data", Limits(learned_paths=1)) as node:
        node.controller.add("a", partitions=2)
        line = GroupLine(node, groups)
        asked(line, groups, commit_of(5))
        asked(line, groups, commit_of(5, 6))
        forbid_decoding(monkeypatch)
        asked(line, groups, commit_of(6))
        with pytest.raises(Decoded):
            line.send(commit_of(6, 7), NEWEST)


def test_learned_requests_are_counted_as_others(tmp_path: Path) -> None:
    groups = ScriptedGroups()
    with BenchNode(tmp_path / "data") as node:
        line, plain = GroupLine(node, groups), GroupLine(node, groups)
        for error in (GroupError.NONE, GroupError.NONE, GroupError.UNKNOWN_MEMBER):
            asked(line, groups, commit_of(5), error=error)
            plain.session.learned_forms.clear()
            asked(plain, groups, commit_of(5), error=error)
        counted = {key[1:]: count for key, count in node.metrics.kafka_requests.items()}
    assert counted == {(NEWEST, "ok"): 4, (NEWEST, "unknown_member_id"): 2}


def what_comes(line: GroupLine, groups: ScriptedGroups, frame: bytes) -> object:
    """What the coordinator gets and the client is answered, or how the frame ends the connection."""
    line.session.broker.groups = groups
    try:
        line.feed(frame)
    except WireError as error:
        return type(error), str(error)
    commits = []
    while groups.committing:
        commit, done = groups.committing.pop(0)
        done(dict.fromkeys(commit.offsets, GroupError.NONE))
        commits.append(commit)
    return commits, line.frames()


@examples(200)
@given(st.sampled_from(LEARNED), st.integers(1, 2), st.data())
def test_a_learned_request_is_carried_out_or_refused_as_any_other(
    node: BenchNode, version: int, partitions: int, data: st.DataObject
) -> None:
    first, second = ScriptedGroups(), ScriptedGroups()
    learned, plain = GroupLine(node, first), GroupLine(node, second)
    good = commit_of(*range(partitions))
    for line, groups in ((learned, first), (plain, second)):
        what_comes(line, groups, line.frame(good, version))
    plain.session.learned_forms.clear()
    frame = data.draw(mangled(learned.frame(commit_of(*range(7, 7 + partitions)), version)))
    assert what_comes(learned, first, frame) == what_comes(plain, second, frame)
