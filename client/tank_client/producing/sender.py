"""The producer's engine, shared by both faces: takes bundles out of the accumulator, sends them, and handles
the answers.

It runs in the event loop. The asynchronous face adds messages to the accumulator from the same loop; the
synchronous one from any thread, under `lock`, which this engine takes when it touches the accumulator.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from tank_client import errors
from tank_client.admin import Admin
from tank_client.model import Address, ProducerIdentity, Route, Stored
from tank_client.producing import unstored
from tank_client.producing.accumulator import Accumulator, TopicQueues
from tank_client.producing.delivery import Deliveries, judge, timed_out
from tank_client.producing.encoding import encode_bundle
from tank_client.producing.partition_queue import Delivery, PartitionQueue, PendingBundle
from tank_client.producing.partitioner import key_hash
from tank_client.producing.topic_format import TopicFormat, format_of
from tank_client.routing.calls import Calls
from tank_client.settings import ProducerSettings
from tank_client.wire import state_operations
from tank_client.wire.data_operations import BundleToStore, produce_request, read_produce
from tank_client.wire.operations import has
from tank_client.wire.transport import BrokerTransport

_FOREVER_MS = 3_600_000.0


class Sender:
    """Sends what the accumulator holds. `on_room` is called, with the lock held, when memory became free."""

    def __init__(
        self,
        calls: Calls,
        settings: ProducerSettings,
        *,
        new_delivery: Callable[[], Delivery],
        lock: AbstractContextManager[object],
        on_room: Callable[[], None],
        on_close: Callable[["Sender"], object],
    ) -> None:
        self._calls = calls
        self._settings = settings
        self._lock = lock
        self._on_room = on_room
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self.accumulator = Accumulator(
            batch_bytes=settings.batch_bytes,
            max_in_flight=settings.max_in_flight_per_partition,
            new_delivery=new_delivery,
            key_hash=key_hash(settings.partitioner),
            random=calls.random,
            now_ms=self.now_ms,
        )
        self._identity: ProducerIdentity | None = None
        self._prepared = False
        self._wake_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Waits under way, by their subject, so that each is begun once.
        self._awaited: set[Hashable] = set()
        self._deliveries = Deliveries(self.accumulator, on_room)
        self._unlisten = calls.leaders.listen(self._on_leaders)
        self.closed = False
        unstored.watch(self)

    # For the faces

    @property
    def held_messages(self) -> int:
        """The number of messages that have no outcome yet."""
        with self._lock:
            return sum(bundle.messages for bundle in self.accumulator.unfinished.values())

    def now_ms(self) -> float:
        """The time of the loop's clock; any thread may call this."""
        return self._loop.time() * 1000

    async def learn(self, topic: str, partition: int | None) -> None:
        """Before the first message of a topic, within `max_block_ms`: asks for the broker's features and the
        topic's number of partitions. Raises ServerUnreachable, RequestTimedOut, or the broker's error.
        """
        calls = self._calls.within(self._settings.max_block_ms)
        await self._prepare(calls)
        known = self.accumulator.topics.get(topic)
        if known is not None and not known.stale:
            return
        try:
            count, stored = await _facts_of(calls, topic)
        except errors.FeatureMissing:
            if partition is None:
                raise
            count, stored = None, TopicFormat.BUNDLES
        except errors.TankError as error:
            if known is None or not error.retriable:
                raise
            # what is known stays valid until the broker answers again
            count, stored = known.partitions, known.format
        with self._lock:
            known = self.accumulator.topics.setdefault(topic, TopicQueues(count, self.now_ms()))
            known.partitions, known.format = count, stored
            known.learned_ms, known.stale = self.now_ms(), False

    def wake(self) -> None:
        """Lets the engine look for bundles to send, or to wait for. In the loop's thread only."""
        if not self._wake_scheduled and not self.closed:
            self._wake_scheduled = True
            self._loop.call_soon(self._pump)

    async def flush(self) -> None:
        """Waits until every message appended so far is stored or given up; raises the first failure since
        the last."""
        with self._lock:
            self._seal_all()
            finished = self._deliveries.finished()
        if finished is not None:
            self.wake()
            await finished
        self._deliveries.raise_first()

    def seal_all(self) -> None:
        """Sends all bundles, full or not, to make room. In the loop's thread only."""
        with self._lock:
            self._seal_all()
        self.wake()

    async def close(self) -> None:
        """Flushes, within the delivery timeout, and ends the engine."""
        try:
            if not self.closed:
                await self.flush()
        except BaseException:
            self.give_up("the producer could not be flushed")
            raise
        self.abort()

    def give_up(self, why: str) -> None:
        """As `abort`, when the program did not ask for it: warns of the number of lost messages. `why` ends
        the warning.
        """
        if not self.closed:
            unstored.say(self.held_messages, why)
            self.abort()

    def abort(self) -> None:
        """Fails all messages that have no outcome, and ends the engine."""
        if self.closed:
            return
        self.closed = True
        unstored.unwatch(self)
        self._unlisten()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        closed = errors.Closed(
            "the producer was closed before the bundle was acknowledged; flush before closing"
        )
        with self._lock:
            for queue in list(self.accumulator.active):
                for bundle in queue.abandon():
                    self._deliveries.finish(bundle, None, closed)
            self._on_room()
        self._on_close(self)

    # Inside

    async def _prepare(self, calls: Calls) -> None:
        if self._prepared:
            return
        server = await calls.server()
        able = has(server, "init_producer") and has(server, "idempotent_produce")
        if self._settings.idempotent and not able:
            raise errors.FeatureMissing(
                "idempotent producers", server.version, "use ProducerSettings(idempotent=False)"
            )
        self.accumulator.set_idempotent(able and self._settings.idempotent is not False)
        self._prepared = True

    def _seal_all(self) -> None:
        for queue in self.accumulator.active:
            self.accumulator.seal(queue)

    def _pump(self) -> None:
        self._wake_scheduled = False
        if self.closed:
            return
        now_ms = self.now_ms()
        with self._lock:
            self.accumulator.seal_due(now_ms - self._settings.linger_ms)
            max_age_ms = self._calls.settings.metadata_max_age_ms
            for topic in self.accumulator.topics.values():
                topic.stale = now_ms - topic.learned_ms > max_age_ms
            for queue in list(self.accumulator.active):
                for bundle in queue.expire(now_ms - self._settings.delivery_timeout_ms):
                    self._deliveries.finish(
                        bundle, None, timed_out(bundle, self._settings.delivery_timeout_ms)
                    )
                self._send_queue(queue, now_ms)
            self.accumulator.tidy()
            self._set_timer(now_ms)

    def _send_queue(self, queue: PartitionQueue, now_ms: float) -> None:
        if not queue.sealed or queue.recovering or now_ms < queue.retry_at_ms:
            return
        if queue.needs_identity:
            if self._identity is None or self._identity.producer_id == queue.retired_producer:
                self._once("identity", self._get_identity)
                return
            queue.identity = self._identity
        route = (queue.topic, queue.partition)
        if self._calls.leaders.is_sought(route):
            return  # `_on_leaders` is called when the search ends
        while queue.sealed:
            transport = self._calls.pool.ready(route)
            if transport is None:
                self._once(route, partial(self._connect, queue))
                return
            if transport.congested:
                self._once(transport, transport.drained)
                return
            bundle = queue.next_to_send(now_ms)
            if bundle is None:
                return
            if not self._send(transport, queue, bundle, now_ms):
                return

    def _send(
        self, transport: BrokerTransport, queue: PartitionQueue, bundle: PendingBundle, now_ms: float
    ) -> bool:
        """Sends a bundle; returns whether the next one may follow at once."""
        settings = self._settings
        try:
            encode_bundle(bundle, settings.compression)
            assert bundle.batch is not None
            to_store = BundleToStore(
                bundle.topic,
                bundle.partition,
                bundle.batch,
                producer_id=bundle.identity.producer_id if bundle.identity else 0,
                producer_epoch=bundle.identity.epoch if bundle.identity else 0,
                sequence=max(bundle.sequence, 0),
                max_timestamp_ms=bundle.max_timestamp_ms,
                required_acks=settings.required_acks,
                ack_timeout_ms=settings.ack_timeout_ms,
                holds_records=bundle.as_records,
            )
            request, answer = produce_request(transport.server, to_store, self._calls.settings.client_id)
            timeout_ms = self._calls.settings.attempt_timeout_ms + settings.ack_timeout_ms
            done = partial(self._answered, queue, bundle, to_store, transport)
            about = ((queue.topic, queue.partition),)
            what = f"produce to {queue.topic}/{queue.partition}"
            transport.send(request, answer, timeout_ms, what, done, about=about)
        except (errors.Overloaded, errors.ConnectionLost):
            # The connection can't take the bundle now; its end, or the next answer, wakes the engine.
            queue.unsend(bundle)
            queue.retry_at_ms = now_ms + self._calls.settings.backoff_min_ms
            return False
        except errors.TankError as error:
            self._deliveries.give_up(queue.failed(bundle, error, retry=False, retry_at_ms=0.0), bundle, error)
        return True

    def _answered(
        self,
        queue: PartitionQueue,
        bundle: PendingBundle,
        to_store: BundleToStore,
        transport: BrokerTransport,
        message: Any,
        error: errors.TankError | None,
    ) -> None:
        if self.closed:
            return
        result: Stored | errors.TankError
        if error is not None:
            result = error
        else:
            try:
                result = read_produce(message, to_store)
            except errors.ProtocolViolation as violation:
                transport.close()
                result = errors.ConnectionLost(str(violation))
        with self._lock:
            if isinstance(result, Stored):
                given_up = queue.acknowledged(bundle)
                self._deliveries.finish(bundle, result, None)
                self._deliveries.give_up(given_up, None, None)
            else:
                self._judge(queue, bundle, result, transport.address)
        self.wake()

    def _judge(
        self, queue: PartitionQueue, bundle: PendingBundle, error: errors.TankError, at: Address
    ) -> None:
        """Handles a failed bundle: it is sent again, or given up."""
        now_ms = self.now_ms()
        if isinstance(error, errors.FormatChanged) and queue.topic in self.accumulator.topics:
            self.accumulator.topics[queue.topic].stale = True
        leaders, route = self._calls.leaders, (queue.topic, queue.partition)
        leaders.failed(route, error, at)
        error = leaders.lagging(error, at) or error
        # otherwise the bundles before it were refused, too, and are sent again with it
        if not queue.gap_can_close(bundle):
            error = leaders.lacking(route, error, at) or error
        retry_at_ms = now_ms + self._calls.pause_ms(route, error, at, queue.failures)
        if self._calls.is_redirect(route, error, at):
            queue.redirected_until_ms = retry_at_ms
        decision = judge(queue, bundle, error, at_least_once=self._settings.at_least_once)
        retry, error = decision.retry, decision.error
        if retry and bundle.opened_ms + self._settings.delivery_timeout_ms <= now_ms:
            bundle.last_error = error
            retry, error = False, timed_out(bundle, self._settings.delivery_timeout_ms)
        given_up = queue.failed(bundle, error, retry=retry, retry_at_ms=retry_at_ms)
        self._deliveries.give_up(given_up, None if retry else bundle, error)

    def _on_leaders(self, routes: Collection[Route]) -> None:
        """These partitions have another known leader now, or their search has ended: sends their bundles."""
        with self._lock:
            for queue in self.accumulator.active:
                if (queue.topic, queue.partition) in routes:
                    queue.retry_at_ms = min(queue.retry_at_ms, queue.redirected_until_ms)
        self.wake()

    def _once(self, what: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does the work in its own task, unless it is under way, and wakes the engine when it is done."""
        if what in self._awaited:
            return
        self._awaited.add(what)

        async def run() -> None:
            try:
                await work()
            finally:
                self._awaited.discard(what)
            self.wake()

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _get_identity(self) -> None:
        try:
            self._identity = await self._calls.call(state_operations.init_producer("", 0))
        except errors.TankError as error:
            queues = [queue for queue in self.accumulator.active if queue.needs_identity]
            self._postpone(error, queues, self._calls.wait_ms(1))

    async def _connect(self, queue: PartitionQueue) -> None:
        route = (queue.topic, queue.partition)
        at = self._calls.pool.routes.target(route)
        try:
            await self._calls.pool.at(at)
        except errors.TankError as error:
            self._calls.leaders.failed(route, error, at)
            self._postpone(error, [queue], self._calls.pause_ms(route, error, at, queue.failures))

    def _postpone(self, error: errors.TankError, queues: list[PartitionQueue], pause_ms: float) -> None:
        """Handles bundles that no broker takes now: they are sent later, or fail when the error is final."""
        with self._lock:
            for queue in queues:
                for bundle in queue.sealed:
                    bundle.last_error = error
                if error.retriable:
                    queue.failures += 1
                    queue.retry_at_ms = self.now_ms() + pause_ms
                else:
                    for bundle in queue.expire(float("inf")):
                        self._deliveries.finish(bundle, None, error)

    def _set_timer(self, now_ms: float) -> None:
        """Sets the timer that wakes the engine when a linger, a retry pause or a delivery timeout ends."""
        at_ms = now_ms + _FOREVER_MS
        for queue in self.accumulator.active:
            if queue.open is not None:
                at_ms = min(at_ms, queue.open.opened_ms + self._settings.linger_ms)
            if queue.sealed:
                at_ms = min(at_ms, queue.sealed[0].opened_ms + self._settings.delivery_timeout_ms)
                if queue.retry_at_ms > now_ms:
                    at_ms = min(at_ms, queue.retry_at_ms)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.accumulator.active:
            self._timer = self._loop.call_at(at_ms / 1000 + 0.0005, self._pump)


async def _facts_of(calls: Calls, topic: str) -> tuple[int | None, TopicFormat]:
    """Asks for the topic's number of partitions and its format. Raises UnknownTopic; FeatureMissing from a
    broker of the old document."""
    server = await calls.server()
    if not has(server, "describe_topics"):
        return (await Admin(calls).partition_counts([topic]))[topic], TopicFormat.BUNDLES
    (described,) = (await calls.describe([topic]))[1]
    return len(described.partitions), format_of(described, server)
