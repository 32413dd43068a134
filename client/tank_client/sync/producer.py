"""The synchronous producer: messages go into the lanes from the caller's thread, everything else happens in
the loop's."""

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType

from tank_client import errors
from tank_client.client import Client as AsyncClient
from tank_client.model import Stored
from tank_client.producer import buffer_full
from tank_client.producing.accumulator import as_bytes
from tank_client.producing.input_columns import portions, stamps_of
from tank_client.producing.partition_queue import MESSAGE_OVERHEAD_BYTES, Delivery
from tank_client.producing.sender import Sender
from tank_client.routing.routes import check_topic
from tank_client.settings import ProducerSettings
from tank_client.sync.loop_thread import LoopThread


class BundleDelivery(Future[Stored]):
    """The outcome of one bundle, shared by its messages."""

    seen = False
    """Whether the program has looked at the outcome. A failure that it has not seen is raised by flush."""

    def result(self, timeout: float | None = None) -> Stored:
        """The numbers that the bundle got, or its failure, raised."""
        self.seen = True
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The failure; None: it is stored."""
        self.seen = True
        return super().exception(timeout)


def _new_future() -> BundleDelivery:
    future = BundleDelivery()
    # It is the bundle's: one message's owner must not cancel it for the others.
    future.set_running_or_notify_cancel()
    return future


class Producer:
    """Sends messages in bundles; see `tank_client.Producer`. Safe for several threads; messages of one
    thread keep their order."""

    def __init__(
        self, owner: object, client: AsyncClient, thread: LoopThread, settings: ProducerSettings
    ) -> None:
        self._owner = owner
        """The client, which would end as garbage if only its producer were kept."""
        self._settings = settings
        self._thread = thread
        self._lock = threading.RLock()
        self._freed = threading.Condition(self._lock)
        self._blocked = 0
        self._wake_posted = False

        async def make() -> Sender:
            return client._sender(settings, new_delivery=_new_future, lock=self._lock, on_room=self._room)

        self._sender = thread.run(make())
        self._lanes = self._sender.lanes

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
        value: bytes,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> "Future[Stored]":
        """Adds a message to its partition's bundle; blocks only while there is no room (BufferFull after
        max_block_ms).

        The future is the bundle's, shared by its messages."""
        if type(value) is not bytes:
            value = as_bytes(value)
        known = self._lanes.topics.get(topic)
        if known is None or known.stale:
            self._learn(topic, partition)
        if self._thread.forked:
            self._thread.check()  # nobody here would send it
        stamp = int(time.time() * 1000) if timestamp_ms is None else stamps_of(1, timestamp_ms)[0]
        size = len(value) + MESSAGE_OVERHEAD_BYTES
        with self._lock:
            if self._lanes.held_bytes + size > self._settings.buffer_bytes or self._sender.closed:
                self._wait_for_room(size)
            bundle = self._lanes.add(topic, value, key, partition, stamp)
            if self._lanes.news:
                self._wake()
            return bundle.delivery  # type: ignore[return-value]  # made by _new_future

    def send_many(
        self,
        topic: str,
        values: Iterable[bytes],
        *,
        keys: Iterable[bytes | None] | None = None,
        partition: int | None = None,
        timestamps_ms: Iterable[int] | int | None = None,
    ) -> "list[Future[Stored]]":
        """Many messages at once, much cheaper for each; the futures of the bundles that they went into, in
        order for each partition. Lists and generators: see `tank_client.Producer.send_many`."""
        lanes = self._lanes
        deliveries: dict[Future[Stored], None] = {}
        for batch in portions(values, keys, timestamps_ms):
            self._thread.check()
            self._learn(topic, partition)
            for place, run in lanes.runs(topic, batch, partition):
                at = 0
                while at < len(run.values):
                    with self._lock:
                        self._wait_for_room(1)
                        lane = lanes.place(topic, None, place)
                        free_bytes = self._settings.buffer_bytes - lanes.held_bytes
                        at, bundle = lanes.extend(lane, run, at, free_bytes)
                        self._wake()
                    deliveries[_future(bundle.delivery)] = None
        return list(deliveries)

    @property
    def trouble(self) -> errors.TankError | None:
        """The last failure of something that is not stored yet and tried again; None: nothing is."""
        with self._lock:
            return self._lanes.trouble

    def flush(self) -> None:
        """Waits until everything sent so far is stored; raises the first failure since the last flush."""
        self._thread.run(self._sender.flush())

    def close(self) -> None:
        """flush, then no more."""
        if not self._sender.closed and self._thread.alive:
            self._thread.run(self._sender.close())

    def abort(self) -> None:
        """Ends it at once; what is not acknowledged yet fails with Closed, and may be stored."""

        async def abort() -> None:
            self._sender.abort()

        if not self._sender.closed and self._thread.alive:
            self._thread.run(abort())

    def _end(self, why: str) -> None:
        async def end() -> None:
            self._sender.give_up(why)

        if not self._sender.closed and self._thread.alive:
            self._thread.run(end())

    def _learn(self, topic: str, partition: int | None) -> None:
        known = self._lanes.topics.get(topic)
        if known is None or known.stale:
            check_topic(topic)
            self._thread.run(self._sender.learn(topic, partition))

    def _wait_for_room(self, size: int) -> None:
        """With the lock held."""
        lanes, limit = self._lanes, self._settings.buffer_bytes
        if self._sender.closed:
            self._thread.check()
            raise errors.Closed("the producer is closed: make a new one")
        if not lanes.held_bytes or lanes.held_bytes + size <= limit:
            return
        self._thread.check()
        self._thread.post(self._sender.seal_all)
        self._blocked += 1
        try:
            free = self._freed.wait_for(
                lambda: self._sender.closed or not lanes.held_bytes or lanes.held_bytes + size <= limit,
                self._settings.max_block_ms / 1000,
            )
        finally:
            self._blocked -= 1
        if not free:
            raise errors.BufferFull(buffer_full(lanes, self._settings))
        if self._sender.closed:
            raise errors.Closed("the producer is closed: make a new one")

    def _room(self) -> None:
        if self._blocked:
            self._freed.notify_all()

    def _wake(self) -> None:
        """With the lock held: the loop is to look, once for many messages."""
        self._lanes.news = False
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
