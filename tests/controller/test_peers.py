"""The other controllers, as one of them reaches them: whom it asks, and to whom it has a way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import grpc.aio
import pytest

from tank_controller.peers import Peers, _PeerLine
from tank_controller.raft.messages import Heartbeat, Message, NodeId
from tank_controller.scaling_controllers import PodAddresses
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import ControllersServicer, add_ControllersServicer_to_server
from tests.support.ports import free_port

NAMED = PodAddresses({n: f"tank-controller-{n}.tank-controller.ns.svc:9090" for n in range(3)}, 4)
WAIT_S = 20.0
Answers = Callable[[int], pb.JoinAnswer]


class Others:
    """Answers in the place of all other controllers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Answers) -> None:
        self.asked: list[int] = []

        def stub(line: _PeerLine) -> Any:
            async def join(request: pb.JoinRequest, **limit: float) -> pb.JoinAnswer:
                self.asked.append(line._ordinal)
                return answer(line._ordinal)

            return SimpleNamespace(Join=join)

        monkeypatch.setattr(_PeerLine, "stub", stub)


def asks_to_be_added() -> list[str]:
    async def story() -> list[str]:
        peers = Peers(NAMED, 4)
        refusals = await peers.ask_to_be_added(pb.JoinRequest(cluster_id="c"))
        await peers.stop()
        return refusals

    return asyncio.run(story())


def led_by(ordinal: int) -> pb.JoinAnswer:
    return pb.JoinAnswer(not_leader=pb.NotLeader(leader=NAMED[ordinal]))


def test_a_leader_that_nobody_named_is_asked_once_the_others_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    others = Others(monkeypatch, lambda at: pb.JoinAnswer() if at == 3 else led_by(3))
    assert asks_to_be_added() == []
    assert others.asked == [0, 1, 2, 3]


def test_who_refuses_is_heard_and_nobody_is_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = pb.JoinAnswer(kind=pb.JoinAnswer.REFUSED, message="no room")
    others = Others(monkeypatch, lambda at: refused if at == 3 else led_by(3 - at))
    assert asks_to_be_added() == ["no room"]
    assert others.asked == [0, 1, 2, 3]


@pytest.mark.parametrize("leader", ["", NAMED[4], "elsewhere:9090"])
def test_nobody_itself_and_a_stranger_are_not_asked(monkeypatch: pytest.MonkeyPatch, leader: str) -> None:
    answer = pb.JoinAnswer(not_leader=pb.NotLeader(leader=leader))
    others = Others(monkeypatch, lambda at: answer)
    assert asks_to_be_added() == []
    assert others.asked == [0, 1, 2]


def heartbeat(target: NodeId, term: int = 1) -> Message:
    return Message("c", NodeId(4, b"own disk"), target, term, Heartbeat(0, 0))


def test_one_that_nobody_named_gets_a_way_when_it_is_sent_something_and_an_own_disk_of_before_does_not() -> (
    None
):
    async def story() -> list[int]:
        peers = Peers(NAMED, 4)
        peers.send([heartbeat(NodeId(3, b"disk")), heartbeat(NodeId(4, b"disk of before"))])
        found = peers.ordinals()
        await peers.stop()
        return found

    assert asyncio.run(story()) == [0, 1, 2, 3]


def test_those_that_it_learns_of_are_asked_too() -> None:
    async def story() -> list[int]:
        peers = Peers(NAMED, 4)
        peers.know(range(6))
        found = peers.ordinals()
        await peers.stop()
        return found

    assert asyncio.run(story()) == [0, 1, 2, 3], "not itself, and nobody beyond the last"


def test_what_is_sent_while_all_ways_are_closed_makes_no_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> list[int]:
        peers = Peers(NAMED, 4)

        async def stop(line: _PeerLine) -> None:
            peers.send([heartbeat(NodeId(3, b"disk"))])

        monkeypatch.setattr(_PeerLine, "stop", stop)
        await peers.stop()
        return peers.ordinals()

    assert asyncio.run(story()) == [0, 1, 2]


class Other(ControllersServicer):
    """Another controller's process."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[int] = asyncio.Queue()
        self._server = grpc.aio.server()
        add_ControllersServicer_to_server(self, self._server)

    async def Messages(self, requests: AsyncIterator[pb.RaftMessage], context: object) -> pb.MessagesEnd:
        async for message in requests:
            self.heard.put_nowait(message.term)
        return pb.MessagesEnd()

    async def listen(self, address: str) -> None:
        self._server.add_insecure_port(address)
        await self._server.start()

    async def die(self) -> None:
        await self._server.stop(None)


def test_nothing_that_is_sent_to_a_process_is_taken_by_the_stream_to_the_one_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        address = f"127.0.0.1:{free_port()}"
        peers = Peers({0: "127.0.0.1:1", 1: address}, 0)
        peers.start()
        for term in range(1, 4):
            other = Other()
            await other.listen(address)
            peers.send([heartbeat(NodeId(1, b"disk"), term)])
            async with asyncio.timeout(WAIT_S):
                assert await other.heard.get() == term, "the first one, and no other"
            broken = len(caplog.records)
            await other.die()
            async with asyncio.timeout(WAIT_S):
                while len(caplog.records) == broken:  # noqa: ASYNC110 - a log record is no event
                    await asyncio.sleep(0.01)
        await peers.stop()

    asyncio.run(story())
    assert len(caplog.records) == 3, "each end is told of once"
