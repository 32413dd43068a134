"""The asynchronous consumer."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import TracebackType

from tank_client import errors
from tank_client.admin import Admin
from tank_client.consuming.batch import MessageBatch
from tank_client.consuming.fetch_state import Track
from tank_client.consuming.fetcher import Fetcher
from tank_client.model import END, ConsumedMessage, Ends
from tank_client.routing.calls import Caller
from tank_client.routing.routes import Route, check_topic
from tank_client.settings import AtTime, ConsumerSettings, OutOfBoundsPolicy, Start, StartAt


class Consumer:
    """Reads partitions, each in order. Made by `client.consumer()`.

    `async for batch in consumer` gives `MessageBatch`es, `async for message in consumer.messages()` single
    messages; both may be left and taken up again, nothing is skipped. What is handed out counts as read:
    `commit()` keeps that for the group. Fetches go on in the background, within `prefetch_bytes`. For one
    task at a time.
    """

    def __init__(
        self,
        caller: Caller,
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
        # Kept as lists: they are looked at again when partitions may have been added.
        self._topics: list[str] | dict[str, list[int]]
        if isinstance(topics, Mapping):
            self._topics = {topic: list(partitions) for topic, partitions in topics.items()}
        else:
            # Bytes are no list of names, but many numbers.
            self._topics = [topics] if isinstance(topics, str | bytes) else list(topics)
        for topic in self._topics:
            check_topic(topic)
        self._start = start
        self._group = group
        self._stop_at_end = stop_at_end
        self._settings = settings
        self._on_close = on_close
        self._fetcher = Fetcher(caller, settings)
        self._tracks: dict[Route, Track] = {}
        self._started = False
        self._max_age_s = caller.settings.metadata_max_age_ms / 1000
        self._looked_at = 0.0
        self._starting = asyncio.Lock()
        # What `_next_part` gave and nobody has handed out wholly: a new reader goes on within it.
        self._partial: deque[tuple[Track, MessageBatch]] = deque()
        self._damages: list[errors.CorruptBundle] = []

    async def __aenter__(self) -> "Consumer":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Finds out the partitions and where to begin; the first read does it otherwise. UnknownTopic,
        NoPosition."""
        async with self._starting:
            if self._started:
                return
            routes = await self._routes()
            starts = await self._resolve(routes)
            ends = await self._ends(routes) if self._stop_at_end else {}
            self._follow(starts, ends)
            self._started = True

    def _follow(self, starts: Mapping[Route, int], ends: Mapping[Route, Ends]) -> None:
        added: list[Track] = []
        for route, number in starts.items():
            track = Track(*route, position=number, fetch_from=number)
            track.damaged, track.damages = self._settings.damaged, self._damages
            if route in ends:
                track.stop_after = ends[route].high_water_mark
                track.done = track.fetch_from > track.stop_after or not track.stop_after
            self._tracks[route] = track
            added.append(track)
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
        """The next batch, or None when none came within `max_wait_ms`, or everything up to the end was
        read."""
        return await self._take(max_wait_ms)

    @property
    def at_end(self) -> bool:
        """With `stop_at_end`: whether everything was handed out."""
        return self._started and not self._partial and self._fetcher.finished

    async def messages(self) -> AsyncIterator[ConsumedMessage]:
        """Message by message, as tuples (sequence_number, timestamp_ms, key, value, topic, partition)."""
        while True:
            found = await self._next_part(None)
            if found is None:
                return
            for message in self._hand_out(found):
                yield message

    def _hand_out(self, part: tuple[Track, MessageBatch]) -> Iterator[ConsumedMessage]:
        """For the faces: the messages of a part, each counted as read when it is handed out."""
        track, batch = part
        generation = track.generation
        for message in batch.messages():
            track.position = message.sequence_number + 1
            yield message
            if track.generation != generation:
                return
        self._handed_out(part)

    def _handed_out(self, part: tuple[Track, MessageBatch]) -> None:
        """For the faces: the whole part counts as read."""
        track, batch = part
        track.position = batch.next_number
        self._partial = deque(entry for entry in self._partial if entry is not part)

    def position(self, topic: str, partition: int) -> int:
        """The next number that will be handed out; 0: the first available."""
        return self._track(topic, partition).position

    def positions(self) -> dict[Route, int]:
        """All positions, by (topic, partition)."""
        return {route: track.position for route, track in self._tracks.items()}

    @property
    def assignment(self) -> list[Route]:
        """The partitions that are read, once it has started."""
        return list(self._tracks)

    async def seek(self, topic: str, partition: int, number: int) -> None:
        """Goes on at `number` (FIRST, END or a number) in that partition."""
        await self.start()
        track = self._track(topic, partition)
        if number == END:
            number = (await self._admin.await_ends({(topic, partition): None}))[
                topic, partition
            ].high_water_mark + 1
        track.seek(number)
        self._partial = deque(entry for entry in self._partial if entry[0] is not track)
        self._fetcher.drop(track)

    async def commit(self) -> None:
        """Keeps the positions of everything handed out so far, for the group; durable when it returns."""
        if self._group is None:
            raise errors.InvalidArgument("commit needs a group: client.consumer(..., group='name')")
        moved = {
            route: track.position
            for route, track in self._tracks.items()
            if track.position and track.position != track.committed
        }
        await self._admin.commit_positions(self._group, moved)
        for route, number in moved.items():
            self._tracks[route].committed = number

    async def close(self) -> None:
        """Ends the fetches. Commits nothing."""
        self.abort()
        await self._fetcher.ended()

    def abort(self) -> None:
        """Ends it without waiting."""
        self._fetcher.abort()
        self._on_close(self)

    async def _take(self, max_wait_ms: int | None) -> MessageBatch | None:
        """The next batch, counted as read. None: nothing in time (None: no limit), or the end."""
        found = await self._next_part(max_wait_ms)
        if found is None:
            return None
        self._handed_out(found)
        return found[1]

    async def _next_part(self, max_wait_ms: int | None) -> tuple[Track, MessageBatch] | None:
        """For the faces: the next batch, not counted as read; it comes again until it is handed out."""
        if not self._started:
            await self.start()
        if self._damages:  # what stands before it was handed out
            raise self._damages[0]
        while self._partial:
            track, batch = self._partial.popleft()
            if track.position < batch.next_number:
                part = (track, batch.starting_at(track.position))
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
        """Partitions that were added to a topic since: read from their first message on."""
        self._looked_at = asyncio.get_running_loop().time()
        if isinstance(self._topics, dict) or self._stop_at_end:
            return
        try:
            routes = await self._routes()
        except errors.TankError as error:
            if error.retriable:
                return  # the fetches tell when it lasts
            raise
        self._follow({route: 0 for route in routes if route not in self._tracks}, {})

    def _track(self, topic: str, partition: int) -> Track:
        track = self._tracks.get((topic, partition))
        if track is None:
            raise errors.UnknownPartition(topic, partition)
        return track

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
        # The end is a number from here on: asked for anew after a lost answer, it would skip what came in
        # between.
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
