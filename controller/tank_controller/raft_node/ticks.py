"""What drives the controller's clock on an event loop."""

import asyncio
from collections.abc import Callable

TICK_MS = 50
"""A leader's heartbeat goes out every two ticks; without one for 20 to 40 a voter asks for an election (see
raft.settings): one to two seconds, which a busy machine doesn't reach by a pause of its event loop."""
ELECTION_TICKS = 20
ALONE_TICK_MS = 250
"""Of a controller that is alone: there is nobody to hear from in time, and an idle broker is to cost
nothing."""


async def keep_ticking(tick: Callable[[], None], every_ms: int = TICK_MS) -> None:
    """Calls `tick` again and again, until it is cancelled. Ticks that a busy loop has missed don't come
    later: judging silence needs time in which somebody could be heard.
    """
    while True:
        await asyncio.sleep(every_ms / 1000)
        tick()
