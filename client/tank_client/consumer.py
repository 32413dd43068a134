"""The asynchronous consumer."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import TracebackType

from tank_client import errors
from tank_client.admin import Admin
from tank_client.consuming.batch import MessageBatch
from tank_client.consuming.fetch_state import FetchState
from tank_client.consuming.fetcher import Fetcher
from tank_client.model import END, ConsumedMessage, Ends
from tank_client.routing.calls import Calls
from tank_client.routing.routes import Route, check_topic
from tank_client.settings import AtTime, ConsumerSettings, OutOfBoundsPolicy, Start, StartAt


class Consumer:
    """Reads partitions, each in order. Made by `client.consumer()`; for one task at a time.

    `async for batch in consumer` gives `MessageBatch`es, `async for message in consumer.messages()` single
    messages. Both may be left and begun again without a gap. A message counts as read when it is handed out;
    `commit()` stores that position for the group. Fetches go on in the background, within `prefetch_bytes`.
    """

    def __init__(
        self,
        calls: Calls,
        admin: Admin,
        topics: str | Iterable[str] | Mapping[str, Iterable[int]],
        *,
        start: Start,
        group: str | None,
        stop_at_end: bool,
        settings: ConsumerSettings,
        on_close: Callable[["Consumer"], object],
    ) -> None:
        self._admin = admin
        # Kept as lists: they are read again when partitions may have been added.
        self._topics: list[str] | dict[str, list[int]]
        if isinstance(topics, Mapping):
            self._topics = {topic: list(partitions) for topic, partitions in topics.items()}
        else:
            # Bytes are a sequence, too, but not one of names.
            self._topics = [topics] if isinstance(topics, str | bytes) else list(topics)
        for topic in self._topics:
            check_topic(topic)
        self._start = start
        self._group = group
        self._stop_at_end = stop_at_end
        self._settings = settings
        self._on_close = on_close
        self._fetcher = Fetcher(calls, settings)
        self._states: dict[Route, FetchState] = {}
        self._started = False
        self._max_age_s = calls.settings.metadata_max_age_ms / 1000
        self._looked_at = 0.0
        self._starting = asyncio.Lock()
        # Parts of `_next_part` that were not handed out completely: a new iterator continues within them.
        self._partial: deque[tuple[FetchState, MessageBatch]] = deque()
        self._damages: list[errors.CorruptBundle] = []

    async def __aenter__(self) -> "Consumer":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Finds the partitions and their starting numbers; otherwise the first read does so. Raises
        UnknownTopic, NoPosition."""
        async with self._starting:
            if self._started:
                return
            routes = await self._routes()
            starts = await self._resolve(routes)
            ends = await self._ends(routes) if self._stop_at_end else {}
            self._follow(starts, ends)
            self._started = True

    def _follow(self, starts: Mapping[Route, int], ends: Mapping[Route, Ends]) -> None:
        added: list[FetchState] = []
        for route, number in starts.items():
            state = FetchState(*route, position=number, fetch_from=number)
            state.damaged, state.damages = self._settings.damaged, self._damages
            if route in ends:
                state.stop_after = ends[route].high_water_mark
                state.done = state.fetch_from > state.stop_after or not state.stop_after
            self._states[route] = state
            added.append(state)
        self._looked_at = asyncio.get_running_loop().time()
        self._fetcher.add(added)

    def __aiter__(self) -> "Consumer":
        return self

    async def __anext__(self) -> MessageBatch:
        batch = await self._take(None)
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def poll(self, max_wait_ms: int = 0) -> MessageBatch | None:
        """Returns the next batch; None when none came within `max_wait_ms`, or all was read up to the end."""
        return await self._take(max_wait_ms)

    @property
    def at_end(self) -> bool:
        """With `stop_at_end`: whether all messages were handed out."""
        return self._started and not self._partial and self._fetcher.finished

    async def messages(self) -> AsyncIterator[ConsumedMessage]:
        """Yields single messages."""
        while True:
            found = await self._next_part(None)
            if found is None:
                return
            for message in self._hand_out(found):
                yield message

    def _hand_out(self, part: tuple[FetchState, MessageBatch]) -> Iterator[ConsumedMessage]:
        """For `Consumer` and `sync.Consumer`: the messages of a part, each counted as read when it is handed
        out.
        """
        state, batch = part
        generation = state.generation
        for message in batch.messages():
            state.position = message.sequence_number + 1
            yield message
            if state.generation != generation:
                return
        self._handed_out(part)

    def _handed_out(self, part: tuple[FetchState, MessageBatch]) -> None:
        """For `Consumer` and `sync.Consumer`: counts the whole part as read."""
        state, batch = part
        state.position = batch.next_number
        self._partial = deque(entry for entry in self._partial if entry is not part)

    def position(self, topic: str, partition: int) -> int:
        """Returns the next number that will be handed out; 0: the first available."""
        return self._state(topic, partition).position

    def positions(self) -> dict[Route, int]:
        """Returns all positions, by (topic, partition)."""
        return {route: state.position for route, state in self._states.items()}

    @property
    def assignment(self) -> list[Route]:
        """The partitions that are read, once the consumer has started."""
        return list(self._states)

    async def seek(self, topic: str, partition: int, number: int) -> None:
        """Continues at `number` (FIRST, END or a number) in that partition."""
        await self.start()
        state = self._state(topic, partition)
        if number == END:
            number = (await self._admin.await_ends({(topic, partition): None}))[
                topic, partition
            ].high_water_mark + 1
        state.seek(number)
        self._partial = deque(entry for entry in self._partial if entry[0] is not state)
        self._fetcher.drop(state)

    async def commit(self) -> None:
        """Stores the positions behind all messages handed out so far, for the group. They are durable when
        the call returns.
        """
        if self._group is None:
            raise errors.InvalidArgument("commit needs a group: client.consumer(..., group='name')")
        moved = {
            route: state.position
            for route, state in self._states.items()
            if state.position and state.position != state.committed
        }
        await self._admin.commit_positions(self._group, moved)
        for route, number in moved.items():
            self._states[route].committed = number

    async def close(self) -> None:
        """Ends the fetches. Commits nothing."""
        self.abort()
        await self._fetcher.ended()

    def abort(self) -> None:
        """Ends the fetches, and doesn't wait for them to end."""
        self._fetcher.abort()
        self._on_close(self)

    async def _take(self, max_wait_ms: int | None) -> MessageBatch | None:
        """Returns the next batch, counted as read; None when none came within `max_wait_ms` (None: no limit),
        or at the end.
        """
        found = await self._next_part(max_wait_ms)
        if found is None:
            return None
        self._handed_out(found)
        return found[1]

    async def _next_part(self, max_wait_ms: int | None) -> tuple[FetchState, MessageBatch] | None:
        """For `Consumer` and `sync.Consumer`: returns the next batch, not counted as read; it comes again
        until it is handed out.
        """
        if not self._started:
            await self.start()
        if self._damages:  # all messages before it were handed out
            raise self._damages[0]
        while self._partial:
            state, batch = self._partial.popleft()
            if state.position < batch.next_number:
                part = (state, batch.starting_at(state.position))
                self._partial.appendleft(part)
                return part
        loop = asyncio.get_running_loop()
        deadline = float("inf") if max_wait_ms is None else loop.time() + max_wait_ms / 1000
        while True:
            look_at = self._looked_at + self._max_age_s
            found = await self._fetcher.next(min(deadline, look_at))
            if found is not None:
                self._partial.append(found)
                return found
            if self._fetcher.finished:
                return None
            if loop.time() >= look_at:
                await self._look_for_partitions()
            if loop.time() >= deadline:
                return None

    async def _look_for_partitions(self) -> None:
        """Looks for partitions that were added to a topic, and reads them from their first message on."""
        self._looked_at = asyncio.get_running_loop().time()
        if isinstance(self._topics, dict) or self._stop_at_end:
            return
        try:
            routes = await self._routes()
        except errors.TankError as error:
            if error.retriable:
                return  # the fetches raise a failure that lasts
            raise
        self._follow({route: 0 for route in routes if route not in self._states}, {})

    def _state(self, topic: str, partition: int) -> FetchState:
        state = self._states.get((topic, partition))
        if state is None:
            raise errors.UnknownPartition(topic, partition)
        return state

    # Where to begin

    async def _routes(self) -> list[Route]:
        topics = self._topics
        if isinstance(topics, dict):
            return [(topic, partition) for topic, partitions in topics.items() for partition in partitions]
        counts = await self._admin.partition_counts(topics)
        return [(name, partition) for name in topics for partition in range(counts[name])]

    async def _resolve(self, routes: list[Route]) -> dict[Route, int]:
        """The number to begin with, for each partition."""
        wanted = {route: self._wanted(route) for route in routes}
        starts = {route: start for route, start in wanted.items() if isinstance(start, int)}
        starts |= {route: 0 for route, start in wanted.items() if start is StartAt.FIRST}
        if any(start is StartAt.COMMITTED for start in wanted.values()):
            starts |= await self._committed(
                [route for route, start in wanted.items() if start is StartAt.COMMITTED]
            )
        times: dict[str, dict[int, int]] = {}
        for (topic, partition), start in wanted.items():
            if isinstance(start, AtTime):
                times.setdefault(topic, {})[partition] = start.timestamp_ms
        for topic, asked in times.items():
            found = await self._admin.find_by_time(topic, asked)
            starts |= {(topic, partition): place.number for partition, place in found.items()}
        # From here on the end is a number: after a lost answer, a second question for the end would skip the
        # messages between.
        ends = [route for route, start in wanted.items() if start is StartAt.END or starts.get(route) == END]
        if ends:
            starts |= {route: end.high_water_mark + 1 for route, end in (await self._ends(ends)).items()}
        return starts

    def _wanted(self, route: Route) -> StartAt | AtTime | int:
        start = self._start
        if isinstance(start, Mapping):
            if route not in start:
                raise errors.InvalidArgument(f"start names no place for {route[0]}/{route[1]}")
            start = start[route]
        if isinstance(start, str):
            try:
                return StartAt(start)
            except ValueError:
                raise errors.InvalidArgument(
                    f"start={start!r}: use 'first', 'end', 'committed', a number or AtTime(time)"
                ) from None
        if isinstance(start, StartAt | AtTime | int):
            return start
        raise errors.InvalidArgument(f"start={start!r}: use 'first', 'end', 'committed', a number or AtTime")

    async def _committed(self, routes: list[Route]) -> dict[Route, int]:
        if self._group is None:
            raise errors.InvalidArgument(
                "start='committed' needs a group: client.consumer(..., group='name')"
            )
        kept = await self._admin.fetch_positions(self._group, sorted({topic for topic, _ in routes}))
        starts = {route: kept[route].number for route in routes if route in kept}
        missing = [route for route in routes if route not in kept]
        if not missing:
            return starts
        policy = self._settings.out_of_bounds
        if policy is OutOfBoundsPolicy.ERROR:
            topic, partition = missing[0]
            raise errors.NoPosition(
                f"group {self._group!r} has committed no position for {topic}/{partition}: "
                "begin at 'first' or 'end', or choose out_of_bounds 'earliest' or 'latest'"
            )
        if policy is OutOfBoundsPolicy.EARLIEST:
            return starts | dict.fromkeys(missing, 0)
        return starts | {route: end.high_water_mark + 1 for route, end in (await self._ends(missing)).items()}

    async def _ends(self, routes: list[Route]) -> dict[Route, Ends]:
        return await self._admin.await_ends(dict.fromkeys(routes))
