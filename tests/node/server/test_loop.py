"""The loop that runs ticks by itself: when asyncio gets its turn between them."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from tank_node.server.loop import Events, TickLoop

MOST_TICKS = 1_000_000
"""A loop that gives asyncio no turn ends after so many."""


class ReadyForEver:
    """A descriptor that epoll always finds ready, and the ticks that come of it."""

    def __init__(self, loop: TickLoop) -> None:
        self.loop = loop
        self.ticks = 0
        self.turns: list[int] = []
        """How many ticks there had been whenever asyncio had its turn."""
        self.at: dict[int, object] = {}
        """What to do in which tick."""
        self._reader, self._writer = os.pipe()
        os.write(self._writer, b"x")
        loop.ticks.most_events = 2
        loop.ticks.epoll.register(self._reader)
        loop.ticks.tick = self.tick

    def tick(self, events: Events) -> bool:
        self.ticks += 1
        if self.ticks > MOST_TICKS:
            self.loop.call_soon(self.loop.stop)
        action = self.at.get(self.ticks)
        if callable(action):
            action()
        return any(fd != self._reader for fd, _ in events)

    def turn(self) -> None:
        self.turns.append(self.ticks)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@pytest.fixture
def ready() -> Iterator[ReadyForEver]:
    loop = TickLoop()
    ready = ReadyForEver(loop)
    yield ready
    loop.close()
    ready.close()


def test_ticks_follow_each_other_until_one_asks_the_loop_for_a_call(ready: ReadyForEver) -> None:
    ready.at[7] = lambda: ready.loop.call_soon(ready.turn)
    ready.at[20] = lambda: ready.loop.call_soon(ready.loop.stop)
    ready.loop.run_forever()
    assert ready.turns == [7], "the call comes right behind the tick that asked for it"
    assert ready.ticks == 20


def test_a_deadline_that_a_tick_sets_is_kept_though_ticks_never_end(ready: ReadyForEver) -> None:
    ready.at[3] = lambda: ready.loop.call_later(0.002, ready.loop.stop)
    ready.loop.run_forever()
    assert 3 <= ready.ticks <= MOST_TICKS, "asyncio had its turn for the deadline before ticks ran out"


def test_a_deadline_from_before_is_kept_though_ticks_never_end(ready: ReadyForEver) -> None:
    ready.loop.call_later(0.002, ready.loop.stop)
    ready.loop.run_forever()
    assert 0 < ready.ticks <= MOST_TICKS


def test_a_call_from_another_thread_ends_the_ticks(ready: ReadyForEver) -> None:
    async def ask() -> str:
        return await asyncio.to_thread(lambda: "from a thread")

    assert ready.loop.run_until_complete(ask()) == "from a thread"
    assert ready.ticks <= MOST_TICKS


def test_a_tick_that_fails_ends_nothing(ready: ReadyForEver, caplog: pytest.LogCaptureFixture) -> None:
    ready.at[2] = lambda: 1 // 0
    ready.at[5] = lambda: ready.loop.call_soon(ready.loop.stop)
    ready.loop.run_forever()
    assert ready.ticks == 5
    assert "a bug of ours: a tick failed" in caplog.text
