"""Which controller a broker opens its stream to, and when. No I/O."""

from collections.abc import Callable, Sequence

NAMED_AT_ONCE = 3
"""After up to this many failures in a row, a leader that a controller names is tried at once: the stream
broke, another controller answered, the leader that it named had just died. After more, the broker waits
first: controllers name each other."""
BACKOFF_MS = 50
MAX_BACKOFF_MS = 1000


class ControllerChoice:
    """Chooses the next controller to try: the leader that another controller named, else the next in turn,
    after a wait that grows with each failure. Times are of the monotonic clock."""

    def __init__(self, addresses: Sequence[str], random: Callable[[int], int]) -> None:
        """`addresses`: host:port of the controllers, one at least. `random(n)`: from 0 to n - 1."""
        self.addresses = list(addresses)
        self.failures = 0
        """How many attempts failed since a controller last accepted this broker."""
        self._random = random
        self._at = random(len(self.addresses))
        self._leader = ""
        """The leader that another controller named; tried once."""
        self._silent = "", 0
        """The controller that was given up for its silence, and until when it is avoided, both in turn and
        when named: the other controllers name it until they notice its silence."""
        self._retry_ms = 0

    @property
    def address(self) -> str:
        """The controller that is tried next, or that the open stream goes to."""
        return self._leader or self.addresses[self._at]

    def is_due(self, now_ms: int) -> bool:
        """Whether a stream may be opened now."""
        return now_ms >= self._retry_ms

    def retry_now(self) -> None:
        """The next stream may be opened at once."""
        self._retry_ms = 0

    def was_taken(self) -> None:
        """Notes that the controller accepted this broker."""
        self.failures = 0

    def fell_silent(self, until_ms: int) -> None:
        """Avoids the present controller until `until_ms`."""
        self._silent = self.address, until_ms

    def stay(self, now_ms: int) -> None:
        """Tries the same controller again at once."""
        self._leader, self._retry_ms = self.address, now_ms

    def go_on(self, leader: str, now_ms: int) -> None:
        """Chooses another controller, because the present one failed. `leader`: the one that it named, or
        ""."""
        self.failures += 1
        self._leader = "" if leader == self.address or self._is_avoided(leader, now_ms) else leader
        wait_ms = 0
        if not self._leader or self.failures > NAMED_AT_ONCE:
            wait_ms = min(BACKOFF_MS << min(self.failures, 6), MAX_BACKOFF_MS)
            wait_ms = wait_ms // 2 + self._random(wait_ms // 2 + 1)
        if not self._leader:
            self._turn()
            if self._is_avoided(self.address, now_ms):
                self._turn()
        self._retry_ms = now_ms + wait_ms

    def _turn(self) -> None:
        self._at = (self._at + 1) % len(self.addresses)

    def _is_avoided(self, address: str, now_ms: int) -> bool:
        silent, until_ms = self._silent
        return address == silent and now_ms < until_ms
