"""The asynchronous consumer."""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import TracebackType

from tank_client import errors
from tank_client.admin import Admin
from tank_client.consuming.batch import MessageBatch
from tank_client.consuming.fetch_state import FetchState
from tank_client.consuming.fetcher import Fetcher
from tank_client.consuming.held_partitions import PartitionChange
from tank_client.consuming.reading_plan import ReadingPlan
from tank_client.consuming.shared_partitions import SharedPartitions
from tank_client.consuming.start_places import StartPlaces
from tank_client.model import END, ConsumedMessage, Ends, Route
from tank_client.routing.calls import Calls
from tank_client.wire.group_operations import shares_partitions

_log = logging.getLogger("tank_client")
Part = tuple[FetchState, MessageBatch]


class Consumer:
    """Reads partitions, each in order. Made by `client.consumer()`; for one task at a time.

    `async for batch in consumer` gives `MessageBatch`es, `async for message in consumer.messages()` single
    messages. Both may be left and begun again without a gap. A message counts as read when it is handed out;
    `commit()` stores that position for the group. Fetches go on in the background, within `prefetch_bytes`.

    As a member of a group it reads the partitions that the group assigns. Those come and go between two
    reads: when a read begins, the program has worked on everything that was handed out before. Then, in this
    order, `on_revoked` is called for partitions that the group takes back, their positions are committed, and
    another member gets them.
    """

    def __init__(
        self, calls: Calls, admin: Admin, plan: ReadingPlan, on_close: Callable[["Consumer"], object]
    ) -> None:
        self._calls = calls
        self._admin = admin
        self._plan = plan
        self.listener = plan.listener
        """What the program wants to hear of its partitions in a group."""
        self._on_close = on_close
        self._places = StartPlaces(admin, plan)
        self._fetcher = Fetcher(calls, plan.settings)
        self._states: dict[Route, FetchState] = {}
        self._shared: SharedPartitions | None = None
        """The consumer's part as a member of a group; None: it reads what it was made for."""
        self._started = False
        self._max_age_s = calls.settings.metadata_max_age_ms / 1000
        self._looked_at = 0.0
        self._starting = asyncio.Lock()
        # Parts of `_next_part` that were not handed out completely: a new iterator continues within them.
        self._partial: deque[Part] = deque()
        self._damages: list[errors.CorruptBundle] = []

    async def __aenter__(self) -> "Consumer":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            await self._leave()

    async def start(self) -> None:
        """Finds the partitions and their starting numbers, or joins the group; otherwise the first read does
        so. Raises UnknownTopic, NoPosition, GroupRefused."""
        if not self._started:
            async with self._starting:
                await self._begin()

    async def _begin(self) -> None:
        if self._started:
            return
        if not (self._plan.is_member and await self._join()):
            routes = await self._places.routes()
            starts = await self._places.resolve(routes)
            ends = await self._places.ends(routes) if self._plan.stop_at_end else {}
            self._follow(starts, ends)
        self._started = True

    async def _join(self) -> bool:
        """Joins the group; returns whether its brokers assign partitions."""
        reason = "its brokers don't share partitions out"
        if shares_partitions(await self._calls.server()):
            if self._shared is None:
                self._shared = SharedPartitions(
                    self._calls, self._plan, self._places, self._fetcher, self._states, self._new_state
                )
            try:
                await self._shared.join()
            except (errors.LevelTooLow, errors.FeatureMissing) as error:
                reason = str(error)
                self._shared.abort()
                self._shared = None
                self._fetcher.is_open_ended = False
            else:
                return True
        _log.warning(
            "group %r: this consumer reads all partitions of %s, and each other member does so, too (%s)",
            self._plan.group,
            ", ".join(self._plan.topics),
            reason,
        )
        return False

    def _follow(self, starts: Mapping[Route, int], ends: Mapping[Route, Ends]) -> None:
        added = [self._new_state(route, number, ends.get(route)) for route, number in starts.items()]
        self._states |= {state.route: state for state in added}
        self._looked_at = asyncio.get_running_loop().time()
        self._fetcher.add(added)

    def _new_state(self, route: Route, number: int, ends: Ends | None) -> FetchState:
        state = FetchState(*route, position=number, fetch_from=number)
        state.damaged, state.damages = self._plan.settings.damaged, self._damages
        if ends is not None:
            state.stop_after = ends.high_water_mark
            state.done = state.fetch_from > state.stop_after or not state.stop_after
        return state

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
        if not self._started or self._partial:
            return False
        return self._fetcher.finished if self._shared is None else self._shared.is_at_end

    async def messages(self) -> AsyncIterator[ConsumedMessage]:
        """Yields single messages."""
        while True:
            found = await self._next(None)
            if found is None:
                return
            for message in self._hand_out(found):
                yield message

    def _hand_out(self, part: Part) -> Iterator[ConsumedMessage]:
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

    def _handed_out(self, part: Part) -> None:
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
        """The partitions that are read, once the consumer has started; as a member of a group, those that it
        has now."""
        return [route for route, state in self._states.items() if not state.is_taken_back]

    def lag(self) -> dict[Route, int | None]:
        """Returns how many messages each partition has that were not handed out yet, as of its last fetch; no
        broker is asked. None: no fetch of the partition was answered yet."""
        return {route: state.lag for route, state in self._states.items() if not state.is_taken_back}

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
        the call returns. Raises PartitionsLost when the group gave partitions of this member to others.
        """
        if self._plan.group is None:
            raise errors.InvalidArgument("commit needs a group: client.consumer(..., group='name')")
        if self._shared is not None:
            await self._shared.commit(self._states)
            return
        moved = {route: state.position for route, state in self._states.items() if state.has_moved}
        await self._admin.commit_positions(self._plan.group, moved)
        for route, number in moved.items():
            self._states[route].committed = number

    async def close(self) -> None:
        """Ends the fetches. A member of a group gives its partitions up: `on_revoked` is called, the
        positions are committed, and the group hears that it leaves. Otherwise nothing is committed.

        A block that ends with an exception leaves the group without a commit: what was handed out last may
        not be done.
        """
        try:
            while (change := await self._give_up()) is not None:
                await self._tell(change)
        finally:
            await self._leave()

    async def _give_up(self) -> PartitionChange | None:
        """For `Consumer` and `sync.Consumer`: the next change that the program hears of before the end; None:
        no more."""
        if self._shared is None or not self._started:
            return None
        self._shared.close()
        return await self._shared.change()

    async def _leave(self) -> None:
        """For both faces and `Client`: ends the fetches and leaves the group; commits nothing."""
        self.abort()
        if self._shared is not None:
            await self._shared.leave()
        await self._fetcher.ended()

    def abort(self) -> None:
        """Ends the fetches, and doesn't wait for them to end. The group of a member notices its absence when
        its session is over."""
        self._fetcher.abort()
        if self._shared is not None:
            self._shared.abort()
        self._on_close(self)

    async def _take(self, max_wait_ms: int | None) -> MessageBatch | None:
        """Returns the next batch, counted as read; None when none came within `max_wait_ms` (None: no limit),
        or at the end.
        """
        found = await self._next(max_wait_ms)
        if found is None:
            return None
        self._handed_out(found)
        return found[1]

    async def _next(self, max_wait_ms: int | None) -> Part | None:
        """Returns the next batch, not counted as read, after the program has heard of all changes."""
        loop = asyncio.get_running_loop()
        deadline = float("inf") if max_wait_ms is None else loop.time() + max_wait_ms / 1000
        while True:
            left_ms = None if max_wait_ms is None else max(int((deadline - loop.time()) * 1000), 0)
            found = await self._next_part(left_ms)
            if not isinstance(found, PartitionChange):
                return found
            await self._tell(found)

    async def _tell(self, change: PartitionChange) -> None:
        callback = self.listener.of(change.kind)
        if callback is not None:
            said = callback(list(change.partitions))
            if inspect.isawaitable(said):
                await said
        await self._carry_out(change)

    async def _carry_out(self, change: PartitionChange) -> None:
        """For `Consumer` and `sync.Consumer`: the program has heard of the change."""
        assert self._shared is not None
        await self._shared.carry_out(change)

    async def _next_part(self, max_wait_ms: int | None) -> Part | PartitionChange | None:
        """For `Consumer` and `sync.Consumer`: returns the next batch, not counted as read; it comes again
        until it is handed out. Or a change that the program has to hear of; it comes again until it was
        carried out.
        """
        if not self._started:
            await self.start()
        if self._shared is None:
            return await self._read(max_wait_ms)
        self._shared.reads()
        try:
            return await self._shared.change() or await self._read(max_wait_ms)
        finally:
            self._shared.works()

    async def _read(self, max_wait_ms: int | None) -> Part | PartitionChange | None:
        if self._damages:  # all messages before it were handed out
            raise self._damages[0]
        while self._partial:
            state, batch = self._partial.popleft()
            if state.position < batch.next_number and not state.is_taken_back:
                part = (state, batch.starting_at(state.position))
                self._partial.appendleft(part)
                return part
        loop = asyncio.get_running_loop()
        deadline = float("inf") if max_wait_ms is None else loop.time() + max_wait_ms / 1000
        shared = self._shared
        while True:
            look_at = float("inf") if shared is not None else self._looked_at + self._max_age_s
            found = await self._fetcher.next(min(deadline, look_at))
            if found is not None:
                self._partial.append(found)
                return found
            if shared is not None:
                change = await shared.change()
                if change is not None:
                    return change
            if self.at_end if shared is not None else self._fetcher.finished:
                return None
            if loop.time() >= look_at:
                await self._look_for_partitions()
            if loop.time() >= deadline:
                return None

    async def _look_for_partitions(self) -> None:
        """Looks for partitions that were added to a topic, and reads them from their first message on."""
        self._looked_at = asyncio.get_running_loop().time()
        if isinstance(self._plan.topics, dict) or self._plan.stop_at_end:
            return
        try:
            routes = await self._places.routes()
        except errors.TankError as error:
            if error.retriable:
                return  # the fetches raise a failure that lasts
            raise
        self._follow({route: 0 for route in routes if route not in self._states}, {})

    def _state(self, topic: str, partition: int) -> FetchState:
        state = self._states.get((topic, partition))
        if state is None:
            raise (errors.UnknownPartition if self._shared is None else errors.NotAssigned)(topic, partition)
        return state
