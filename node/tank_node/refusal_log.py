"""A log of refused input and failed writes: every one is counted, but repeated ones are logged seldom."""

import logging

from tank_node.metrics import Metrics

logger = logging.getLogger(__name__)

QUIET_MS = 10_000
"""The shortest time between two log lines of one reason."""


class RefusalLog:
    """The refusals of one broker."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logged: dict[str, tuple[int, int]] = {}
        """By reason: when it was logged last, and how often it occurred since."""

    def note(self, reason: str, detail: str, monotonic_ms: int) -> None:
        """Counts and logs refused input. detail: for the log line, whose input it was and what is wrong with
        it."""
        self._metrics.refused[reason] += 1
        self.say(reason, f"refused input: {reason}: {detail}", monotonic_ms)

    def say(self, reason: str, line: str, monotonic_ms: int, level: int = logging.WARNING) -> None:
        """Logs a line, unless one of the same reason was logged within QUIET_MS. Counts nothing in the
        metrics."""
        logged_ms, since = self._logged.get(reason, (-QUIET_MS, 0))
        if monotonic_ms - logged_ms < QUIET_MS:
            self._logged[reason] = (logged_ms, since + 1)
            return
        more = f" ({since} more since the last line)" if since else ""
        logger.log(level, "%s%s", line, more)
        self._logged[reason] = (monotonic_ms, 0)
