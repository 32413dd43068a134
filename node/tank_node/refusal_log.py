"""What of clients' and peers' input was not taken: counted always, logged calmly."""

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
        logged_ms, since = self._logged.get(reason, (-QUIET_MS, 0))
        if monotonic_ms - logged_ms < QUIET_MS:
            self._logged[reason] = (logged_ms, since + 1)
            return
        more = f" ({since} more since the last line)" if since else ""
        logger.warning("refused input: %s: %s%s", reason, detail, more)
        self._logged[reason] = (monotonic_ms, 0)
