"""A log's part of its topic's settings, as plain numbers."""

from dataclasses import dataclass

from tank_node.segment.record import FORMAT_KAFKA, FORMAT_TANK
from tank_protos.topic_settings import LogFormat, TopicSettings

MAX_SEGMENT_RECORDS = 16 * 1024 * 1024
"""The most batches of a segment: an index of 1 GiB, which a recovery may have to read."""

MAX_SEGMENT_BYTES = 2**32 - 1
"""The most bytes of a segment, whatever the topic's setting: positions in index records have 32 bits."""

UNKNOWN_FACTOR = 0
"""The replication factor of a log that is opened before the view is known: it is not mended, as with
others."""


@dataclass(slots=True, frozen=True)
class LogSettings:
    """The settings of one log. Times in milliseconds, sizes in bytes; 0 means no limit."""

    segment_bytes: int = 1024**3
    roll_ms: int = 7 * 86_400_000
    roll_jitter_ms: int = 0
    retention_ms: int = 0
    retention_bytes: int = 0
    retention_segments: int = 0
    compact: bool = False
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    """How long after its last append a segment stays as it is."""
    delete_retention_ms: int = 86_400_000
    """How long a tombstone stays after the first compaction that met it."""
    replication_factor: int = 1
    """With 1 no other replica can refill a damaged log: it is mended at once with the batches left (see
    `mend`)."""
    format: int = FORMAT_TANK
    """The number of the batch format in `batch_formats`. It never changes in a topic's life."""

    @classmethod
    def from_topic(cls, settings: TopicSettings, replication_factor: int = 1) -> "LogSettings":
        """Makes a log's settings from a topic's. What bounds a log's age, size and segments holds only for a
        topic whose policy deletes."""
        policy = settings.cleanup_policy
        return cls(
            segment_bytes=min(settings.segment_bytes, MAX_SEGMENT_BYTES),
            roll_ms=settings.roll_ms,
            roll_jitter_ms=settings.roll_jitter_ms,
            retention_ms=settings.retention_ms if policy.deletes else 0,
            retention_bytes=settings.retention_bytes if policy.deletes else 0,
            retention_segments=settings.retention_segments_count if policy.deletes else 0,
            compact=policy.compacts,
            min_cleanable_ratio=settings.min_cleanable_ratio,
            min_compaction_lag_ms=settings.min_compaction_lag_ms,
            delete_retention_ms=settings.delete_retention_ms,
            replication_factor=replication_factor,
            format=FORMAT_KAFKA if settings.log_format is LogFormat.KAFKA else FORMAT_TANK,
        )
