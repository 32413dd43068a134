"""The consumer's engine: keeps fetches under way for all partitions, within bounds, and holds what they
bring.

Partitions that are behind are fetched in answers of `fetch_bytes` each, as many as the memory that is left
allows. Those at their end wait together in long polls, at the broker. All are one request per broker and
round, split where the protocol's one-byte counts demand it.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterable

from tank_client import errors
from tank_client.consuming.batch import MessageBatch
from tank_client.consuming.fetch_state import Track, Wave
from tank_client.model import Address, FetchedChunk
from tank_client.routing.calls import Caller
from tank_client.routing.routes import Route
from tank_client.settings import ConsumerSettings
from tank_client.wire.data_operations import PartitionAnswer, Want, consume_request, read_consume, split_wants
from tank_protos.generated.tank import ConsumeResponse

_IDLE_FETCH_BYTES = 64 << 10
"""What a partition at its end is asked for: what it has by then is little, and the rest follows."""
_GATHER_MS = 200
"""How long a long poll waits that is not alone: the partitions that became idle one by one meet in one
request soon."""


class Fetcher:
    """Fetches for a set of tracks. Invariant: `_buffered` is the size of the chunks in `_ready`."""

    def __init__(self, caller: Caller, settings: ConsumerSettings) -> None:
        self._caller = caller
        self._settings = settings
        self._tracks: list[Track] = []
        self._ready: deque[tuple[Track, int, MessageBatch]] = deque()
        self._buffered = 0
        self._reserved = 0
        self._waves = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle_polls: dict[Address, int] = {}
        self._news = asyncio.Event()
        self._error: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._doubts: asyncio.TimerHandle | None = None
        self._unlisten = caller.leaders.listen(self._on_leaders)
        self._closed = False

    def add(self, tracks: Iterable[Track]) -> None:
        """Fetches these too."""
        for track in tracks:
            track.heard_ms = self._now_ms()
            self._tracks.append(track)
        if self._doubts is None and not self._closed:
            self._doubt()
        self._pump()

    @property
    def finished(self) -> bool:
        """Every track has reached its end, and everything was handed out."""
        return not self._ready and all(track.done for track in self._tracks)

    @property
    def buffered_bytes(self) -> int:
        """What is held and not handed out yet."""
        return self._buffered

    async def next(self, deadline: float) -> tuple[Track, MessageBatch] | None:
        """The next batch with its track. None: nothing came before `deadline` (of the loop), or all is
        read."""
        while True:
            while self._ready:
                track, generation, batch = self._ready.popleft()
                self._buffered -= batch.size_bytes
                self._pump()
                if track.generation == generation:
                    return track, batch
            if self._error is not None:
                error, self._error = self._error, None
                self._pump()
                raise error
            if self._closed:
                raise errors.Closed("the consumer is closed: make a new one")
            if self.finished:
                return None
            self._news.clear()
            try:
                async with asyncio.timeout_at(None if deadline == float("inf") else deadline):
                    await self._news.wait()
            except TimeoutError:
                return None

    def drop(self, track: Track) -> None:
        """Its batches are not wanted any more."""
        kept = [entry for entry in self._ready if entry[0] is not track]
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
        """Waits until they have."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Inside

    def _now_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def _pump(self) -> None:
        """Starts what can be started."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closed or self._error is not None:
            return
        now_ms = self._now_ms()
        free: dict[Address, list[Track]] = {}
        retry_at_ms = float("inf")
        for track in self._tracks:
            if track.wave is not None or track.done:
                continue
            route = (track.topic, track.partition)
            if track.retry_at_ms > now_ms:
                retry_at_ms = min(retry_at_ms, track.retry_at_ms)
            elif not self._caller.leaders.is_sought(route):
                free.setdefault(self._caller.pool.routes.target(route), []).append(track)
        for address, tracks in free.items():
            self._fetch_behind(address, [track for track in tracks if track.behind])
            self._fetch_idle(address, [track for track in tracks if not track.behind])
        if retry_at_ms != float("inf"):
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(retry_at_ms / 1000 + 0.0005, self._pump)

    def _fetch_behind(self, address: Address, tracks: list[Track]) -> None:
        settings = self._settings
        # Who was asked for longest ago comes first: memory for a few must not starve the others.
        tracks.sort(key=lambda track: track.last_wave)
        while tracks and len(self._tasks) < settings.max_requests:
            room = settings.prefetch_bytes - self._buffered - self._reserved
            if room <= 0:
                return
            count = max(room // settings.fetch_bytes, 1)
            wave, tracks = tracks[:count], tracks[count:]
            self._start(address, wave, settings.fetch_bytes, 0, len(wave) * settings.fetch_bytes, idle=False)

    def _fetch_idle(self, address: Address, tracks: list[Track]) -> None:
        if not tracks or self._buffered >= self._settings.prefetch_bytes:
            return
        polls = self._idle_polls.get(address, 0)
        if polls >= 2:
            return
        wait_ms = self._settings.max_wait_ms if not polls else min(_GATHER_MS, self._settings.max_wait_ms)
        self._idle_polls[address] = polls + 1
        size = min(_IDLE_FETCH_BYTES, self._settings.fetch_bytes)
        self._start(address, tracks, size, wait_ms, 0, idle=True)

    def _start(
        self, address: Address, tracks: list[Track], size: int, wait_ms: int, reserve: int, *, idle: bool
    ) -> None:
        wave = Wave(address)
        self._waves += 1
        wants: dict[Route, Track] = {}
        for track in tracks:
            track.wave, track.last_wave = wave, self._waves
            wants[track.topic, track.partition] = track
        self._reserved += reserve
        task = asyncio.get_running_loop().create_task(self._fetch(address, wave, wants, size, wait_ms))
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._reserved -= reserve
            if idle:
                self._idle_polls[address] -= 1
            for track in tracks:
                if track.wave is wave:
                    track.wave = None
            if not task.cancelled() and task.exception() is not None:
                self._error = task.exception()  # our own mistake: the reader must not wait for ever
            if not self._closed:
                self._pump()
                self._news.set()

        task.add_done_callback(done)

    async def _fetch(
        self, address: Address, wave: Wave, tracks: dict[Route, Track], size: int, wait_ms: int
    ) -> None:
        wants = [
            Want(*route, track.fetch_from, max(size, track.fetch_bytes)) for route, track in tracks.items()
        ]
        groups = split_wants(wants)
        # A group that waits must not hold up the others.
        wait_ms = wait_ms if len(groups) == 1 else min(wait_ms, _GATHER_MS)
        await asyncio.gather(*(self._fetch_group(address, wave, tracks, group, wait_ms) for group in groups))

    async def _fetch_group(
        self, address: Address, wave: Wave, tracks: dict[Route, Track], wants: list[Want], wait_ms: int
    ) -> None:
        try:
            answers = await self._ask(address, wants, wait_ms)
        except errors.TankError as error:
            answers = [PartitionAnswer(want.topic, want.partition, error) for want in wants]
        for answer in answers:
            track = tracks[answer.topic, answer.partition]
            if track.wave is wave:
                self._take(track, answer, address)

    async def _ask(self, address: Address, wants: list[Want], wait_ms: int) -> list[PartitionAnswer]:
        settings = self._caller.settings
        transport = await self._caller.pool.at(address)
        for topic in {want.topic for want in wants}:
            self._caller.leaders.meet(topic, transport)
        request = consume_request(
            transport.server, wants, wait_ms, self._settings.min_bytes, settings.client_id
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

    def _take(self, track: Track, answer: PartitionAnswer, address: Address) -> None:
        result = answer.result
        try:
            if isinstance(result, FetchedChunk):
                self._caller.leaders.delivered((track.topic, track.partition))
                batch = track.take(result)
                if batch is not None:
                    track.heard_ms = self._now_ms()
                    self._ready.append((track, track.generation, batch))
                    self._buffered += batch.size_bytes
                    self._news.set()
            elif isinstance(result, errors.OutOfBounds):
                behind = self._caller.leaders.lagging(result, address)
                if behind is None:
                    track.out_of_bounds(result, self._settings.out_of_bounds)
                else:
                    self._failed(track, behind, address)
            else:
                self._failed(track, result, address)
        except errors.TankError as error:
            # Not to be asked again before the user has seen it.
            self._error = error
            self._news.set()

    def _failed(self, track: Track, error: errors.TankError, address: Address) -> None:
        now_ms = self._now_ms()
        if not track.failures:
            track.failing_since_ms = now_ms
        track.failures += 1
        leaders = self._caller.leaders
        route = (track.topic, track.partition)
        leaders.failed(route, error, address)
        error = leaders.lagging(error, address) or error
        track.retry_at_ms = now_ms + self._caller.pause_ms(route, error, address, track.failures - 1)
        if self._caller.is_redirect(route, error, address):
            track.redirected_until_ms = track.retry_at_ms
        if not error.retriable:
            self._error = error
        elif now_ms - track.failing_since_ms > self._settings.give_up_after_ms:
            track.failures = 0
            self._error = error
        if self._error is not None:
            self._news.set()

    def _on_leaders(self, routes: Collection[Route]) -> None:
        """Of these partitions another leader is known now, or they are sought no longer."""
        for track in self._tracks:
            if (track.topic, track.partition) in routes:
                track.retry_at_ms = min(track.retry_at_ms, track.redirected_until_ms)
        self._pump()

    # Leaders that may lead no longer

    def _doubt(self) -> None:
        """Asks others about the leaders from which nothing new has come for long: one that is cut off from
        the other brokers holds its readers, and doesn't know it."""
        pause_s = self._caller.settings.doubt_after_ms / 1000
        self._doubts = asyncio.get_running_loop().call_later(pause_s, self._doubt)
        quiet_since_ms = self._now_ms() - self._caller.settings.doubt_after_ms
        finding = set()
        for track in self._tracks:
            if not track.done and track.heard_ms <= quiet_since_ms:
                finding.add(self._caller.leaders.doubt((track.topic, track.partition)))
        for task in finding - {None}:
            assert task is not None
            task.add_done_callback(lambda done: self._follow())

    def _follow(self) -> None:
        """Leaders were told: who waits at another broker asks anew, and what comes from there is dropped."""
        routes = self._caller.pool.routes
        for track in self._tracks:
            wave = track.wave
            if wave is not None and wave.address != routes.target((track.topic, track.partition)):
                track.wave = None
        self._pump()
