"""A broker's process and its line: it does not outlive it unnoticed."""

import asyncio
import os
import signal
from pathlib import Path

import aiohttp
import pytest

from tank_node.app import cluster_process
from tank_node.app.cluster_process import ClusterNodeProcess, RefusedError
from tank_node.app.config import load
from tank_node.app.process import Started
from tank_node.cluster.stream import ControllerStream
from tank_node.server.loop import TickLoop
from tank_protos.generated import control_pb2 as pb
from tests.support.processes.ports import free_port


class Line:
    def send(self, message: pb.BrokerUp) -> None:
        """To nobody."""

    def end(self) -> None:
        """Nothing to end."""


async def belongs_to_c(controllers: list[str], *more: object) -> str:
    return "c"


def flags(folder: Path, **more: str) -> dict[str, str | None]:
    return {
        "data": str(folder), "listen": "127.0.0.1:0", "http": "127.0.0.1:0", "broker_id": "1", **more
    }  # fmt: skip


class BreakingChannel:
    """Registers the broker, and has a fault as soon as it serves."""

    serves: asyncio.Event

    def __init__(self, session: ControllerStream, prover: object, resolver: object) -> None:
        self._session = session

    async def run(self) -> None:
        line = Line()
        self._session.opened(line)
        registered = pb.Registered(broker_epoch=1, index=1, session_timeout_ms=60_000)
        self._session.received(line, pb.BrokerDown(registered=registered))
        delta = pb.Delta(index=1, brokers=[pb.Broker(broker_id=1, epoch=1)])
        self._session.received(line, pb.BrokerDown(view=pb.ViewUpdate(delta=delta, whole=True)))
        await self.serves.wait()
        raise ZeroDivisionError


def test_a_line_that_ends_by_a_fault_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_process, "ControllerChannel", BreakingChannel)
    monkeypatch.setattr(cluster_process, "find_cluster_id", belongs_to_c)
    seen: list[Started] = []

    async def live() -> None:
        BreakingChannel.serves = asyncio.Event()

        def announce(started: Started) -> None:
            seen.append(started)
            BreakingChannel.serves.set()

        await ClusterNodeProcess(load(flags(tmp_path), {}), ["nowhere:1"]).run(announce)

    with asyncio.Runner(loop_factory=TickLoop) as runner, pytest.raises(RefusedError, match="start the"):
        runner.run(live())
    assert len(seen) == 1


class SilentChannel:
    """No controller answers."""

    def __init__(self, session: ControllerStream, prover: object, resolver: object) -> None:
        """Nobody is asked."""

    async def run(self) -> None:
        await asyncio.Event().wait()


async def waits(controllers: list[str], *more: object) -> str:
    await asyncio.Event().wait()
    return ""


@pytest.mark.parametrize(
    ("find", "said"),
    [(waits, "waits for a controller that belongs to a cluster"), (belongs_to_c, "registered it")],
)
def test_probes_are_answered_while_it_waits_for_controllers_and_it_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, find: object, said: str
) -> None:
    monkeypatch.setattr(cluster_process, "ControllerChannel", SilentChannel)
    monkeypatch.setattr(cluster_process, "find_cluster_id", find)
    http = f"127.0.0.1:{free_port()}"

    async def get(client: aiohttp.ClientSession, page: str) -> tuple[int, str]:
        async with client.get(f"http://{http}{page}") as answer:
            return answer.status, await answer.text()

    async def live() -> None:
        config = load(flags(tmp_path, http=http), {})
        running = asyncio.create_task(ClusterNodeProcess(config, ["nowhere:1"]).run(lambda started: None))
        async with aiohttp.ClientSession() as client:
            while True:
                assert not running.done()
                try:
                    status, text = await get(client, "/readyz")
                except aiohttp.ClientConnectionError:
                    await asyncio.sleep(0.01)
                    continue
                if said in text:
                    break
                await asyncio.sleep(0.01)
            assert status == 503
            assert (await get(client, "/healthz"))[0] == 200
            assert "tank_ready 0.0" in (await get(client, "/metrics"))[1]
        os.kill(os.getpid(), signal.SIGTERM)
        await running

    with asyncio.Runner(loop_factory=TickLoop) as runner, pytest.raises(RefusedError, match="was stopped"):
        runner.run(live())
