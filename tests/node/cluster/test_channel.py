"""The task that carries a broker's line: what fails in it ends it, and who cancels it is obeyed."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import grpc
import grpc.aio
import pytest

from tank_node.cluster import channel
from tank_node.cluster.channel import ControllerChannel
from tank_node.cluster.registration import Registration
from tank_node.cluster.stream import ControllerLine, ControllerStream
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.control_pb2_grpc import BrokersServicer, add_BrokersServicer_to_server
from tests.support.manual_clock import ManualClock
from tests.support.patience import patient

WAIT_S = patient(20.0)


class Controller(BrokersServicer):
    """Takes every broker, then says nothing more."""

    async def Session(
        self, requests: AsyncIterator[pb.BrokerUp], context: object
    ) -> AsyncIterator[pb.BrokerDown]:
        async for _ in requests:
            yield pb.BrokerDown(registered=pb.Registered(broker_epoch=1, index=1))


class Session(ControllerStream):
    """A broker's, with a fault of the test's choice."""

    def __init__(self, port: int) -> None:
        registration = Registration(b"i" * 16, b"d" * 16, True, "here", 11011)
        super().__init__("c", 1, [f"127.0.0.1:{port}"], registration, ManualClock(), lambda below: 0)
        self.line: ControllerLine | None = None
        self.heard = asyncio.Event()
        self.on_received: Callable[[], None] = self.heard.set
        self.on_tick: Callable[[], None] = lambda: None

    def opened(self, line: ControllerLine) -> None:
        self.line = line
        super().opened(line)

    def received(self, line: ControllerLine, down: pb.BrokerDown) -> None:
        super().received(line, down)
        self.on_received()

    def tick(self) -> None:
        super().tick()
        self.on_tick()


def connected(story: Callable[[Session], Coroutine[Any, Any, None]]) -> None:
    """Plays a story with a session whose controller runs."""

    async def play() -> None:
        server = grpc.aio.server()
        add_BrokersServicer_to_server(Controller(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            await story(Session(port))
        finally:
            await server.stop(0)

    asyncio.run(play())


def fail() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("where", ["on_received", "on_tick"])
def test_whatever_fails_in_one_half_ends_both(where: str) -> None:
    async def story(session: Session) -> None:
        setattr(session, where, fail)
        running = asyncio.create_task(ControllerChannel(session).run())
        await asyncio.wait([running], timeout=WAIT_S)
        assert isinstance(running.exception(), ExceptionGroup)
        assert {task for task in asyncio.all_tasks() if "ControllerChannel" in repr(task.get_coro())} == set()

    connected(story)


def test_a_controller_that_is_not_there_is_passed_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "CONNECT_S", 1000.0)

    async def story(session: Session) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        alone = Session(port)
        left = asyncio.Event()
        monkeypatch.setattr(alone, "closed", lambda line, why: left.set())
        running = asyncio.create_task(ControllerChannel(alone).run())
        async with asyncio.timeout(WAIT_S):
            await left.wait()
        running.cancel()
        await asyncio.wait([running], timeout=WAIT_S)
        assert running.cancelled()

    connected(story)


@pytest.mark.parametrize("turns", range(5))
def test_it_ends_when_cancelled_even_at_the_moment_of_a_refusal(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, refused = asyncio.Event(), asyncio.Event()

    async def refuse(_: grpc.aio.Channel) -> None:
        asked.set()
        await refused.wait()
        raise ConnectionRefusedError

    monkeypatch.setattr(channel, "_connected", refuse)

    async def story(session: Session) -> None:
        running = asyncio.create_task(ControllerChannel(session).run())
        async with asyncio.timeout(WAIT_S):
            await asked.wait()
        refused.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=patient(1))
        assert running.cancelled()

    connected(story)


class Unanswered:
    """A stream that ends as who reads it is cancelled: gRPC makes an end of the stream of both."""

    def __init__(self) -> None:
        self.read_from = asyncio.Event()

    async def read(self) -> pb.BrokerDown:
        self.read_from.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata())

    async def write(self, message: pb.BrokerUp) -> None: ...


def test_it_ends_when_cancelled_even_as_its_stream_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(session: Session) -> None:
        call = Unanswered()
        monkeypatch.setattr(channel, "BrokersStub", lambda _: SimpleNamespace(Session=lambda metadata: call))
        running = asyncio.create_task(ControllerChannel(session).run())
        async with asyncio.timeout(WAIT_S):
            await call.read_from.wait()
        running.cancel()
        await asyncio.wait([running], timeout=patient(1))
        assert running.cancelled()

    connected(story)


def test_it_ends_when_cancelled_even_while_its_stream_is_being_given_up() -> None:
    async def story(session: Session) -> None:
        running = asyncio.create_task(ControllerChannel(session).run())
        async with asyncio.timeout(WAIT_S):
            await session.heard.wait()
        session.restart()
        running.cancel()
        await asyncio.wait([running], timeout=WAIT_S)
        assert running.cancelled()

    connected(story)
