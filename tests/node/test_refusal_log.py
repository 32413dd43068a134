"""What is refused is counted always, and logged calmly."""

import logging

import pytest

from tank_node.metrics import Metrics
from tank_node.refusal_log import QUIET_MS, RefusalLog


def test_a_reason_is_counted_each_time_and_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    refusals = RefusalLog(metrics)
    with caplog.at_level(logging.WARNING):
        for now_ms in range(5, QUIET_MS + 5, 1000):
            refusals.note("bundle_too_large", "a bundle for orders/3", now_ms)
    assert caplog.messages == ["refused input: bundle_too_large: a bundle for orders/3"]
    caplog.clear()
    refusals.note("count", "a bundle for orders/4", QUIET_MS)
    refusals.note("bundle_too_large", "a bundle for orders/3", QUIET_MS + 5)
    assert caplog.messages == [
        "refused input: count: a bundle for orders/4",
        "refused input: bundle_too_large: a bundle for orders/3 (9 more since the last line)",
    ]
    assert metrics.refused == {"bundle_too_large": 11, "count": 1}
