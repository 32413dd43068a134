"""A controller's process before it belongs to a cluster."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tank_controller.app.process import ASK_EVERY_S, ControllerProcess
from tank_controller.k8s import controllers
from tank_controller.node import ControllerConfig
from tank_controller.raft.birth import Birth
from tank_controller.raft.errors import ChangeRefusedError
from tank_controller.raft.messages import Configuration, NodeId
from tank_controller.raft_node.pod_addresses import PodAddresses
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


def born(tmp_path: Path, wanted: list[int | None], others: dict[int, str]) -> tuple[str, set[int]]:
    """Which cluster the empty controller 0 begins with, and whom it asked first. Its list names itself alone;
    `wanted` is what Kubernetes says, one after the other, `others` the clusters of those that are there."""
    pods = PodAddresses({0: "tank-controller-0.s:9090"}, 0)
    asked: set[int] = set()

    async def story() -> list[str]:
        process = ControllerProcess(ControllerConfig(0, pods, tmp_path, "127.0.0.1:0", "", 3000))
        process.birth = Birth(NodeId(0, b"new"), frozenset(pods), lambda below: 9, lambda: "a second one")
        began: list[str] = []

        async def say() -> int | None:
            return wanted.pop(0)

        async def identify(request: pb.IdentifyRequest) -> list[pb.IdentifyAnswer | None]:
            found = [(ordinal, others.get(ordinal)) for ordinal in sorted(asked)]
            return [
                None if said is None else pb.IdentifyAnswer(
                    answerer=pb.RaftNode(ordinal=ordinal, disk=b"d"), nonce=request.nonce, cluster_id=said
                )
                for ordinal, said in found
            ]  # fmt: skip

        def begin(cluster_id: str, *rest: object) -> None:
            began.append(cluster_id)
            changed.rooms = SimpleNamespace()

        async def stay() -> None:
            return

        changed: Any = process
        changed.kubernetes = SimpleNamespace(wanted_controllers=say)
        changed._peers = SimpleNamespace(identify=identify, know=lambda all_: asked.update(all_ - {0}))
        changed._begin, changed._stay_in = begin, stay
        async with asyncio.timeout(10):
            await process._be_born()
        return began

    (cluster,) = asyncio.run(story())
    return cluster, asked


def test_an_emptied_controller_whose_list_is_older_than_kubectl_scale_founds_no_second_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controllers, "ASK_AGAIN_S", 0.0)
    assert born(tmp_path, [None, 3], {2: "theirs"}) == ("theirs", {1, 2}), "it waits for Kubernetes' word"
    assert born(tmp_path, [9], {1: "theirs"}) == ("theirs", {1, 2, 3, 4}), "there are no more"


def test_the_only_controller_that_is_wanted_founds_a_cluster(tmp_path: Path) -> None:
    assert born(tmp_path, [1], {}) == ("a second one", set())


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
