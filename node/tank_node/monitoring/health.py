"""Whether a node can do its work, and its problems: for /readyz and /metrics."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Health:
    """The health of a node at one moment."""

    ready: bool
    """Whether the node takes requests, and metadata can be changed."""
    problems: list[str] = field(default_factory=list)
    """A sentence for each problem; a node may be ready with some, such as one damaged partition."""
    found_at_start: list[str] = field(default_factory=list)
    """A sentence for each log that recovery found damaged or mended; it may be in order by now."""
    clock_ahead_ms: int = 0
    """How far the wall clock is ahead of the node's `SteadyClock`."""
    facts: dict[str, str | int] = field(default_factory=dict)
    """Further facts for people: ids, addresses, counts."""
