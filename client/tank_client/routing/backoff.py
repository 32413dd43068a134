"""The wait before the next attempt; pure, the caller passes the random numbers."""

from collections.abc import Callable


def wait_ms(failures: int, min_ms: int, max_ms: int, random: Callable[[], float]) -> float:
    """The wait after the `failures`-th failure in a row (from 1 on): doubling, with full jitter, never
    below half of `min_ms`, never above `max_ms`. `random` gives numbers from 0 up to 1."""
    ceiling = min(max_ms, min_ms << min(max(failures - 1, 0), 20))
    return max(min_ms / 2, ceiling * random())


ELECTION = 30
"""The number of questions, in about a second, within which a usual election ends."""


def soon_ms(questions: int, min_ms: int, random: Callable[[], float]) -> float:
    """Returns the wait after the `questions`-th answer without a leader (from 1 on): at most `min_ms`, and
    five times as much once the election takes longer than usual. Brokers answer the question from memory, at
    once.
    """
    most = min_ms if questions <= ELECTION else 5 * min_ms
    return most * (1 + random()) / 2
