"""A controller's process before it belongs to a cluster."""

import asyncio
import logging
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tank_controller.app.first_start import ASK_EVERY_S, FirstStart
from tank_controller.app.process import ControllerProcess
from tank_controller.app.taking_down import hand_over
from tank_controller.k8s import controllers
from tank_controller.node import ControllerConfig
from tank_controller.raft.birth import Birth
from tank_controller.raft.errors import ChangeRefusedError
from tank_controller.raft.messages import Configuration, NodeId
from tank_controller.raft_node.peers import Peers
from tank_controller.raft_node.pod_addresses import PodAddresses
from tank_protos.generated import control_pb2 as pb

OWN = NodeId(2, b"our disk")
OTHER = NodeId(1, b"its disk")


def test_a_founding_document_that_cannot_be_read_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    birth = Birth(OWN, frozenset({1, 2}), lambda below: 9, lambda: "never")
    birth.ask()
    begun: list[str] = []
    start = FirstStart(birth, cast(Peers, None), lambda cluster_id, *rest: begun.append(cluster_id))
    document = Configuration((NodeId(1, b"its disk"), OWN), ()).encode()
    for founding in (document[:-1], document + b"x", b"\xff"):
        answer = pb.IdentifyAnswer(
            answerer=pb.RaftNode(ordinal=1), nonce=birth.nonce, cluster_id="c", founding=founding
        )
        with caplog.at_level(logging.ERROR):
            start.hear(answer)
        assert "controller 1 sent no founding document" in caplog.text
        caplog.clear()
    assert (begun, start.has_begun) == ([], False), "nothing of it is kept"


def test_one_that_is_told_to_stop_asks_nobody_any_more_while_it_leaves(tmp_path: Path) -> None:
    config = ControllerConfig(2, {1: "one:1", 2: "two:2"}, tmp_path, "127.0.0.1:0", "", 3000)
    asked: list[pb.IdentifyRequest] = []
    signals = [signal.SIGTERM]

    async def identify(request: pb.IdentifyRequest) -> list[pb.IdentifyAnswer | None]:
        asked.append(request)
        if signals:  # a second one would end the process at once
            os.kill(os.getpid(), signals.pop())
        return [None]

    async def stop() -> None:
        return

    class Leaving(ControllerProcess):
        async def leave_cluster(self) -> None:
            asked.clear()
            await asyncio.sleep(3 * ASK_EVERY_S)

    peers: Any = SimpleNamespace(identify=identify, start=lambda: None, stop=stop)
    asyncio.run(Leaving(config, peers).run(lambda said: None))
    assert not asked


def born(wanted: list[int | None], others: dict[int, str]) -> tuple[str, set[int]]:
    """Which cluster the empty controller 0 begins with, and whom it asked first. Its list names itself alone;
    `wanted` is what Kubernetes says, one after the other, `others` the clusters of those that are there."""
    pods = PodAddresses({0: "tank-controller-0.s:9090"}, 0)
    asked: set[int] = set()

    async def story() -> list[str]:
        birth = Birth(NodeId(0, b"new"), frozenset(pods), lambda below: 9, lambda: "a second one")
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

        peers: Any = SimpleNamespace(identify=identify, know=lambda all_: asked.update(all_ - {0}))
        async with asyncio.timeout(10):
            await FirstStart(birth, peers, lambda cluster_id, *rest: began.append(cluster_id), say).run()
        return began

    (cluster,) = asyncio.run(story())
    return cluster, asked


def test_an_emptied_controller_whose_list_is_older_than_kubectl_scale_founds_no_second_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controllers, "ASK_AGAIN_S", 0.0)
    assert born([None, 3], {2: "theirs"}) == ("theirs", {1, 2}), "it waits for Kubernetes' word"
    assert born([9], {1: "theirs"}) == ("theirs", {1, 2, 3, 4}), "there are no more"


def test_the_only_controller_that_is_wanted_founds_a_cluster() -> None:
    assert born([1], {}) == ("a second one", set())


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


def handed_over(member: Leading) -> NodeId | None:
    node: Any = SimpleNamespace(member=member)
    asyncio.run(hand_over(node))
    return member.heir


def test_a_leader_that_stops_looks_again_for_one_that_takes_over() -> None:
    member = Leading(OWN, OTHER)
    assert handed_over(member) == OTHER
    assert member.looks == 4, "nobody, nobody, refused, taken over"


def test_the_only_controller_waits_for_nobody_when_it_stops() -> None:
    member = Leading(OWN)
    assert handed_over(member) is None
    assert member.looks == 0
