"""What a client gets of files for diagnosis."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.iggy.services import Packing, SnapshotPart
from tank_protos.generated.iggy import CreateUserRequest, GetSnapshotRequest, GetSnapshotResponse
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import A2, A3, B3, V11, Era
from tests.support.iggy.iggy_line import IggyLine, IggyStatus, logged_in
from tests.support.iggy.iggy_node import IggyNode

ALL = frozenset(SnapshotPart)


class ToldSnapshots:
    """Says what was asked for, when the test lets it."""

    def __init__(self) -> None:
        self.asked: list[tuple[frozenset[SnapshotPart], Packing]] = []
        self.waiting: list[Callable[[bytes], None]] = []

    def make(self, parts: frozenset[SnapshotPart], packing: Packing, done: Callable[[bytes], None]) -> bool:
        if self.waiting:
            return False
        self.asked.append((parts, packing))
        self.waiting.append(done)
        return True

    def finish(self, zipped: bytes) -> None:
        self.waiting.pop()(zipped)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[IggyNode]:
    with IggyNode(tmp_path / "data") as node:
        yield node


def with_snapshots(node: IggyNode, era: Era = B3) -> tuple[IggyLine, ToldSnapshots]:
    snapshots = ToldSnapshots()
    return logged_in(node, era, replace(node.services(), snapshots=snapshots)), snapshots


@pytest.mark.parametrize("era", [A3, B3, V11], ids=lambda era: str(era.name))
def test_the_file_is_the_answer(node: IggyNode, era: Era) -> None:
    line, snapshots = with_snapshots(node, era)
    line.send(IggyCode.GET_SNAPSHOT, b"".join(GetSnapshotRequest(2, [100]).encode(era.version)))
    assert line.answers() == []
    assert snapshots.asked == [(ALL, Packing.DEFLATE)]
    snapshots.finish(b"PK zip")
    (answer,) = line.answers()
    assert isinstance(answer, bytes)
    assert GetSnapshotResponse.decode(memoryview(answer), era.version).zip == b"PK zip"


@pytest.mark.parametrize(
    ("kinds", "parts"),
    [
        ([], ALL),
        ([100, 77], ALL),
        ([3], {SnapshotPart.METRICS}),
        ([5, 6], {SnapshotPart.LOG, SnapshotPart.CONFIGURATION}),
        ([1, 2, 4, 99], set()),
    ],
)
def test_kinds_that_there_are_not_are_left_out(
    node: IggyNode, kinds: list[int], parts: set[SnapshotPart]
) -> None:
    line, snapshots = with_snapshots(node)
    line.send(IggyCode.GET_SNAPSHOT, b"".join(GetSnapshotRequest(1, kinds).encode(B3.version)))
    assert snapshots.asked == [(frozenset(parts), Packing.STORED)]


def test_a_packing_that_python_lacks_is_the_next_best_one(node: IggyNode) -> None:
    line, snapshots = with_snapshots(node)
    for compression in range(1, 7):
        line.send(IggyCode.GET_SNAPSHOT, b"".join(GetSnapshotRequest(compression, []).encode(B3.version)))
        snapshots.finish(b"PK")
    assert [packing for _, packing in snapshots.asked] == [
        Packing.STORED, Packing.DEFLATE, Packing.BZIP2, Packing.DEFLATE, Packing.LZMA, Packing.LZMA,
    ]  # fmt: skip
    line.answers()
    assert line.refused(GetSnapshotRequest(7, [])) == 3


def test_one_is_made_at_a_time(node: IggyNode) -> None:
    line, snapshots = with_snapshots(node)
    request = GetSnapshotRequest(1, [])
    line.send(request.ID, b"".join(request.encode(B3.version)))
    other = logged_in(node, B3, line.session.services)
    assert other.refused(request) == 5
    snapshots.finish(b"PK")
    assert len(line.answers()) == 1


def test_a_file_that_can_not_be_made_is_said_so(node: IggyNode) -> None:
    line, snapshots = with_snapshots(node)
    request = GetSnapshotRequest(1, [])
    line.send(request.ID, b"".join(request.encode(B3.version)))
    snapshots.finish(b"")
    assert line.answers() == [9000]


def test_a_client_that_is_gone_gets_none(node: IggyNode) -> None:
    line, snapshots = with_snapshots(node)
    request = GetSnapshotRequest(1, [])
    line.send(request.ID, b"".join(request.encode(B3.version)))
    line.close()
    snapshots.finish(b"PK")
    assert line.answers() == []


def test_it_is_for_those_who_manage_servers(node: IggyNode) -> None:
    line, snapshots = with_snapshots(node)
    line.tell(CreateUserRequest("reader", "password", 1))
    reader = IggyLine(node, B3, line.session.services)
    reader.login("reader", "password")
    assert reader.refused(GetSnapshotRequest(1, [])) == 41
    assert snapshots.asked == []
    with pytest.raises(IggyStatus, match="3"):
        logged_in(node, A2, line.session.services).raw(IggyCode.GET_SNAPSHOT)


def test_a_broker_without_them_says_so(node: IggyNode) -> None:
    assert logged_in(node, B3).refused(GetSnapshotRequest(1, [])) == 5
