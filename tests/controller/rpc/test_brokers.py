"""The gRPC services for brokers: an exception behind them is logged, and ends one stream."""

import asyncio
import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from tank_controller.rpc.brokers import BrokersService
from tank_protos.generated import control_pb2 as pb
from tests.support.waiting import run


class FailingStreams:
    """Whatever a broker says is too much for it."""

    def __init__(self) -> None:
        self.closed_streams: list[object] = []

    def opened(self, line: object) -> object:
        return line

    def received(self, stream: object, up: pb.BrokerUp) -> None:
        raise ZeroDivisionError

    def closed(self, stream: object) -> None:
        self.closed_streams.append(stream)


def test_a_fault_behind_the_service_ends_the_stream_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    brokers = FailingStreams()
    host: Any = SimpleNamespace(node=SimpleNamespace(brokers=brokers), birth=None)

    async def broker() -> AsyncIterator[pb.BrokerUp]:
        yield pb.BrokerUp()
        await asyncio.sleep(60)

    async def story() -> list[pb.BrokerDown]:
        context: Any = None
        return [down async for down in BrokersService(host).Session(broker(), context)]

    with caplog.at_level(logging.ERROR):
        assert run(story(), 20) == []
    assert "ended a broker's stream" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert brokers.closed_streams
