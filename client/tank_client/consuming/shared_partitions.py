"""The partitions that a consumer reads as a member of a group: they come and go between two reads."""

import logging
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from tank_client import errors
from tank_client.consuming.fetch_state import FetchState
from tank_client.consuming.fetcher import Fetcher
from tank_client.consuming.held_partitions import PartitionChange, PartitionEvent
from tank_client.consuming.member_loop import MemberLoop
from tank_client.consuming.membership import Membership, MemberState, MemberTimes
from tank_client.consuming.reading_plan import ReadingPlan
from tank_client.consuming.start_places import StartPlaces
from tank_client.model import Ends, Route
from tank_client.routing.calls import Calls
from tank_client.wire.group_operations import MemberPlan

logger: Final = logging.getLogger("tank_client")

ANSWERS_TO_WAIT: Final = 3
"""With `stop_at_end`: how many answers without any partition a member waits for: others give partitions up at
one heartbeat, and the next ones bring them.
"""
NewState = Callable[[Route, int, Ends | None], FetchState]
"""Makes a partition's state, by its first number and, if the reading ends somewhere, its ends."""


class SharedPartitions:
    """A consumer's part of its group's partitions. Invariant: `_states` has exactly those that the program
    has heard of, or is about to; and `_fetcher` has no others, and none that the group took back.
    """

    def __init__(
        self,
        calls: Calls,
        plan: ReadingPlan,
        places: StartPlaces,
        fetcher: Fetcher,
        states: dict[Route, FetchState],
        new_state: NewState,
    ) -> None:
        assert plan.group is not None
        self._plan = plan
        self._places = places
        self._fetcher = fetcher
        self._states = states
        self._new_state = new_state
        settings = plan.settings
        times = MemberTimes(
            session_ms=settings.session_timeout_ms,
            max_poll_ms=settings.max_poll_interval_ms,
            give_up_ms=settings.give_up_after_ms,
        )
        self._membership = Membership(times, MemberLoop.now_ms(), is_static=bool(plan.instance_id))
        self._loop = MemberLoop(
            calls,
            MemberPlan(
                group=plan.group,
                topics=tuple(plan.topics),
                member_id=str(uuid.uuid4()),
                instance_id=plan.instance_id,
                assignor=settings.assignor,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                client_name=calls.settings.client_id,
            ),
            self._membership,
            progress=lambda: sum(state.position for state in states.values()),
            on_news=self._on_news,
        )
        self._telling: PartitionChange | None = None
        """Partitions that are ready to be read once the program has heard of them."""
        self._heard: frozenset[Route] = frozenset()
        """What the program knows to be revoked, and whose positions are not committed yet."""
        self._has_had_some = False
        fetcher.is_open_ended = True

    async def join(self) -> None:
        """Joins the group, and waits for its answer. Raises UnknownTopic, and why the group refuses."""
        await self._places.routes()
        self._loop.start()
        while self._membership.state is MemberState.JOINING:
            await self._loop.heard()
            self._raise_error()
        self._raise_error()

    # Between two reads

    def reads(self) -> None:
        """The program reads."""
        self._loop.look()
        self._membership.reads()

    def works(self) -> None:
        """The program works on what a read gave it."""
        self._membership.works(self._loop.now_ms())

    async def change(self) -> PartitionChange | None:
        """The next change that the program has to hear of, and then `carry_out`; None: none. Raises what
        keeps the consumer out of its group."""
        while True:
            self._fetcher.is_interrupted = False
            change = self._telling or self._membership.partitions.change()
            if change is None:
                self._raise_error()
                return None
            if change.kind is PartitionEvent.REVOKED and self._heard.issuperset(change.partitions):
                await self.carry_out(change)
            elif change.kind is PartitionEvent.ASSIGNED and self._telling is None:
                await self._prepare(change.partitions)
            else:
                return change

    async def carry_out(self, change: PartitionChange) -> None:
        """The program has heard of the change."""
        if change.kind is PartitionEvent.ASSIGNED:
            self._telling = None
            readable = self._membership.partitions.readable.intersection(change.partitions)
            self._fetcher.add(self._states[route] for route in change.partitions if route in readable)
        elif change.kind is PartitionEvent.LOST:
            logger.warning(
                "group %r gave %d partitions of this consumer to others: what was read since the last commit "
                "is read again",
                self._plan.group,
                len(change.partitions),
            )
            self._forget(change.partitions)
            self._membership.partitions.heard_of_loss(change.partitions)
        else:
            self._heard |= frozenset(change.partitions)
            try:
                await self.commit(change.partitions)
            except errors.PartitionsLost:
                return  # the next change says so
            self._forget(change.partitions)
            self._membership.release(change.partitions, self._loop.now_ms())
            self._loop.wake()

    async def commit(self, routes: Iterable[Route]) -> None:
        """Commits the positions that have changed. Raises PartitionsLost."""
        moved = {route: self._states[route].position for route in routes if self._states[route].has_moved}
        await self._loop.commit(moved)
        for route, number in moved.items():
            if route in self._states:
                self._states[route].committed = number

    @property
    def is_at_end(self) -> bool:
        """With `stop_at_end`: whether everything was read that the group gave this member."""
        membership = self._membership
        return (
            self._plan.stop_at_end
            and membership.state is MemberState.STABLE
            and membership.partitions.change() is None
            and (self._has_had_some or membership.answers_without_partitions >= ANSWERS_TO_WAIT)
            and self._fetcher.finished
        )

    # The end

    def close(self) -> None:
        """Takes all partitions back: `change` and `carry_out` give them up, and `leave` is the end."""
        self._telling = None
        self._membership.close()
        self._on_news()

    async def leave(self) -> None:
        """Leaves the group; commits nothing."""
        await self._loop.leave()

    def abort(self) -> None:
        """Ends the membership without telling the group."""
        self._loop.abort()

    # Inside

    async def _prepare(self, routes: tuple[Route, ...]) -> None:
        """Finds where to begin in newly assigned partitions. Those that went away meanwhile are left out; the
        next change has them if they came back."""
        as_of = self._membership.partitions.assignments
        starts, committed = await self._places.of_member(list(routes))
        ends = await self._places.ends(list(routes)) if self._plan.stop_at_end else {}
        begun = self._membership.partitions.begin(routes, as_of)
        for route in begun:
            state = self._states[route] = self._new_state(route, starts[route], ends.get(route))
            if route in committed:
                state.committed = starts[route]
        if begun:
            self._has_had_some = True
            self._telling = PartitionChange(PartitionEvent.ASSIGNED, begun)

    def _forget(self, routes: tuple[Route, ...]) -> None:
        for route in routes:
            state = self._states.pop(route, None)
            if state is not None:
                self._fetcher.remove(state)
        self._heard -= frozenset(routes)

    def _on_news(self) -> None:
        """Hands out nothing more of what the group took back, and makes a read that waits look again."""
        readable = self._membership.partitions.readable
        for route, state in self._states.items():
            if route not in readable and not state.is_taken_back:
                state.take_back()
                self._fetcher.remove(state)
        self._fetcher.interrupt()

    def _raise_error(self) -> None:
        self._loop.check()
        error = self._membership.take_error(self._loop.now_ms())
        if error is not None:
            self._loop.wake()
            raise error
