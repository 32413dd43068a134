"""Running coroutines in tests."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], guard_s: float = 60.0) -> T:
    """The coroutine's result. The guard only keeps a hanging test from hanging the run; nothing is judged
    by it."""
    return asyncio.run(asyncio.wait_for(work, guard_s))
