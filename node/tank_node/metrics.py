"""What the node counts: plain integers on the hot path, Prometheus families when somebody asks.

The server, sessions and the broker add to `Metrics`; `monitoring.metrics_collector` turns it into families
at scrape time, so counting costs an addition. Times are milliseconds unless a name says otherwise.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

LATENCY_BOUNDS_S: Final[tuple[float, ...]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class Histogram:
    """Counts of seconds by upper bound; the last bucket has none."""

    __slots__ = ("bounds", "counts", "sum_s")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Counts the same duration `times` times: requests of one tick share theirs."""
        self.put(bisect_left(self.bounds, seconds), seconds, times)

    def put(self, bucket: int, seconds: float, times: int) -> None:
        """The same for who knows the bucket: where the duration belongs among `bounds`."""
        self.counts[bucket] += times
        self.sum_s += seconds * times


OK: Final = "ok"
"""The outcome of a request that had no error."""


@dataclass(slots=True)
class Metrics:
    """One per node; everything only grows, except what is marked as a level."""

    requests: defaultdict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))
    """Requests by message id and outcome, counted when they are answered: OK, the first error in the answer,
    or why the frame could not be read. Pings have no answer and are OK."""
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Error bytes answered, by (request kind, error name)."""
    forwarded: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Requests for what other brokers lead, one for each leader, by message id and what came of it: OK, an
    answer came; "not_sent"; "not_answered", it may have been done."""
    refused: Counter[str] = field(default_factory=Counter)
    """Input that was not taken, by reason: malformed frames, bad bundles, clients over a limit."""
    closed: Counter[str] = field(default_factory=Counter)
    """Connections that the broker closed, by reason."""
    push_refusals: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Stretches that followers of what is led here did not take, by (follower's broker id, error name)."""
    in_sync_refusals: Counter[str] = field(default_factory=Counter)
    """In-sync sets that this broker proposed and the controller refused, by error name."""

    pushed_bytes: list[int] = field(default_factory=lambda: [0, 0])
    """What was sent to followers: by live pushes, and to those that caught up."""
    refuted_epochs: int = 0
    """Leader epochs that a push told of and the controllers had given to no leader."""
    began_leading: int = 0
    """Partitions that another led before, or nobody."""
    ended_leading: int = 0
    in_sync_joined: int = 0
    """Replicas that came into the in-sync sets of partitions while they were led here."""
    in_sync_left: int = 0

    connections_opened: int = 0
    connections: int = 0
    """A level: open now."""
    received_bytes: int = 0
    sent_bytes: int = 0
    produced_batches: int = 0
    produced_messages: int = 0
    produced_bytes: int = 0
    consumed_bytes: int = 0
    ticks: int = 0
    waiting: int = 0
    """A level: long polls that wait for something."""
    held_bytes: int = 0
    """A level: memory held for half frames and unsent answers."""
    storage_errors: int = 0
    acknowledged_now: int = 0
    """Appends answered in the tick that read them; `end_tick` takes them over."""
    consumed_now: int = 0
    """The same for consume requests."""

    produce_latency: Histogram = field(default_factory=Histogram)
    """From the tick that read the request to its answer."""
    consume_latency: Histogram = field(default_factory=Histogram)
    """Of requests that were answered at once."""
    wait_latency: Histogram = field(default_factory=Histogram)
    """How long woken long polls waited."""
    tick_latency: Histogram = field(default_factory=Histogram)
    """One tick, from the first byte read to the last answer."""
    fsync_latency: Histogram = field(default_factory=Histogram)

    def end_tick(self, seconds: float) -> None:
        """One tick is over: its requests share its duration."""
        self.ticks += 1
        bucket = bisect_left(LATENCY_BOUNDS_S, seconds)
        self.tick_latency.put(bucket, seconds, 1)
        if self.acknowledged_now:
            self.produce_latency.put(bucket, seconds, self.acknowledged_now)
            self.acknowledged_now = 0
        if self.consumed_now:
            self.consume_latency.put(bucket, seconds, self.consumed_now)
            self.consumed_now = 0
