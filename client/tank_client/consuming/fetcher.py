"""The consumer's engine: keeps fetches under way for all partitions, within bounds, and holds the fetched
chunks.

Partitions that are behind are fetched in answers of `fetch_bytes` each, as many as the memory that is left
allows. Partitions at their end wait together in long polls at the broker. In each round a broker gets one
request, or several when the protocol's one-byte counts demand it.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable

from tank_client import errors
from tank_client.consuming.batch import MessageBatch
from tank_client.consuming.fetch_state import FetchRound, FetchState
from tank_client.model import Address, FetchedChunk, Route
from tank_client.routing.calls import Calls
from tank_client.settings import ConsumerSettings
from tank_client.wire.data_operations import PartitionAnswer, Want, consume_request, read_consume, split_wants
from tank_protos.generated.tank import ConsumeResponse

_IDLE_FETCH_BYTES = 64 << 10
"""The size of a fetch at a partition's end: new messages are few, and the next fetch gets more."""
_GATHER_MS = 200
"""How long a long poll waits while another one is under way, so that partitions that became idle one after
the other soon share one request.
"""


class Fetcher:
    """Fetches for one consumer. Invariant: `_buffered` is the size of the chunks in `_ready`."""

    def __init__(self, calls: Calls, settings: ConsumerSettings) -> None:
        self._calls = calls
        self._settings = settings
        self._states: list[FetchState] = []
        self._ready: deque[tuple[FetchState, int, MessageBatch]] = deque()
        self._buffered = 0
        self._reserved = 0
        self._rounds = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle_polls: dict[Address, int] = {}
        self._news = asyncio.Event()
        self._error: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._doubts: asyncio.TimerHandle | None = None
        self._unlisten = calls.leaders.listen(self._on_leaders)
        self.is_interrupted = False
        """Whether the next wait for a batch ends at once."""
        self.is_open_ended = False
        """Whether no partition at all is no end, because some may be added."""
        self._closed = False

    def add(self, states: Iterable[FetchState]) -> None:
        """Begins to fetch these partitions, too."""
        for state in states:
            state.heard_ms = self._now_ms()
            self._states.append(state)
        if self._doubts is None and not self._closed:
            self._doubt()
        self._pump()

    @property
    def finished(self) -> bool:
        """Whether every partition was read to its end, and everything was handed out."""
        return not self._ready and all(state.done for state in self._states)

    async def next(self, deadline: float) -> tuple[FetchState, MessageBatch] | None:
        """The next batch and its partition. None: nothing came before `deadline` (of the loop), or all is
        read, or `interrupt` was called."""
        while True:
            if self.is_interrupted:
                self.is_interrupted = False
                return None
            while self._ready:
                state, generation, batch = self._ready.popleft()
                self._buffered -= batch.size_bytes
                self._pump()
                if state.generation == generation:
                    return state, batch
            if self._error is not None:
                error, self._error = self._error, None
                self._pump()
                raise error
            if self._closed:
                raise errors.Closed("the consumer is closed: make a new one")
            if self.finished and (self._states or not self.is_open_ended):
                return None
            self._news.clear()
            try:
                async with asyncio.timeout_at(None if deadline == float("inf") else deadline):
                    await self._news.wait()
            except TimeoutError:
                return None

    def interrupt(self) -> None:
        """Ends the present or the next wait for a batch."""
        self.is_interrupted = True
        self._news.set()

    def remove(self, state: FetchState) -> None:
        """Fetches the partition no longer, and drops what was fetched of it."""
        self._states = [each for each in self._states if each is not state]
        state.round = None
        self.drop(state)

    def drop(self, state: FetchState) -> None:
        """Drops the fetched batches of a partition."""
        kept = [entry for entry in self._ready if entry[0] is not state]
        self._ready = deque(kept)
        self._buffered = sum(batch.size_bytes for _, _, batch in kept)
        self._pump()

    def abort(self) -> None:
        """Ends all fetches."""
        self._closed = True
        self._unlisten()
        for task in self._tasks:
            task.cancel()
        for timer in (self._timer, self._doubts):
            if timer is not None:
                timer.cancel()
        self._ready.clear()
        self._buffered = 0
        self._news.set()

    async def ended(self) -> None:
        """Waits until all fetches have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Inside

    def _now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def _pump(self) -> None:
        """Starts all fetches that may start now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed or self._error is not None:
            return
        now_ms = self._now_ms()
        free: dict[Address, list[FetchState]] = {}
        retry_at_ms = float("inf")
        for state in self._states:
            if state.round is not None or state.done:
                continue
            route = (state.topic, state.partition)
            if state.retry_at_ms > now_ms:
                retry_at_ms = min(retry_at_ms, state.retry_at_ms)
            elif not self._calls.leaders.is_sought(route):
                free.setdefault(self._calls.pool.routes.target(route), []).append(state)
        for address, states in free.items():
            self._fetch_behind(address, [state for state in states if state.behind])
            self._fetch_idle(address, [state for state in states if not state.behind])
        if retry_at_ms != float("inf"):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(retry_at_ms / 1000 + 0.0005, self._pump)

    def _fetch_behind(self, address: Address, states: list[FetchState]) -> None:
        settings = self._settings
        # The partition whose last fetch is oldest comes first, so that none starves when memory suffices only
        # for a few.
        states.sort(key=lambda state: state.last_round)
        while states and len(self._tasks) < settings.max_requests:
            room = settings.prefetch_bytes - self._buffered - self._reserved
            if room <= 0:
                return
            count = max(room // settings.fetch_bytes, 1)
            taken, states = states[:count], states[count:]
            self._start(
                address, taken, settings.fetch_bytes, 0, len(taken) * settings.fetch_bytes, idle=False
            )

    def _fetch_idle(self, address: Address, states: list[FetchState]) -> None:
        if not states or self._buffered >= self._settings.prefetch_bytes:
            return
        polls = self._idle_polls.get(address, 0)
        if polls >= 2:
            return
        wait_ms = self._settings.max_wait_ms if not polls else min(_GATHER_MS, self._settings.max_wait_ms)
        self._idle_polls[address] = polls + 1
        size = min(_IDLE_FETCH_BYTES, self._settings.fetch_bytes)
        self._start(address, states, size, wait_ms, 0, idle=True)

    def _start(
        self, address: Address, states: list[FetchState], size: int, wait_ms: int, reserve: int, *, idle: bool
    ) -> None:
        fetch_round = FetchRound(address)
        self._rounds += 1
        wants: dict[Route, FetchState] = {}
        for state in states:
            state.round, state.last_round = fetch_round, self._rounds
            wants[state.topic, state.partition] = state
        self._reserved += reserve
        task = asyncio.get_running_loop().create_task(self._fetch(fetch_round, wants, size, wait_ms))
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._reserved -= reserve
            if idle:
                self._idle_polls[address] -= 1
            for state in states:
                if state.round is fetch_round:
                    state.round = None
            if not task.cancelled() and task.exception() is not None:
                self._error = task.exception()  # a bug of this client: the reader must not wait for ever
            if not self._closed:
                self._pump()
                self._news.set()

        task.add_done_callback(done)

    async def _fetch(
        self,
        fetch_round: FetchRound,
        states: dict[Route, FetchState],
        size: int,
        wait_ms: int,
    ) -> None:
        wants = [
            Want(*route, state.fetch_from, max(size, state.fetch_bytes)) for route, state in states.items()
        ]
        groups = split_wants(wants)
        # A request that waits must not hold up the other requests.
        wait_ms = wait_ms if len(groups) == 1 else min(wait_ms, _GATHER_MS)
        await asyncio.gather(*(self._fetch_group(fetch_round, states, group, wait_ms) for group in groups))

    async def _fetch_group(
        self,
        fetch_round: FetchRound,
        states: dict[Route, FetchState],
        wants: list[Want],
        wait_ms: int,
    ) -> None:
        try:
            answers = await self._ask(fetch_round.address, wants, wait_ms)
        except errors.TankError as error:
            answers = [PartitionAnswer(want.topic, want.partition, error) for want in wants]
        for answer in answers:
            state = states[answer.topic, answer.partition]
            if state.round is fetch_round:
                self._take(state, answer, fetch_round.address)

    async def _ask(self, address: Address, wants: list[Want], wait_ms: int) -> list[PartitionAnswer]:
        settings = self._calls.settings
        transport = await self._calls.pool.at(address)
        for topic in {want.topic for want in wants}:
            self._calls.leaders.meet(topic, transport)
        request = consume_request(
            transport.server,
            wants,
            wait_ms,
            self._settings.min_bytes,
            settings.client_id,
            takes_records=True,
        )
        timeout_ms = settings.attempt_timeout_ms + wait_ms
        what = f"fetch of {len(wants)} partitions"
        about = [(want.topic, want.partition) for want in wants]
        message = await transport.ask(
            request, ConsumeResponse, timeout_ms, what, wait_ms=wait_ms, about=about
        )
        try:
            return read_consume(message, wants)
        except errors.ProtocolViolation as error:
            transport.close()
            raise errors.ConnectionLost(str(error)) from None

    def _take(self, state: FetchState, answer: PartitionAnswer, address: Address) -> None:
        result = answer.result
        try:
            if isinstance(result, FetchedChunk):
                self._calls.leaders.delivered((state.topic, state.partition))
                batch = state.take(result)
                if batch is not None:
                    state.heard_ms = self._now_ms()
                    self._ready.append((state, state.generation, batch))
                    self._buffered += batch.size_bytes
                    self._news.set()
            elif isinstance(result, errors.OutOfBounds):
                behind = self._calls.leaders.lagging(result, address)
                if behind is None:
                    state.out_of_bounds(result, self._settings.out_of_bounds)
                else:
                    self._failed(state, behind, address)
            else:
                self._failed(state, result, address)
        except errors.TankError as error:
            # Don't fetch the partition again before the program has seen the error.
            self._error = error
            self._news.set()

    def _failed(self, state: FetchState, error: errors.TankError, address: Address) -> None:
        now_ms = self._now_ms()
        if not state.failures:
            state.failing_since_ms = now_ms
        state.failures += 1
        leaders = self._calls.leaders
        route = (state.topic, state.partition)
        leaders.failed(route, error, address)
        error = leaders.lagging(error, address) or error
        state.retry_at_ms = now_ms + self._calls.pause_ms(route, error, address, state.failures - 1)
        if self._calls.is_redirect(route, error, address):
            state.redirected_until_ms = state.retry_at_ms
        if not error.retriable:
            self._error = error
        elif now_ms - state.failing_since_ms > self._settings.give_up_after_ms:
            state.failures = 0
            self._error = error
        if self._error is not None:
            self._news.set()

    def _on_leaders(self, routes: Collection[Route]) -> None:
        """These partitions have another known leader now, or their search has ended: fetches them."""
        for state in self._states:
            if (state.topic, state.partition) in routes:
                state.retry_at_ms = min(state.retry_at_ms, state.redirected_until_ms)
        self._pump()

    # Leaders that may have been replaced

    def _doubt(self) -> None:
        """Asks other brokers about leaders from which nothing new has come for long: a leader that is cut off
        from the others would hold its readers without knowing that it was replaced.
        """
        pause_s = self._calls.settings.doubt_after_ms / 1000
        self._doubts = asyncio.get_running_loop().call_later(pause_s, self._doubt)
        quiet_since_ms = self._now_ms() - self._calls.settings.doubt_after_ms
        finding = set()
        for state in self._states:
            if not state.done and state.heard_ms <= quiet_since_ms:
                finding.add(self._calls.leaders.doubt((state.topic, state.partition)))
        for task in finding - {None}:
            assert task is not None
            task.add_done_callback(lambda done: self._follow())

    def _follow(self) -> None:
        """Acts on newly known leaders: a partition whose fetch waits at another broker is fetched again, and
        the old broker's answer is dropped.
        """
        routes = self._calls.pool.routes
        for state in self._states:
            under_way = state.round
            if under_way is not None and under_way.address != routes.target(state.route):
                state.round = None
        self._pump()
