"""The synchronous producer: it gathers messages in the caller's thread; the loop's thread does the rest."""

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType

from tank_client import errors
from tank_client.client import Client as AsyncClient
from tank_client.model import HeadersToSend, Stored
from tank_client.producer import buffer_full
from tank_client.producing.accumulator import as_bytes
from tank_client.producing.input_columns import column_batches, record_headers, stamps_of
from tank_client.producing.partition_queue import MESSAGE_OVERHEAD_BYTES, Delivery
from tank_client.producing.sender import Sender
from tank_client.routing.routes import check_topic
from tank_client.settings import ProducerSettings
from tank_client.sync.loop_thread import LoopThread


class BundleDelivery(Future[Stored]):
    """The result of one bundle, shared by its messages."""

    seen = False
    """Whether the program has looked at the result. `flush` raises a failure that it has not seen."""

    def result(self, timeout: float | None = None) -> Stored:
        """Returns the numbers of the bundle's messages, or raises its failure."""
        self.seen = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the failure; None when the bundle is stored."""
        self.seen = True
        return super().exception(timeout)


def _new_future() -> BundleDelivery:
    future = BundleDelivery()
    # The delivery belongs to the bundle: the sender of one message must not cancel it for the others.
    future.set_running_or_notify_cancel()
    return future


class Producer:
    """Sends messages in bundles; see `tank_client.Producer`. Safe for several threads; messages of one
    thread keep their order."""

    def __init__(
        self, owner: object, client: AsyncClient, thread: LoopThread, settings: ProducerSettings
    ) -> None:
        self._owner = owner
        """A reference to the client, which would be collected as garbage while only its producer is used."""
        self._settings = settings
        self._thread = thread
        self._lock = threading.RLock()
        self._freed = threading.Condition(self._lock)
        self._blocked = 0
        self._wake_posted = False

        async def make() -> Sender:
            return client._sender(settings, new_delivery=_new_future, lock=self._lock, on_room=self._room)

        self._sender = thread.run(make)
        self._accumulator = self._sender.accumulator

    def __enter__(self) -> "Producer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._end("the producer's block ended with an exception")

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersToSend | None = None,
    ) -> "Future[Stored]":
        """Adds a message to its partition's bundle, and blocks only while the buffer is full (raises
        BufferFull after max_block_ms). The returned delivery belongs to the bundle, and is shared by its
        messages.
        """
        if type(value) is not bytes and value is not None:
            value = as_bytes(value)
        found = record_headers(headers) if headers else ()
        known = self._accumulator.topics.get(topic)
        if known is None or known.stale:
            self._learn(topic, partition)
        if self._thread.forked:
            self._thread.check()  # after a fork, no thread of this process would send the message
        stamp = int(time.time() * 1000) if timestamp_ms is None else stamps_of(1, timestamp_ms)[0]
        size = (0 if value is None else len(value)) + MESSAGE_OVERHEAD_BYTES
        with self._lock:
            if self._accumulator.held_bytes + size > self._settings.buffer_bytes or self._sender.closed:
                self._wait_for_room(size)
            bundle = self._accumulator.add(topic, value, key, partition, stamp, found)
            if self._accumulator.news:
                self._wake()
            return bundle.delivery  # type: ignore[return-value]  # made by _new_future

    def send_many(
        self,
        topic: str,
        values: Iterable[bytes | None],
        *,
        keys: Iterable[bytes | None] | None = None,
        partition: int | None = None,
        timestamps_ms: Iterable[int] | int | None = None,
        headers: Iterable[HeadersToSend | None] | None = None,
    ) -> "list[Future[Stored]]":
        """Adds many messages at once, at much less cost for each; returns the deliveries of their bundles, in
        order for each partition. Lists and generators: see `tank_client.Producer.send_many`."""
        accumulator = self._accumulator
        deliveries: dict[Future[Stored], None] = {}
        for batch in column_batches(values, keys, timestamps_ms, headers):
            self._thread.check()
            self._learn(topic, partition)
            for place, run in accumulator.runs(topic, batch, partition):
                at = 0
                while at < len(run.values):
                    with self._lock:
                        self._wait_for_room(1)
                        queue = accumulator.place(topic, None, place)
                        free_bytes = self._settings.buffer_bytes - accumulator.held_bytes
                        at, bundle = accumulator.extend(queue, run, at, free_bytes)
                        self._wake()
                    deliveries[_future(bundle.delivery)] = None
        return list(deliveries)

    @property
    def trouble(self) -> errors.TankError | None:
        """The last failure of a bundle that is not stored yet and is sent again; None when there is none."""
        with self._lock:
            return self._accumulator.trouble

    def flush(self) -> None:
        """Waits until all messages sent so far are stored. Raises the first failure since the last flush."""
        self._thread.run(self._sender.flush)

    def close(self) -> None:
        """Flushes; afterwards the producer takes no more messages."""
        if not self._sender.closed and self._thread.alive:
            self._thread.run(self._sender.close)

    def abort(self) -> None:
        """Ends the producer at once. Messages that are not acknowledged yet fail with Closed; they may be
        stored.
        """

        async def abort() -> None:
            self._sender.abort()

        if not self._sender.closed and self._thread.alive:
            self._thread.run(abort)

    def _end(self, why: str) -> None:
        async def end() -> None:
            self._sender.give_up(why)

        if not self._sender.closed and self._thread.alive:
            self._thread.run(end)

    def _learn(self, topic: str, partition: int | None) -> None:
        known = self._accumulator.topics.get(topic)
        if known is None or known.stale:
            check_topic(topic)
            self._thread.run(self._sender.learn, topic, partition)

    def _wait_for_room(self, size: int) -> None:
        """Waits until the buffer has room. Called with the lock held."""
        accumulator, limit = self._accumulator, self._settings.buffer_bytes
        if self._sender.closed:
            self._thread.check()
            raise errors.Closed("the producer is closed: make a new one")
        if not accumulator.held_bytes or accumulator.held_bytes + size <= limit:
            return
        self._thread.check()
        self._thread.post(self._sender.seal_all)
        self._blocked += 1
        try:
            free = self._freed.wait_for(
                lambda: (
                    self._sender.closed
                    or not accumulator.held_bytes
                    or accumulator.held_bytes + size <= limit
                ),
                self._settings.max_block_ms / 1000,
            )
        finally:
            self._blocked -= 1
        if not free:
            raise errors.BufferFull(buffer_full(accumulator, self._settings))
        if self._sender.closed:
            raise errors.Closed("the producer is closed: make a new one")

    def _room(self) -> None:
        if self._blocked:
            self._freed.notify_all()

    def _wake(self) -> None:
        """Wakes the engine in the loop's thread, once for many messages. Called with the lock held."""
        self._accumulator.news = False
        if not self._wake_posted:
            self._wake_posted = True
            self._thread.post(self._wake_now)

    def _wake_now(self) -> None:
        with self._lock:
            self._wake_posted = False
        self._sender.wake()


def _future(delivery: Delivery) -> "Future[Stored]":
    assert isinstance(delivery, Future)
    return delivery
