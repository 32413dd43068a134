"""A scripted broker in a thread of its own, for clients without an event loop."""

import asyncio
import threading
from typing import Self

from tests.support.clients.scripted_broker import Kind, ScriptedBroker
from tests.support.patience import patient


class ThreadedBroker:
    """A broker with topic t (two partitions), for `with`."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.broker = ScriptedBroker(kind, {"t": 2})
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    @property
    def address(self) -> str:
        return self.broker.address

    def values(self, partition: int) -> list[bytes]:
        """What it has stored of t."""
        return self.broker.topics["t"][partition].values()

    def __enter__(self) -> Self:
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self.broker.start(), self.loop).result(patient(10))
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.broker.stop(), self.loop).result(patient(10))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(patient(10))
        self.loop.close()
