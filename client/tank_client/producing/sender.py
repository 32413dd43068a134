"""The producer's engine, shared by both faces: takes full bundles out of the lanes, sends them, and judges
the answers.

It runs in the event loop. The asynchronous face puts messages into the lanes from the same loop; the
synchronous one from any thread, under `lock`, which this engine takes too whenever it touches the lanes.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from tank_client import errors
from tank_client.admin import Admin
from tank_client.model import Address, ProducerIdentity, Stored
from tank_client.producing import unstored
from tank_client.producing.accumulator import Lanes, TopicLanes
from tank_client.producing.encoding import encode_bundle
from tank_client.producing.outcomes import Outcomes
from tank_client.producing.partition_queue import Delivery, Lane, PendingBundle
from tank_client.producing.partitioner import key_hash
from tank_client.producing.verdict import judge, timed_out
from tank_client.routing.calls import Caller
from tank_client.routing.routes import Route
from tank_client.settings import ProducerSettings
from tank_client.wire import state_operations
from tank_client.wire.data_operations import BundleToStore, produce_request, read_produce
from tank_client.wire.operations import has
from tank_client.wire.transport import Transport

_FOREVER_MS = 3_600_000.0


class Sender:
    """Sends what the lanes hold. `on_room` is called, with the lock held, whenever memory became free."""

    def __init__(
        self,
        caller: Caller,
        settings: ProducerSettings,
        *,
        new_delivery: Callable[[], Delivery],
        lock: AbstractContextManager[object],
        on_room: Callable[[], None],
        on_close: Callable[["Sender"], object],
    ) -> None:
        self._caller = caller
        self._settings = settings
        self._lock = lock
        self._on_room = on_room
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self.lanes = Lanes(
            batch_bytes=settings.batch_bytes,
            max_in_flight=settings.max_in_flight_per_partition,
            new_delivery=new_delivery,
            key_hash=key_hash(settings.partitioner),
            random=caller.random,
            now_ms=self.now_ms,
        )
        self._identity: ProducerIdentity | None = None
        self._prepared = False
        self._wake_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # What is being waited for, so that each is waited for once.
        self._awaited: set[Hashable] = set()
        self._outcomes = Outcomes(self.lanes, on_room)
        self._unlisten = caller.leaders.listen(self._on_leaders)
        self.closed = False
        unstored.watch(self)

    # What the faces call

    @property
    def held_messages(self) -> int:
        """Those that have neither an answer nor a failure yet."""
        with self._lock:
            return sum(bundle.messages for bundle in self.lanes.unfinished.values())

    def now_ms(self) -> float:
        """The loop's clock; any thread may ask."""
        return self._loop.time() * 1000

    async def learn(self, topic: str, partition: int | None) -> None:
        """Before the first message of a topic, within `max_block_ms`: what the broker is, and how many
        partitions the topic has. ServerUnreachable, RequestTimedOut, or what the broker says."""
        caller = self._caller.within(self._settings.max_block_ms)
        await self._prepare(caller)
        known = self.lanes.topics.get(topic)
        if known is not None and not known.stale:
            return
        try:
            count: int | None = (await Admin(caller).partition_counts([topic]))[topic]
        except errors.FeatureMissing:
            if partition is None:
                raise
            count = None
        except errors.TankError as error:
            if known is None or not error.retriable:
                raise
            count = known.partitions  # what was known is believed until the broker answers again
        with self._lock:
            known = self.lanes.topics.setdefault(topic, TopicLanes(count, self.now_ms()))
            known.partitions, known.learned_ms, known.stale = count, self.now_ms(), False

    def wake(self) -> None:
        """There is something to send, or to wait for. In the loop's thread only."""
        if not self._wake_scheduled and not self.closed:
            self._wake_scheduled = True
            self._loop.call_soon(self._pump)

    async def flush(self) -> None:
        """Waits until every message appended so far is stored or given up; raises the first failure since
        the last."""
        with self._lock:
            self._seal_all()
            finished = self._outcomes.finished()
        if finished is not None:
            self.wake()
            await finished
        self._outcomes.raise_first()

    def seal_all(self) -> None:
        """Sends what is there, full or not: somebody waits for room. In the loop's thread only."""
        with self._lock:
            self._seal_all()
        self.wake()

    async def close(self) -> None:
        """Flushes, which the delivery timeout bounds, and ends."""
        try:
            if not self.closed:
                await self.flush()
        except BaseException:
            self.give_up("the producer could not be flushed")
            raise
        self.abort()

    def give_up(self, why: str) -> None:
        """`abort`, where messages are lost by it without the program's having asked: they are counted and
        said. `why` ends the sentence."""
        if not self.closed:
            unstored.say(self.held_messages, why)
            self.abort()

    def abort(self) -> None:
        """Gives up everything that is held."""
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
            for lane in list(self.lanes.active):
                for bundle in lane.abandon():
                    self._outcomes.finish(bundle, None, closed)
            self._on_room()
        self._on_close(self)

    # Inside

    async def _prepare(self, caller: Caller) -> None:
        if self._prepared:
            return
        server = await caller.server()
        able = has(server, "init_producer") and has(server, "idempotent_produce")
        if self._settings.idempotent and not able:
            raise errors.FeatureMissing(
                "idempotent producers", server.version, "use ProducerSettings(idempotent=False)"
            )
        self.lanes.set_idempotent(able and self._settings.idempotent is not False)
        self._prepared = True

    def _seal_all(self) -> None:
        for lane in self.lanes.active:
            self.lanes.seal(lane)

    def _pump(self) -> None:
        self._wake_scheduled = False
        if self.closed:
            return
        now_ms = self.now_ms()
        with self._lock:
            self.lanes.seal_due(now_ms - self._settings.linger_ms)
            max_age_ms = self._caller.settings.metadata_max_age_ms
            for topic in self.lanes.topics.values():
                topic.stale = now_ms - topic.learned_ms > max_age_ms
            for lane in list(self.lanes.active):
                for bundle in lane.expire(now_ms - self._settings.delivery_timeout_ms):
                    self._outcomes.finish(bundle, None, timed_out(bundle, self._settings.delivery_timeout_ms))
                self._send_lane(lane, now_ms)
            self.lanes.tidy()
            self._set_timer(now_ms)

    def _send_lane(self, lane: Lane, now_ms: float) -> None:
        if not lane.sealed or lane.recovering or now_ms < lane.retry_at_ms:
            return
        if lane.needs_identity:
            if self._identity is None or self._identity.producer_id == lane.retired_producer:
                self._once("identity", self._get_identity)
                return
            lane.identity = self._identity
        route = (lane.topic, lane.partition)
        if self._caller.leaders.is_sought(route):
            return  # `_on_leaders` hears when it is not any more
        while lane.sealed:
            transport = self._caller.pool.ready(route)
            if transport is None:
                self._once(route, partial(self._connect, lane))
                return
            if transport.congested:
                self._once(transport, transport.drained)
                return
            bundle = lane.next_to_send(now_ms)
            if bundle is None:
                return
            if not self._send(transport, lane, bundle, now_ms):
                return

    def _send(self, transport: Transport, lane: Lane, bundle: PendingBundle, now_ms: float) -> bool:
        """Whether the next one may follow."""
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
            )
            request, answer = produce_request(transport.server, to_store, self._caller.settings.client_id)
            timeout_ms = self._caller.settings.attempt_timeout_ms + settings.ack_timeout_ms
            done = partial(self._answered, lane, bundle, to_store, transport)
            about = ((lane.topic, lane.partition),)
            what = f"produce to {lane.topic}/{lane.partition}"
            transport.send(request, answer, timeout_ms, what, done, about=about)
        except (errors.Overloaded, errors.ConnectionLost):
            # The connection has no place for it now: its end, or the next answer, wakes us.
            lane.unsend(bundle)
            lane.retry_at_ms = now_ms + self._caller.settings.backoff_min_ms
            return False
        except errors.TankError as error:
            self._outcomes.give_up(lane.failed(bundle, error, retry=False, retry_at_ms=0.0), bundle, error)
        return True

    def _answered(
        self,
        lane: Lane,
        bundle: PendingBundle,
        to_store: BundleToStore,
        transport: Transport,
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
                given_up = lane.acknowledged(bundle)
                self._outcomes.finish(bundle, result, None)
                self._outcomes.give_up(given_up, None, None)
            else:
                self._judge(lane, bundle, result, transport.address)
        self.wake()

    def _judge(self, lane: Lane, bundle: PendingBundle, error: errors.TankError, at: Address) -> None:
        """A bundle was not acknowledged: again, or never?"""
        now_ms = self.now_ms()
        leaders, route = self._caller.leaders, (lane.topic, lane.partition)
        leaders.failed(route, error, at)
        error = leaders.lagging(error, at) or error
        if not lane.gap_can_close(bundle):  # else those before it were refused, too: they go again together
            error = leaders.lacking(route, error, at) or error
        retry_at_ms = now_ms + self._caller.pause_ms(route, error, at, lane.failures)
        if self._caller.is_redirect(route, error, at):
            lane.redirected_until_ms = retry_at_ms
        verdict = judge(lane, bundle, error, at_least_once=self._settings.at_least_once)
        retry, error = verdict.retry, verdict.error
        if retry and bundle.opened_ms + self._settings.delivery_timeout_ms <= now_ms:
            bundle.last_error = error
            retry, error = False, timed_out(bundle, self._settings.delivery_timeout_ms)
        given_up = lane.failed(bundle, error, retry=retry, retry_at_ms=retry_at_ms)
        self._outcomes.give_up(given_up, None if retry else bundle, error)

    def _on_leaders(self, routes: Collection[Route]) -> None:
        """Of these partitions another leader is known now, or they are sought no longer."""
        with self._lock:
            for lane in self.lanes.active:
                if (lane.topic, lane.partition) in routes:
                    lane.retry_at_ms = min(lane.retry_at_ms, lane.redirected_until_ms)
        self.wake()

    def _once(self, what: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Does the work in a task of its own, unless it is under way, and looks again when it is done."""
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
            self._identity = await self._caller.call(state_operations.init_producer("", 0))
        except errors.TankError as error:
            lanes = [lane for lane in self.lanes.active if lane.needs_identity]
            self._postpone(error, lanes, self._caller.wait_ms(1))

    async def _connect(self, lane: Lane) -> None:
        route = (lane.topic, lane.partition)
        at = self._caller.pool.routes.target(route)
        try:
            await self._caller.pool.at(at)
        except errors.TankError as error:
            self._caller.leaders.failed(route, error, at)
            self._postpone(error, [lane], self._caller.pause_ms(route, error, at, lane.failures))

    def _postpone(self, error: errors.TankError, lanes: list[Lane], pause_ms: float) -> None:
        """Nobody to send to: later, or never when the error says so."""
        with self._lock:
            for lane in lanes:
                for bundle in lane.sealed:
                    bundle.last_error = error
                if error.retriable:
                    lane.failures += 1
                    lane.retry_at_ms = self.now_ms() + pause_ms
                else:
                    for bundle in lane.expire(float("inf")):
                        self._outcomes.finish(bundle, None, error)

    def _set_timer(self, now_ms: float) -> None:
        """When to look again without being woken: a linger, a retry, or a delivery timeout runs out."""
        at_ms = now_ms + _FOREVER_MS
        for lane in self.lanes.active:
            if lane.open is not None:
                at_ms = min(at_ms, lane.open.opened_ms + self._settings.linger_ms)
            if lane.sealed:
                at_ms = min(at_ms, lane.sealed[0].opened_ms + self._settings.delivery_timeout_ms)
                if lane.retry_at_ms > now_ms:
                    at_ms = min(at_ms, lane.retry_at_ms)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.lanes.active:
            self._timer = self._loop.call_at(at_ms / 1000 + 0.0005, self._pump)
