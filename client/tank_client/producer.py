"""The asynchronous producer."""

import asyncio
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import nullcontext
from types import TracebackType
from typing import Any

from tank_client import errors
from tank_client.model import HeadersToSend, Stored
from tank_client.producing.accumulator import Accumulator, as_bytes
from tank_client.producing.input_columns import column_batches, record_headers, stamps_of
from tank_client.producing.partition_queue import MESSAGE_OVERHEAD_BYTES
from tank_client.producing.sender import Sender
from tank_client.routing.routes import check_topic
from tank_client.settings import ProducerSettings

_BUNDLES_PER_TURN = 4


class BundleDelivery(asyncio.Future[Stored]):
    """The result of one bundle, shared by its messages. A program may cancel its wait without harm to the
    others."""

    seen = False
    """Whether the program has looked at the result. `flush` raises a failure that it has not seen."""

    def result(self) -> Stored:
        """Returns the numbers of the bundle's messages, or raises its failure."""
        self.seen = True
        return super().result()

    def exception(self) -> BaseException | None:
        """Returns the failure; None when the bundle is stored."""
        self.seen = True
        return super().exception()

    def set_exception(self, exception: BaseException | type, /) -> None:
        """For the engine. A failure that the program doesn't look at causes no warning of asyncio: flush and
        close raise it.
        """
        super().set_exception(exception)
        super().exception()

    def __await__(self) -> Generator[Any, None, Stored]:
        if self.done():
            return self.result()
        return (yield from asyncio.shield(self).__await__())

    __iter__ = __await__


class Producer:
    """Sends messages in bundles. Made by `client.producer()`; an async context manager that flushes when it
    is left. For one event loop.

    Messages of one partition are stored in the order of their `send`s, also when they are sent again. A
    broker with producer ids stores each message once, however often it is sent. With another broker, a bundle
    whose outcome is unknown fails with OutcomeUnknown (`at_least_once`: it is sent again).
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
        self._accumulator = self._sender.accumulator

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
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersToSend | None = None,
    ) -> BundleDelivery:
        """Adds a message to its partition's bundle, and waits only while the buffer is full (raises
        BufferFull after max_block_ms).

        The returned delivery belongs to the bundle and is shared by its messages: it completes when they are
        stored, with the numbers of the first and the last. `partition` None: chosen by the key (see
        `tank_client.producing.partitioner`). `timestamp_ms` None: now.

        Topics of Kafka's format also take headers, keys of any length, an empty key, and None as the value,
        which deletes the key from a compacted topic. For other topics raises UnsupportedByFormat.
        """
        accumulator = self._accumulator
        if type(value) is not bytes and value is not None:
            value = as_bytes(value)
        found = record_headers(headers) if headers else ()
        known = accumulator.topics.get(topic)
        if known is None or known.stale:
            await self._learn(topic, partition)
        size = (0 if value is None else len(value)) + MESSAGE_OVERHEAD_BYTES
        if accumulator.held_bytes + size > self._buffer_bytes or self._sender.closed:
            await self._wait_for_room(size)
        stamp = int(time.time() * 1000) if timestamp_ms is None else stamps_of(1, timestamp_ms)[0]
        bundle = accumulator.add(topic, value, key, partition, stamp, found)
        if accumulator.news:
            await self._tell(accumulator)
        return bundle.delivery  # type: ignore[return-value]  # made by our new_delivery

    async def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None],
        *,
        keys: Iterable[bytes | None] | None = None,
        partition: int | None = None,
        timestamps_ms: Iterable[int] | int | None = None,
        headers: Iterable[HeadersToSend | None] | None = None,
    ) -> list[BundleDelivery]:
        """Adds many messages at once, at much less cost for each; returns the deliveries of their bundles, in
        order for each partition.

        Lists are checked as a whole before the first message is added. Generators are read in portions, so
        that little is held beside the buffer; when one raises, the messages before that stay in the producer.
        None in `values`, and `headers`: see `send`.
        """
        accumulator = self._accumulator
        deliveries: dict[BundleDelivery, None] = {}
        for batch in column_batches(values, keys, timestamps_ms, headers):
            known = accumulator.topics.get(topic)
            if known is None or known.stale:
                await self._learn(topic, partition)
            for place, run in accumulator.runs(topic, batch, partition):
                at = 0
                while at < len(run.values):
                    limit = self._settings.buffer_bytes
                    if self._sender.closed or accumulator.held_bytes >= limit:
                        await self._wait_for_room(1)
                    queue = accumulator.place(topic, None, place)
                    at, bundle = accumulator.extend(queue, run, at, limit - accumulator.held_bytes)
                    await self._tell(accumulator)
                    assert isinstance(bundle.delivery, BundleDelivery)
                    deliveries[bundle.delivery] = None
        return list(deliveries)

    @property
    def trouble(self) -> errors.TankError | None:
        """The last failure of a bundle that is not stored yet, and is sent again; None when there is none."""
        return self._accumulator.trouble

    async def flush(self) -> None:
        """Waits until all messages sent so far are stored. Raises the first failure since the last flush."""
        await self._sender.flush()

    async def close(self) -> None:
        """Flushes; afterwards the producer takes no more messages."""
        await self._sender.close()

    def abort(self) -> None:
        """Ends the producer at once. Messages that are not acknowledged yet fail with Closed; they may be
        stored.
        """
        self._sender.abort()

    async def _learn(self, topic: str, partition: int | None) -> None:
        check_topic(topic)
        await self._sender.learn(topic, partition)

    async def _tell(self, accumulator: Accumulator) -> None:
        """Wakes the engine. A program that sends without a pause yields to the loop here, once in a few
        bundles: often enough for the linger, rarely enough that bundles share a turn of the loop.
        """
        accumulator.news = False
        self._sender.wake()
        if accumulator.full >= _BUNDLES_PER_TURN:
            accumulator.full = 0
            await asyncio.sleep(0)

    async def _wait_for_room(self, size: int) -> None:
        limit = self._settings.buffer_bytes
        try:
            async with asyncio.timeout(self._settings.max_block_ms / 1000):
                while (
                    not self._sender.closed
                    and self._accumulator.held_bytes
                    and self._accumulator.held_bytes + size > limit
                ):
                    self._sender.seal_all()
                    waiter = asyncio.get_running_loop().create_future()
                    self._waiters.append(waiter)
                    await waiter
        except TimeoutError:
            raise errors.BufferFull(buffer_full(self._accumulator, self._settings)) from None
        if self._sender.closed:
            raise errors.Closed("the producer is closed: make a new one")

    def _room(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def buffer_full(accumulator: Accumulator, settings: ProducerSettings) -> str:
    """The message of BufferFull."""
    return (
        f"{accumulator.held_bytes} bytes wait for acknowledgement and none came within "
        f"{settings.max_block_ms} ms: the broker is slower than this program, or away; send less, "
        "or raise buffer_bytes"
    )
