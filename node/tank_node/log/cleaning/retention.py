"""Which segments retention removes, by time, size and count. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from tank_node.log.settings import LogSettings


class SegmentFacts(NamedTuple):
    """The facts of a segment that retention uses. last: the number before the next segment's base."""

    last: int
    size_bytes: int
    last_append_ms: int


def expired(
    sealed: Sequence[SegmentFacts],
    active_bytes: int,
    settings: LogSettings,
    now_ms: int,
    high_water_mark: int,
) -> int:
    """The number of oldest sealed segments to remove, all of them wholly at or below the high-water mark.

    A segment is removed when its newest batch was appended longer ago than `retention_ms`, while the log is
    larger than `retention_bytes`, or while it has more than `retention_segments` segments, the active one
    included.
    """
    total_bytes = active_bytes + sum(segment.size_bytes for segment in sealed)
    held = len(sealed) + 1
    gone = 0
    for segment in sealed:
        too_old = bool(settings.retention_ms) and segment.last_append_ms + settings.retention_ms < now_ms
        too_large = bool(settings.retention_bytes) and total_bytes > settings.retention_bytes
        too_many = bool(settings.retention_segments) and held > settings.retention_segments
        if segment.last > high_water_mark or not (too_old or too_large or too_many):
            break
        total_bytes -= segment.size_bytes
        held -= 1
        gone += 1
    return gone
