"""A controller's process before it belongs to a cluster."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tank_controller.process import ASK_EVERY_S, ControllerProcess
from tank_controller.raft.birth import Birth
from tank_controller.raft.errors import ChangeRefusedError
from tank_controller.raft.messages import Configuration, NodeId
from tank_controller.rooms import ControllerConfig
from tank_protos.generated import control_pb2 as pb

OWN = NodeId(2, b"our disk")
OTHER = NodeId(1, b"its disk")


def test_a_founding_document_that_cannot_be_read_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = ControllerConfig(2, {1: "one:1", 2: "two:2"}, tmp_path, "two:2", "", 3000)
    process = ControllerProcess(config)
    birth = Birth(OWN, frozenset({1, 2}), lambda below: 9, lambda: "never")
    birth.ask()
    document = Configuration((NodeId(1, b"its disk"), OWN), ()).encode()
    for founding in (document[:-1], document + b"x", b"\xff"):
        answer = pb.IdentifyAnswer(
            answerer=pb.RaftNode(ordinal=1), nonce=birth.nonce, cluster_id="c", founding=founding
        )
        with caplog.at_level(logging.ERROR):
            process._hear(birth, answer)
        assert "controller 1 sent no founding document" in caplog.text
        caplog.clear()
    assert process.rooms is None
    assert list(tmp_path.iterdir()) == [], "nothing of it is kept"


def test_one_that_is_told_to_stop_asks_nobody_any_more_while_it_leaves(tmp_path: Path) -> None:
    process = ControllerProcess(
        ControllerConfig(2, {1: "one:1", 2: "two:2"}, tmp_path, "127.0.0.1:0", "", 3000)
    )
    asked: list[pb.IdentifyRequest] = []

    async def identify(request: pb.IdentifyRequest) -> list[pb.IdentifyAnswer | None]:
        asked.append(request)
        process._stopping.set()
        return [None]

    async def stop() -> None:
        return

    async def leave_group() -> None:
        asked.clear()
        await asyncio.sleep(3 * ASK_EVERY_S)

    changed: Any = process
    changed._peers = SimpleNamespace(identify=identify, start=lambda: None, stop=stop)
    changed._leave_group = leave_group
    asyncio.run(process.run(lambda said: None))
    assert not asked


class Leading:
    """A member that leads until it has handed over to one that is there from the third look on."""

    def __init__(self, *voters: NodeId) -> None:
        self.looks = 0
        self.refuses = True
        self.heir: NodeId | None = None
        self.raft = SimpleNamespace(configuration=SimpleNamespace(voters=voters))
        self.driver = SimpleNamespace(transfer_leadership=self._transfer)

    def leads(self) -> bool:
        return self.heir is None

    def heirs(self) -> list[NodeId]:
        self.looks += 1
        return [] if self.looks < 3 else [OTHER]

    def _transfer(self, heir: NodeId) -> None:
        if self.refuses:
            self.refuses = False
            raise ChangeRefusedError("not now")
        self.heir = heir


def handed_over(tmp_path: Path, member: Leading) -> NodeId | None:
    async def stop() -> None:
        process = ControllerProcess(
            ControllerConfig(2, {1: "one:1", 2: "two:2"}, tmp_path, "two:2", "", 3000)
        )
        changed: Any = process
        changed.rooms = SimpleNamespace(member=member)
        await process._hand_over()

    asyncio.run(stop())
    return member.heir


def test_a_leader_that_stops_looks_again_for_one_that_takes_over(tmp_path: Path) -> None:
    member = Leading(OWN, OTHER)
    assert handed_over(tmp_path, member) == OTHER
    assert member.looks == 4, "nobody, nobody, refused, taken over"


def test_the_only_controller_waits_for_nobody_when_it_stops(tmp_path: Path) -> None:
    member = Leading(OWN)
    assert handed_over(tmp_path, member) is None
    assert member.looks == 0
