"""What a log needs to know of its topic's settings, as plain numbers."""

from dataclasses import dataclass

from tank_protos.topic_settings import CleanupPolicy, TopicSettings

MAX_SEGMENT_RECORDS = 16 * 1024 * 1024
"""A segment is sealed at so many batches: an index of 1 GiB, which the next recovery may have to read."""

MAX_SEGMENT_BYTES = 2**32 - 1
"""Positions in an index record are 32 bits: whatever the topic's setting, a segment ends before."""

UNKNOWN_FACTOR = 0
"""A replication factor that nobody has said yet: nothing is mended, as if there were others."""


@dataclass(slots=True, frozen=True)
class LogSettings:
    """One partition's limits. Times in milliseconds, sizes in bytes; 0 means no limit, but for the roll."""

    segment_bytes: int = 1024**3
    roll_ms: int = 7 * 86_400_000
    roll_jitter_ms: int = 0
    retention_ms: int = 0
    retention_bytes: int = 0
    retention_segments: int = 0
    compact: bool = False
    min_cleanable_ratio: float = 0.5
    replication_factor: int = 1
    """With 1 nobody can refill a damaged log: it is mended at once, with what is left (see recovery)."""
    format: int = 0
    """Of the batches: 0 TANK bundles, 1 Kafka record batches. Fixed when the topic is created."""

    @classmethod
    def from_topic(cls, settings: TopicSettings, replication_factor: int = 1) -> "LogSettings":
        """The part of a topic's settings that concerns the log of one partition."""
        return cls(
            segment_bytes=min(settings.segment_bytes, MAX_SEGMENT_BYTES),
            roll_ms=settings.roll_ms,
            roll_jitter_ms=settings.roll_jitter_ms,
            retention_ms=settings.retention_ms,
            retention_bytes=settings.retention_bytes,
            retention_segments=settings.retention_segments_count,
            compact=settings.cleanup_policy is CleanupPolicy.CLEANUP,
            min_cleanable_ratio=settings.min_cleanable_ratio,
            replication_factor=replication_factor,
        )
