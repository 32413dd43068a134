"""Waiting in tests: for coroutines, and for what other processes and threads do."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.support.patience import patient

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], guard_s: float = 120.0) -> T:
    """The coroutine's result. The guard only keeps a hanging test from hanging the run; nothing is judged
    by it."""

    async def guarded() -> T:
        async with asyncio.timeout(patient(guard_s)):
            return await work

    return asyncio.run(guarded())


async def comes(true: Callable[[], bool], guard_s: float = 120.0) -> None:
    """Waits for something that must come, and is no event; the guard is as that of `run`."""
    async with asyncio.timeout(patient(guard_s)):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def until(true: Callable[[], bool], what: str, guard_s: float = 60.0) -> None:
    """Waits for something that must come; the guard only keeps a broken test from hanging."""
    deadline = time.monotonic() + patient(guard_s)
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)
