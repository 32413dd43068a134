"""A log's settings, made of its topic's."""

import pytest

from tank_node.log.settings import LogSettings
from tank_node.segment.record import FORMAT_KAFKA, FORMAT_TANK
from tank_protos.topic_settings import from_pairs

BOUNDS = {"log.retention.secs": "7d", "log.retention.bytes": "1g", "retention.segments.count": "5"}


def made_of(pairs: dict[str, str]) -> LogSettings:
    return LogSettings.from_topic(from_pairs(pairs))


@pytest.mark.parametrize(
    ("policy", "compacts", "deletes"),
    [
        ("delete", False, True),
        ("cleanup", True, False),
        ("compact", True, False),
        ("compact,delete", True, True),
    ],
)
def test_only_a_policy_that_deletes_bounds_a_log(policy: str, compacts: bool, deletes: bool) -> None:
    settings = made_of(BOUNDS | {"log.cleanup.policy": policy})
    assert settings.compact == compacts
    bounds = settings.retention_ms, settings.retention_bytes, settings.retention_segments
    assert bounds == ((7 * 86_400_000, 1024**3, 5) if deletes else (0, 0, 0))


def test_a_log_has_its_topics_format_and_lag() -> None:
    settings = made_of({"log.format": "kafka", "min.compaction.lag.ms": "1min"})
    assert (settings.format, settings.min_compaction_lag_ms) == (FORMAT_KAFKA, 60_000)
    assert (made_of({}).format, made_of({}).min_compaction_lag_ms) == (FORMAT_TANK, 0)
