"""A node with real sockets in a thread of the test's own process, with limits of the test's choice."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from tank_node.broker.broker import Broker
from tank_node.clock import SystemClock
from tank_node.disk import OsDisk
from tank_node.kafka import dispatch as kafka_dispatch
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.server.listener import Listener
from tank_node.server.loop import TickLoop
from tank_node.server.server import Server
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tank_node.tank import dispatch
from tests.support.controllers.instant_controller import InstantController
from tests.support.patience import patient

T = TypeVar("T")


class ServedNode:
    """Serves as long as its `with` block runs. `on_loop` runs a function where the node's objects may
    be touched."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.controller = InstantController()
        self.metrics = Metrics()
        self.port = 0
        self.kafka_port = 0
        self._folder = folder
        self._loop = TickLoop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started: Future[None] = Future()
        self._stopping = asyncio.Event()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            raise

    async def _serve(self) -> None:
        disk, clock = OsDisk(), SystemClock()
        data_folder = DataFolder.open(str(self._folder), disk, clock)
        flusher = Flusher(disk, self._post)
        self.broker = Broker(data_folder, self.controller, flusher, clock, self.limits, self.metrics)
        self.broker.open()
        self.server = Server(
            self.broker,
            self._loop,
            [
                Listener(("127.0.0.1", 0), partial(dispatch.open_session, self.broker)),
                Listener(("127.0.0.1", 0), partial(kafka_dispatch.open_session, self.broker)),
            ],
            self.limits,
            self.metrics,
        )
        [(_, self.port), (_, self.kafka_port)] = await self.server.start()
        self._started.set_result(None)
        await self._stopping.wait()
        await self.server.stop(1.0)
        self.broker.close()

    def _post(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(call)

    def on_loop(self, function: Callable[[], T]) -> T:
        """What the function returns, called on the node's thread."""

        async def call() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(patient(20))

    def stop(self) -> None:
        """An orderly stop, as at SIGTERM."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(patient(20))
        assert not self._thread.is_alive(), "the node did not stop"

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(patient(20))
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self.stop()
        self._loop.close()
