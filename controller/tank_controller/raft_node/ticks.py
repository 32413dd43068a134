"""Calls the controller's tick on an event loop."""

import asyncio
from collections.abc import Callable

TICK_MS = 50
"""A leader's heartbeat goes out every two ticks; without one for 20 to 40 a voter asks for an election (see
raft.settings): one to two seconds, longer than a busy machine's event loop pauses.
"""
ELECTION_TICKS = 20
ALONE_TICK_MS = 250
"""The tick of a controller that is alone: it need not hear from others in time, and an idle broker should use
no processor time.
"""


async def keep_ticking(tick: Callable[[], None], every_ms: int = TICK_MS) -> None:
    """Calls `tick` again and again, until it is cancelled. Ticks that a busy loop has missed don't come
    later: a silence counts only while messages could arrive.
    """
    while True:
        await asyncio.sleep(every_ms / 1000)
        tick()
