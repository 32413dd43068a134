"""How long to wait before the next attempt; pure, the randomness is brought in."""

from collections.abc import Callable


def wait_ms(failures: int, min_ms: int, max_ms: int, random: Callable[[], float]) -> float:
    """The wait after the `failures`-th failure in a row (from 1 on): doubling, with full jitter, never
    below half of `min_ms`, never above `max_ms`. `random` gives numbers from 0 up to 1."""
    ceiling = min(max_ms, min_ms << min(max(failures - 1, 0), 20))
    return max(min_ms / 2, ceiling * random())


ELECTION = 30
"""So many questions, in about a second, an election is given that goes as it should."""


def soon_ms(questions: int, min_ms: int, random: Callable[[], float]) -> float:
    """The wait after the `questions`-th time that nobody led (from 1 on): `min_ms` at most, and five times as
    much for what is no common election any more. Whoever is asked answers at once, from memory."""
    most = min_ms if questions <= ELECTION else 5 * min_ms
    return most * (1 + random()) / 2
