"""The asynchronous producer."""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import nullcontext
from types import TracebackType
from typing import Any

from tank_client import errors
from tank_client.model import Stored
from tank_client.producing.accumulator import Lanes, as_bytes
from tank_client.producing.input_columns import portions, stamps_of
from tank_client.producing.partition_queue import MESSAGE_OVERHEAD_BYTES
from tank_client.producing.sender import Sender
from tank_client.routing.routes import check_topic
from tank_client.settings import ProducerSettings

_BUNDLES_PER_TURN = 4


class BundleDelivery(asyncio.Future[Stored]):
    """The outcome of one bundle, shared by its messages. Awaiting it can be cancelled without harm to the
    others."""

    seen = False
    """Whether the program has looked at the outcome. A failure that it has not seen is raised by flush."""

    def result(self) -> Stored:
        """The numbers that the bundle got, or its failure, raised."""
        self.seen = True
        return super().result()

    def exception(self) -> BaseException | None:
        """The failure; None: it is stored."""
        self.seen = True
        return super().exception()

    def set_exception(self, exception: BaseException | type, /) -> None:
        """For the engine. A failure that is not looked at is no fault: flush and close raise it."""
        super().set_exception(exception)
        super().exception()

    def __await__(self) -> Generator[Any, None, Stored]:
        if self.done():
            return self.result()
        return (yield from asyncio.shield(self).__await__())

    __iter__ = __await__


class Producer:
    """Sends messages in bundles. Made by `client.producer()`; an async context manager that flushes at its
    end.

    Order: messages of one partition are stored in the order of their `send`s, over retries too. Where the
    broker has producer ids, each is stored once however often it has to be sent; else a bundle whose
    outcome is unknown fails with OutcomeUnknown (`at_least_once`: it is sent again). Not for use by several
    event loops.
    """

    def __init__(self, make_sender: Callable[..., Sender], settings: ProducerSettings) -> None:
        self._settings = settings
        self._buffer_bytes = settings.buffer_bytes
        self._waiters: list[asyncio.Future[None]] = []
        loop = asyncio.get_running_loop()
        self._sender = make_sender(
            settings,
            new_delivery=lambda: BundleDelivery(loop=loop),
            lock=nullcontext(),
            on_room=self._room,
        )
        self._lanes = self._sender.lanes

    async def __aenter__(self) -> "Producer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            self._sender.give_up("the producer's block ended with an exception")

    async def send(
        self,
        topic: str,
        value: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> BundleDelivery:
        """Adds a message to its partition's bundle, waiting only while there is no room (BufferFull after
        max_block_ms).

        The future is the bundle's, shared by its messages: await it to know that the message is stored, and
        in which stretch of numbers. `partition` None: by the key (see `tank_client.producing.partitioner`).
        `timestamp_ms` None: now."""
        lanes = self._lanes
        if type(value) is not bytes:
            value = as_bytes(value)
        known = lanes.topics.get(topic)
        if known is None or known.stale:
            await self._learn(topic, partition)
        size = len(value) + MESSAGE_OVERHEAD_BYTES
        if lanes.held_bytes + size > self._buffer_bytes or self._sender.closed:
            await self._wait_for_room(size)
        stamp = int(time.time() * 1000) if timestamp_ms is None else stamps_of(1, timestamp_ms)[0]
        bundle = lanes.add(topic, value, key, partition, stamp)
        if lanes.news:
            await self._tell(lanes)
        return bundle.delivery  # type: ignore[return-value]  # made by our new_delivery

    async def send_many(
        self,
        topic: str,
        values: Iterable[bytes],
        *,
        keys: Iterable[bytes | None] | None = None,
        partition: int | None = None,
        timestamps_ms: Iterable[int] | int | None = None,
    ) -> list[BundleDelivery]:
        """Many messages at once, much cheaper for each; the futures of the bundles that they went into, in
        order for each partition.

        Lists are looked at as a whole before the first message is taken. Generators are taken in portions:
        little is held beside the buffer, and one that fails leaves what came before it."""
        lanes = self._lanes
        deliveries: dict[BundleDelivery, None] = {}
        for batch in portions(values, keys, timestamps_ms):
            known = lanes.topics.get(topic)
            if known is None or known.stale:
                await self._learn(topic, partition)
            for place, run in lanes.runs(topic, batch, partition):
                at = 0
                while at < len(run.values):
                    limit = self._settings.buffer_bytes
                    if self._sender.closed or lanes.held_bytes >= limit:
                        await self._wait_for_room(1)
                    lane = lanes.place(topic, None, place)
                    at, bundle = lanes.extend(lane, run, at, limit - lanes.held_bytes)
                    await self._tell(lanes)
                    assert isinstance(bundle.delivery, BundleDelivery)
                    deliveries[bundle.delivery] = None
        return list(deliveries)

    @property
    def trouble(self) -> errors.TankError | None:
        """The last failure of something that is not stored yet and tried again; None: nothing is."""
        return self._lanes.trouble

    async def flush(self) -> None:
        """Waits until everything sent so far is stored; raises the first failure since the last flush."""
        await self._sender.flush()

    async def close(self) -> None:
        """flush, then no more."""
        await self._sender.close()

    def abort(self) -> None:
        """Ends it at once; what is not acknowledged yet fails with Closed, and may be stored."""
        self._sender.abort()

    async def _learn(self, topic: str, partition: int | None) -> None:
        check_topic(topic)
        await self._sender.learn(topic, partition)

    async def _tell(self, lanes: Lanes) -> None:
        """The engine is to look. A program that sends without a pause lets the loop run here, once in a few
        bundles: often enough for the linger, seldom enough to share a turn of the loop among them."""
        lanes.news = False
        self._sender.wake()
        if lanes.full >= _BUNDLES_PER_TURN:
            lanes.full = 0
            await asyncio.sleep(0)

    async def _wait_for_room(self, size: int) -> None:
        limit = self._settings.buffer_bytes
        try:
            async with asyncio.timeout(self._settings.max_block_ms / 1000):
                while (
                    not self._sender.closed
                    and self._lanes.held_bytes
                    and self._lanes.held_bytes + size > limit
                ):
                    self._sender.seal_all()
                    waiter = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
        except TimeoutError:
            raise errors.BufferFull(buffer_full(self._lanes, self._settings)) from None
        if self._sender.closed:
            raise errors.Closed("the producer is closed: make a new one")

    def _room(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def buffer_full(lanes: Lanes, settings: ProducerSettings) -> str:
    """The message of BufferFull."""
    return (
        f"{lanes.held_bytes} bytes wait for acknowledgement and none came within {settings.max_block_ms} ms: "
        "the broker is slower than this program, or away; send less, or raise buffer_bytes"
    )
