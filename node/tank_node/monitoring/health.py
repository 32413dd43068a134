"""Whether a node can do its work, and what is wrong with it: for /readyz and /metrics."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Health:
    """For people and for probes."""

    ready: bool
    """It takes requests, and its metadata can be changed."""
    problems: list[str] = field(default_factory=list)
    """What is wrong, a sentence each; a node may be ready in spite of some (one damaged partition)."""
    found_at_start: list[str] = field(default_factory=list)
    """What recovery found damaged, and what became of it; the partition may be in order again."""
    clock_ahead_ms: int = 0
    """How far the wall clock is ahead of what is believed of it (`SteadyClock`)."""
    facts: dict[str, str | int] = field(default_factory=dict)
    """What else a person wants to see: ids, addresses, counts."""
