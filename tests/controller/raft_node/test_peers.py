"""The other controllers, as one of them reaches them: whom it asks, and to whom it has a way."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest

from tank_controller.raft.messages import Heartbeat, NodeId, RaftMessage
from tank_controller.raft_node import peers, wire
from tank_controller.raft_node.peers import Peers
from tank_controller.raft_node.pod_addresses import PodAddresses
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import ControllersServicer, add_ControllersServicer_to_server
from tests.support.patience import patient
from tests.support.processes.ports import free_port
from tests.support.waiting import comes

NAMED = PodAddresses({n: f"tank-controller-{n}.tank-controller.ns.svc:9090" for n in range(3)}, 4)
WAIT_S = patient(20.0)
Context = grpc.aio.ServicerContext[object, object]
Answers = Callable[[int], pb.JoinAnswer]


class Others:
    """Answers in the place of all other controllers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Answers) -> None:
        self.asked: list[int] = []

        def calls(channel: grpc.aio.Channel, prover: object, ordinal: int) -> int:
            return ordinal

        def stub(ordinal: int) -> Any:
            async def join(request: pb.JoinRequest, **limit: float) -> pb.JoinAnswer:
                self.asked.append(ordinal)
                return answer(ordinal)

            return SimpleNamespace(Join=join)

        monkeypatch.setattr(peers, "ProvenCalls", calls)
        monkeypatch.setattr(peers, "ControllersStub", stub)


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


def heartbeat(target: NodeId, term: int = 1) -> RaftMessage:
    return RaftMessage("c", NodeId(4, b"own disk"), target, term, Heartbeat(0, 0))


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


def test_what_is_sent_while_all_ways_are_closed_makes_no_new_one() -> None:
    async def story() -> list[int]:
        peers = Peers(NAMED, 4)
        peers.start()
        await asyncio.sleep(0)
        closing = asyncio.create_task(peers.stop())
        while not closing.done():
            await asyncio.sleep(0)
            peers.send([heartbeat(NodeId(3, b"disk"))])
        await closing
        return peers.ordinals()

    assert asyncio.run(story()) == [0, 1, 2]


class Other(ControllersServicer):
    """Another controller's process."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.heard: asyncio.Queue[int] = asyncio.Queue()
        self.streams = 0
        self._refuses = refuses
        self._server = grpc.aio.server()
        add_ControllersServicer_to_server(self, self._server)

    async def Messages(self, requests: AsyncIterator[pb.RaftMessage], context: Context) -> pb.MessagesEnd:
        self.streams += 1
        if self._refuses:
            await context.abort(grpc.StatusCode.INTERNAL, "not today")
        async for message in requests:
            self.heard.put_nowait(message.term)
        return pb.MessagesEnd()

    def had(self, streams: int) -> bool:
        return self.streams >= streams

    async def listen(self, address: str) -> None:
        self._server.add_insecure_port(address)
        await self._server.start()

    async def die(self) -> None:
        await self._server.stop(None)


def told_to(term: int) -> list[RaftMessage]:
    return [heartbeat(NodeId(1, b"disk"), term)]


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """In the controller's log: gRPC has words of its own about loops that have ended."""
    return [record.getMessage() for record in caplog.records if record.name == "tank.controller"]


@contextlib.asynccontextmanager
async def way_to_one(address: str) -> AsyncIterator[Peers]:
    way = Peers({0: "127.0.0.1:1", 1: address}, 0)
    way.start()
    try:
        yield way
    finally:
        await way.stop()


def test_nothing_that_is_sent_to_a_process_is_taken_by_the_stream_to_the_one_before(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "STEADY_S", 0.0)

    def has_been_told(times: int) -> bool:
        return len(told(caplog)) >= times

    async def story() -> None:
        address = f"127.0.0.1:{free_port()}"
        async with way_to_one(address) as way:
            for term in range(1, 4):
                other = Other()
                await other.listen(address)
                way.send(told_to(term))
                async with asyncio.timeout(WAIT_S):
                    assert await other.heard.get() == term, "the first one, and no other"
                await other.die()
                await comes(partial(has_been_told, term))

    asyncio.run(story())
    assert len(told(caplog)) == 3, "each end is told of once"


def test_what_is_sent_before_the_other_process_listens_reaches_it_but_not_what_is_old(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        address = f"127.0.0.1:{free_port()}"
        async with way_to_one(address) as way:
            monkeypatch.setattr(peers, "KEPT_S", 0.0)
            way.send(told_to(1))
            await comes(lambda: bool(told(caplog)))  # and what is old by then is dropped at once
            monkeypatch.setattr(peers, "KEPT_S", WAIT_S)
            way.send([*told_to(2), *told_to(3)])
            await asyncio.sleep(0.2)
            other = Other()
            await other.listen(address)
            async with asyncio.timeout(WAIT_S):
                assert [await other.heard.get(), await other.heard.get()] == [2, 3]
            await other.die()

    asyncio.run(story())


def test_who_ends_every_stream_is_told_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "STEADY_S", WAIT_S)

    async def story() -> None:
        address = f"127.0.0.1:{free_port()}"
        other = Other(refuses=True)
        await other.listen(address)
        async with way_to_one(address) as way:
            for streams in range(1, 4):
                async with asyncio.timeout(WAIT_S):
                    while not other.had(streams):
                        way.send(told_to(1))  # one that went to the stream before is lost with it
                        await asyncio.sleep(0.05)
        await other.die()

    asyncio.run(story())
    (words,) = told(caplog)
    assert words.endswith(": not today")


def test_a_message_that_cannot_be_written_takes_no_other_with_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = wire.encode

    def fail_at_two(message: RaftMessage) -> pb.RaftMessage:
        if message.term == 2:
            raise ZeroDivisionError
        return encode(message)

    monkeypatch.setattr(wire, "encode", fail_at_two)

    async def story() -> None:
        address = f"127.0.0.1:{free_port()}"
        other = Other()
        await other.listen(address)
        async with way_to_one(address) as way:
            way.send([*told_to(1), *told_to(2), *told_to(3)])
            async with asyncio.timeout(WAIT_S):
                assert [await other.heard.get(), await other.heard.get()] == [1, 3]
        await other.die()

    asyncio.run(story())
    assert told(caplog) == ["a message to controller 1 can't be written"]
