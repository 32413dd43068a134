"""How long the answer to a login that failed is held back. Pure."""

from tank_node.users.limits import (
    FAILURE_LONGEST_MS,
    FAILURE_SHORTEST_MS,
    FAILURES_KEPT,
    FAILURES_KEPT_MS,
)


class FailureDelays:
    """The failures of each (user's name, client's host), for a while. A guesser waits longer each time;
    nobody else does.
    """

    def __init__(self, most: int = FAILURES_KEPT) -> None:
        """`most`: pairs that are remembered; the one that failed longest ago is forgotten for another."""
        self._most = most
        self._failed: dict[tuple[str, str], tuple[int, int]] = {}
        """How often, and when last; the pair that failed last stands last."""

    def __len__(self) -> int:
        return len(self._failed)

    def failed(self, name: str, host: str, monotonic_ms: int) -> int:
        """Notes a failure, and returns how many milliseconds its answer is held back."""
        count, last_ms = self._failed.pop((name, host), (0, monotonic_ms))
        if monotonic_ms - last_ms >= FAILURES_KEPT_MS:
            count = 0
        if len(self._failed) >= self._most:
            del self._failed[next(iter(self._failed))]
        self._failed[name, host] = count + 1, monotonic_ms
        return min(FAILURE_SHORTEST_MS << min(count, 10), FAILURE_LONGEST_MS)

    def succeeded(self, name: str, host: str) -> None:
        """Forgets the failures of a pair."""
        self._failed.pop((name, host), None)
