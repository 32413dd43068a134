"""A clock that moves only when told."""


class ManualClock:
    """Implements tank_node.clock.Clock."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._us = 0
        """Microseconds that are not a millisecond yet."""

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._now_ms - 1_600_000_000_000

    def monotonic_us(self) -> int:
        return self.monotonic_ms() * 1000 + self._us

    def pass_ms(self, milliseconds: int) -> None:
        self._now_ms += milliseconds

    def pass_us(self, microseconds: int) -> None:
        """Less than a millisecond."""
        assert self._us + microseconds < 1000
        self._us += microseconds
