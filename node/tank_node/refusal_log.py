"""What was not taken or could not be done, again and again: counted always, logged calmly."""

import logging

from tank_node.metrics import Metrics

logger = logging.getLogger(__name__)

QUIET_MS = 10_000
"""A reason is logged at most this often; the counters have them all."""


class RefusalLog:
    """One broker's."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._logged: dict[str, tuple[int, int]] = {}
        """By reason: when it was logged last, and how often it came since. As many as there are reasons."""

    def note(self, reason: str, detail: str, monotonic_ms: int) -> None:
        """Input was refused. `detail`: for the log alone, whose input and what is wrong with it."""
        self._metrics.refused[reason] += 1
        self.say(reason, f"refused input: {reason}: {detail}", monotonic_ms)

    def say(self, reason: str, line: str, monotonic_ms: int, level: int = logging.WARNING) -> None:
        """Logs a line, unless one of the same reason was logged a moment ago. Counted elsewhere."""
        logged_ms, since = self._logged.get(reason, (-QUIET_MS, 0))
        if monotonic_ms - logged_ms < QUIET_MS:
            self._logged[reason] = (logged_ms, since + 1)
            return
        more = f" ({since} more since the last line)" if since else ""
        logger.log(level, "%s%s", line, more)
        self._logged[reason] = (monotonic_ms, 0)
