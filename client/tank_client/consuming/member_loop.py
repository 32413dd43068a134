"""Keeps a consumer in its group: sends the heartbeats that `membership` asks for, in the background."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from tank_client import errors
from tank_client.consuming.membership import MemberHeartbeat, Membership
from tank_client.model import CommittedPosition, Route
from tank_client.routing.calls import Calls
from tank_client.wire.group_operations import MemberPlan, group_heartbeat
from tank_client.wire.state_operations import commit_positions

logger: Final = logging.getLogger("tank_client")

_ATTEMPTS_MS: Final = 5_000
"""How long one heartbeat is tried, at any broker, before the membership decides anew."""
_FAREWELL_MS: Final = 2_000
"""How long a member tries to tell its group that it leaves: without that, its session ends it."""


class MemberLoop:
    """One member's heartbeats and commits. `membership` decides; `on_news` is called after each answer, and
    when time has changed something."""

    def __init__(
        self,
        calls: Calls,
        plan: MemberPlan,
        membership: Membership,
        *,
        progress: Callable[[], int],
        on_news: Callable[[], None],
    ) -> None:
        """`progress`: a number that changes as the program works its way through what it was given."""
        self._calls = calls
        self._plan = plan
        self.membership = membership
        self._progress = progress
        self._on_news = on_news
        self._seen_progress = 0
        self._wake = asyncio.Event()
        self._heard: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    def now_ms() -> float:
        """The loop's clock."""
        return asyncio.get_running_loop().time() * 1000

    def start(self) -> None:
        """Begins to send heartbeats."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(lambda done: self._on_news())

    def wake(self) -> None:
        """The membership has changed: a heartbeat may be due."""
        self._wake.set()

    def look(self) -> None:
        """Looks at the clock and at the program: a membership may be over."""
        if self.now_ms() < self.membership.next_ms():
            return
        self._watch_program()
        before = self.membership.state
        self.membership.passed(self.now_ms())
        if self.membership.state is not before:
            self._news()

    def check(self) -> None:
        """Raises what ended the heartbeats: a bug of this client."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def heard(self) -> None:
        """Waits for the next answer, failure or loss."""
        if self._heard is None or self._heard.done():
            self._heard = asyncio.get_running_loop().create_future()
        task = self._task
        if task is None or task.done():
            raise errors.Closed("the consumer is closed: make a new one")
        await asyncio.wait({self._heard, task}, return_when=asyncio.FIRST_COMPLETED)
        self.check()

    async def commit(self, positions: Mapping[Route, int]) -> None:
        """Commits as this member. Raises PartitionsLost, and commits nothing, when the group doesn't count it
        any more, or counts it again and the program has not heard that it lost some of these partitions.
        Raises StaleMember when no heartbeat has brought the member's epoch for `request_timeout_ms`.
        """
        kept = {route: CommittedPosition(number) for route, number in positions.items()}
        if not kept:
            return
        end_ms = self.now_ms() + self._calls.settings.request_timeout_ms
        while self.membership.partitions.begun.issuperset(kept):
            epoch = self.membership.epoch
            try:
                await self._calls.call(
                    commit_positions(self._plan.group, kept, (self._plan.member_id, epoch))
                )
            except errors.StaleMember:
                if self.now_ms() >= end_ms:
                    raise
                # An answer to a heartbeat is about to bring the new epoch, or its refusal. While coordinators
                # move, a heartbeat may fail several times before.
                self.membership.hurry(self.now_ms())
                self.wake()
                await self.heard()
            except errors.UnknownMember:
                if self.membership.partitions.begun.issuperset(kept):
                    self.membership.fenced(self.now_ms())
                    self.wake()
                    self._news()
                break
            else:
                return
        partitions = self.membership.partitions
        lost = partitions.lost.union(kept.keys() - partitions.begun)
        raise errors.PartitionsLost(self._plan.group, tuple(sorted(lost)))

    async def leave(self) -> None:
        """Leaves the group, as far as a broker can be told. Ends the heartbeats."""
        farewell = self.membership.leave()
        await self.end()
        if farewell is not None:
            with suppress(errors.TankError):
                await self._calls.within(_FAREWELL_MS).call(
                    group_heartbeat(self._plan, farewell.epoch, farewell.owned)
                )

    def abort(self) -> None:
        """Ends the heartbeats, and doesn't wait for that."""
        if self._task is not None:
            self._task.cancel()

    async def end(self) -> None:
        """Ends the heartbeats."""
        self.abort()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    # Inside

    async def _run(self) -> None:
        membership = self.membership
        while True:
            self.look()
            beat = membership.heartbeat(self.now_ms())
            if beat is not None:
                await self._send(beat)
                self._news()
                continue
            self._wake.clear()
            wait_s = (membership.next_ms() - self.now_ms()) / 1000
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wait_s == float("inf") else max(wait_s, 0)):
                    await self._wake.wait()

    def _watch_program(self) -> None:
        """A program that takes single messages out of a batch works on, though it reads no batch."""
        progress = self._progress()
        if progress != self._seen_progress:
            self._seen_progress = progress
            self.membership.progressed(self.now_ms())

    async def _send(self, beat: MemberHeartbeat) -> None:
        membership = self.membership
        try:
            place = await self._calls.within(_ATTEMPTS_MS).call(
                group_heartbeat(self._plan, beat.epoch, beat.owned)
            )
        except errors.TankError as error:
            place = error
        if isinstance(place, errors.TankError):
            self._failed(beat, place)
        else:
            membership.answered(place.epoch, place.heartbeat_ms, place.assignment, self.now_ms())

    def _failed(self, beat: MemberHeartbeat, error: errors.TankError) -> None:
        membership, now_ms = self.membership, self.now_ms()
        if beat.leaves:
            membership.failed(error, now_ms, 0)
        elif isinstance(error, errors.UnknownMember | errors.StaleMember):
            logger.warning("group %r went on without this consumer, which joins again", self._plan.group)
            membership.fenced(now_ms)
        elif error.retriable or isinstance(error, errors.MAYBE_CARRIED_OUT):
            membership.failed(error, now_ms, self._calls.wait_ms(membership.failures + 1))
        else:
            membership.refused(error)

    def _news(self) -> None:
        if self._heard is not None and not self._heard.done():
            self._heard.set_result(None)
        self._on_news()
