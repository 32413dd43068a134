"""A broker's process and its line: it does not outlive it unnoticed."""

import asyncio
from pathlib import Path

import pytest

from tank_node import cluster_process
from tank_node.cluster_process import ClusterNodeProcess, RefusedError
from tank_node.config import load
from tank_node.controllers.session import ControllerSession
from tank_node.network.loop import TickLoop
from tank_node.process import Started
from tank_protos.generated import control_pb2 as pb


class Line:
    def send(self, message: pb.BrokerUp) -> None:
        """To nobody."""

    def end(self) -> None:
        """Nothing to end."""


class BreakingChannel:
    """Registers the broker, and has a fault as soon as it serves."""

    serves: asyncio.Event

    def __init__(self, session: ControllerSession) -> None:
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
    flags: dict[str, str | None] = {
        "data": str(tmp_path), "listen": "127.0.0.1:0", "http": "127.0.0.1:0", "broker_id": "1",
    }  # fmt: skip
    seen: list[Started] = []

    async def live() -> None:
        BreakingChannel.serves = asyncio.Event()

        def announce(started: Started) -> None:
            seen.append(started)
            BreakingChannel.serves.set()

        await ClusterNodeProcess(load(flags, {}), ["nowhere:1"], "c").run(announce)

    with asyncio.Runner(loop_factory=TickLoop) as runner, pytest.raises(RefusedError, match="start it again"):
        runner.run(live())
    assert len(seen) == 1
