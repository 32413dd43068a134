"""How long to wait before the next attempt; pure, the randomness is brought in."""

from collections.abc import Callable


def wait_ms(failures: int, min_ms: int, max_ms: int, random: Callable[[], float]) -> float:
    """The wait after the `failures`-th failure in a row (from 1 on): doubling, with full jitter, never
    below half of `min_ms`, never above `max_ms`. `random` gives numbers from 0 up to 1."""
    ceiling = min(max_ms, min_ms << min(max(failures - 1, 0), 20))
    return max(min_ms / 2, ceiling * random())
