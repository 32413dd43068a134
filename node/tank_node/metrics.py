"""The node's counters: plain integers, so that counting costs an addition.

The server, the sessions and the broker add to `Metrics`; `monitoring.metrics_collector` makes Prometheus
families of them at each scrape.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

LATENCY_BOUNDS_S: Final[tuple[float, ...]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip


class Histogram:
    """Counts of durations by upper bound; the last bucket has no bound."""

    __slots__ = ("bounds", "counts", "sum_s")

    def __init__(self, bounds: tuple[float, ...] = LATENCY_BOUNDS_S) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Counts one duration `times` times: the requests of a tick share one."""
        self.put(bisect_left(self.bounds, seconds), seconds, times)

    def cumulated(self) -> list[tuple[str, float]]:
        """Returns the counts as Prometheus wants them: of durations up to each bound."""
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            total += count
            buckets.append((bound, total))
        return buckets

    def put(self, bucket: int, seconds: float, times: int) -> None:
        """As `add`, for callers that know the duration's bucket (its place among `bounds`)."""
        self.counts[bucket] += times
        self.sum_s += seconds * times


KAFKA_SOFTWARE: Final = 100
"""The most versions of Kafka's clients that are counted one by one, because clients name them freely."""
OTHER_SOFTWARE: Final = ("(others)", "")
"""The name and the version of all further ones together: no client can have this name."""

KAFKA_CLIENT_IDS: Final = 200
"""The most client ids of Kafka's clients whose bytes are counted one by one, unless the configuration says
another number: clients choose their ids freely, and each one is two series."""
MAX_KAFKA_CLIENT_IDS: Final = 10_000
"""The greatest number that a configuration may say: some 3 MB in each scrape."""
OTHER_CLIENTS: Final = "(others)"
"""Stands for all further ids together."""
NO_CLIENT_ID: Final = "(none)"
"""Stands for clients without an id, or with an empty one."""
_CLIENT_ID_CHARACTERS: Final = 64
"""The most characters kept of a client id."""

IGGY_SDKS: Final = 100
"""The most unknown versions of Iggy's libraries that are counted one by one: clients name them freely."""

OK: Final = "ok"
"""The outcome of a request without an error."""


class ClientBytes:
    """The bytes of all Kafka clients with one client id."""

    __slots__ = ("received", "sent")

    def __init__(self) -> None:
        self.received = 0
        """Bytes of their requests."""
        self.sent = 0
        """Bytes of the answers."""


@dataclass(slots=True)
class Metrics:
    """The counters of one node. They only grow, except those called a level."""

    requests: defaultdict[tuple[int, str], int] = field(default_factory=lambda: defaultdict(int))
    """Requests by message id and outcome, counted when they are answered. Outcomes: OK, the first error in
    the answer, or the reason why the frame could not be read. Pings have no answer and are OK."""
    kafka_requests: defaultdict[tuple[str, int, str], int] = field(default_factory=lambda: defaultdict(int))
    """Requests of Kafka clients by name, version and outcome, counted likewise. Only of requests and versions
    that the broker serves, so that clients can't add to the keys."""
    kafka_software: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Connections of Kafka clients that named their library, by its name and version. Clients before 2.4 name
    none."""
    kafka_latency: dict[str, Histogram] = field(default_factory=dict)
    """From the tick that read a request of a Kafka client to its answer, by the request's name; the time that
    it waited is counted, too."""
    kafka_clients: dict[str, ClientBytes] = field(default_factory=dict)
    """The bytes of Kafka clients, by their ids."""
    iggy_requests: defaultdict[tuple[str, str, str], int] = field(default_factory=lambda: defaultdict(int))
    """Requests of Iggy clients by command, era and outcome, counted likewise; commands that no era has are
    one."""
    iggy_sessions: Counter[str] = field(default_factory=Counter)
    """Connections of Iggy clients by the era that they showed."""
    iggy_connections: Counter[str] = field(default_factory=Counter)
    """A level: those that are open, likewise."""
    iggy_unknown_sdks: Counter[str] = field(default_factory=Counter)
    """Logins of Iggy clients whose library has a version that no era is known for, by the version."""
    iggy_latency: dict[str, Histogram] = field(default_factory=dict)
    """From the tick that read a request of an Iggy client to its answer, by command."""
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Errors in answers, by (request kind, error name)."""
    forwarded: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Requests forwarded to other brokers, one for each leader, by message id and outcome: OK (answered),
    "not_sent", or "not_answered" (the leader may have carried it out)."""
    refused: Counter[str] = field(default_factory=Counter)
    """Refused input, by reason: malformed frames, bad bundles, clients over a limit."""
    closed: Counter[str] = field(default_factory=Counter)
    """Connections that the broker closed, by reason."""
    logins: Counter[str] = field(default_factory=Counter)
    """Logins of Iggy's clients, by outcome: OK, or why it was refused (`users.logins.LoginRefusal`)."""
    push_refusals: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Stretches that followers refused, by (follower's broker id, error name)."""
    in_sync_refusals: Counter[str] = field(default_factory=Counter)
    """In-sync sets that this broker proposed and the controller refused, by error name."""

    converted: Counter[str] = field(default_factory=Counter)
    """Batches in another format than the stored one, by what was done. For consumers: "bundle" (to a record
    batch), "message_set" (from record batches, for old clients), "record_batch" (to a bundle), or "kept" (an
    earlier result was given). Of producers: "produced_batch" (to a bundle), "produced_set" (a message set to
    a record batch), and "produced_bundle" (to a record batch). "record_batch_lossy" and "produced_lossy": a
    bundle lacks what its batch had."""
    converted_bytes: Counter[str] = field(default_factory=Counter)
    """The bytes of the results, but for "kept" and the lossy ones, which are counted as others, too."""

    group_rebalances: int = 0
    """Generations that groups coordinated here have begun."""
    group_commits: Counter[str] = field(default_factory=Counter)
    """Offsets that groups committed here, by outcome: OK, or the reason why they were refused."""
    group_load: Histogram = field(default_factory=Histogram)
    """How long this broker took from leading a partition of groups to answering for them."""

    pushed_bytes: list[int] = field(default_factory=lambda: [0, 0])
    """Bytes sent to followers: on live connections, and on catch-up connections."""
    refuted_epochs: int = 0
    """Leader epochs heard in a push that the controllers had given to no leader."""
    began_leading: int = 0
    """How often this broker became the leader of a partition."""
    ended_leading: int = 0
    in_sync_joined: int = 0
    """Replicas that joined in-sync sets of partitions led here."""
    in_sync_left: int = 0

    connections_opened: int = 0
    connections: int = 0
    """A level: the open connections."""
    received_bytes: int = 0
    sent_bytes: int = 0
    produced_batches: int = 0
    produced_messages: int = 0
    produced_bytes: int = 0
    consumed_bytes: int = 0
    ticks: int = 0
    fetch_sessions: int = 0
    """A level: the fetch sessions of Kafka clients."""
    waiting: int = 0
    """A level: requests that wait for a high-water mark (long polls)."""
    held_bytes: int = 0
    """A level: memory held for incomplete frames and unsent answers."""
    storage_errors: int = 0
    acknowledged_now: int = 0
    """Appends of this tick under flush=replicated: `end_tick` counts the tick's duration for them, and resets
    this."""
    consumed_now: int = 0
    """Consume requests answered in the tick that read them, likewise."""
    kafka_answered_now: dict[str, int] = field(default_factory=dict)
    """Requests of Kafka clients answered in the tick that read them, by name, likewise."""
    iggy_answered_now: dict[str, int] = field(default_factory=dict)
    """Those of Iggy clients, by command, likewise."""

    produce_latency: Histogram = field(default_factory=Histogram)
    """From the tick that read the request to its answer."""
    consume_latency: Histogram = field(default_factory=Histogram)
    """The same for consume requests that were answered at once."""
    wait_latency: Histogram = field(default_factory=Histogram)
    """How long long polls waited until they were answered."""
    tick_latency: Histogram = field(default_factory=Histogram)
    """One tick, from the first byte read to the last answer."""
    fsync_latency: Histogram = field(default_factory=Histogram)

    def count_kafka_software(self, name: str, version: str) -> None:
        """Counts a connection whose client has named its library."""
        software = name, version
        if software not in self.kafka_software and len(self.kafka_software) >= KAFKA_SOFTWARE:
            software = OTHER_SOFTWARE
        self.kafka_software[software] += 1

    def client_bytes(self, client_id: str | None, most: int = KAFKA_CLIENT_IDS) -> ClientBytes:
        """Returns the counters of Kafka clients with this id; when `most` ids have their own, those of all
        others together."""
        name = NO_CLIENT_ID
        if client_id:
            # Not every id is text that a scrape could show, and some are long.
            shown = client_id[:_CLIENT_ID_CHARACTERS]
            name = shown if shown.isprintable() else "".join(c if c.isprintable() else "?" for c in shown)
        clients = self.kafka_clients
        found = clients.get(name)
        if found is None:
            if len(clients) - (OTHER_CLIENTS in clients) >= most:
                name = OTHER_CLIENTS
            found = clients.get(name)
            if found is None:
                found = clients[name] = ClientBytes()
        return found

    def count_kafka_time(self, api: str, waited_us: int, requests: int = 1) -> None:
        """Counts the time of a Kafka client's request, or of several that took it together; 0: they are
        answered in the tick that read them."""
        if not waited_us:
            now = self.kafka_answered_now
            now[api] = now.get(api, 0) + requests
            return
        self._kafka_histogram(api).add(waited_us / 1_000_000, requests)

    def _kafka_histogram(self, api: str) -> Histogram:
        found = self.kafka_latency.get(api)
        if found is None:
            found = self.kafka_latency[api] = Histogram()
        return found

    def count_iggy_time(self, command: str, waited_us: int) -> None:
        """Counts the time of an Iggy client's request, as `count_kafka_time`."""
        if not waited_us:
            now = self.iggy_answered_now
            now[command] = now.get(command, 0) + 1
            return
        self._iggy_histogram(command).add(waited_us / 1_000_000)

    def _iggy_histogram(self, command: str) -> Histogram:
        found = self.iggy_latency.get(command)
        if found is None:
            found = self.iggy_latency[command] = Histogram()
        return found

    def begin_iggy_session(self, era: str) -> None:
        """Counts a connection of an Iggy client that has shown its era."""
        self.iggy_sessions[era] += 1
        self.iggy_connections[era] += 1

    def narrow_iggy_session(self, era: str, narrowed: str) -> None:
        """A connection turns out to be of another era than it was counted for."""
        for counted in (self.iggy_sessions, self.iggy_connections):
            counted[era] -= 1
            counted[narrowed] += 1

    def count_unknown_sdk(self, version: str) -> None:
        """Counts a login of an Iggy client whose library has this unknown version."""
        shown = (
            "".join(c if c.isprintable() else "?" for c in version[:_CLIENT_ID_CHARACTERS]) or NO_CLIENT_ID
        )
        if shown not in self.iggy_unknown_sdks and len(self.iggy_unknown_sdks) >= IGGY_SDKS:
            shown = OTHER_CLIENTS
        self.iggy_unknown_sdks[shown] += 1

    def end_tick(self, seconds: float) -> None:
        """Counts a tick, whose duration also counts for the requests answered in it."""
        self.ticks += 1
        bucket = bisect_left(LATENCY_BOUNDS_S, seconds)
        self.tick_latency.put(bucket, seconds, 1)
        if self.acknowledged_now:
            self.produce_latency.put(bucket, seconds, self.acknowledged_now)
            self.acknowledged_now = 0
        if self.consumed_now:
            self.consume_latency.put(bucket, seconds, self.consumed_now)
            self.consumed_now = 0
        if self.kafka_answered_now:
            for api, times in self.kafka_answered_now.items():
                self._kafka_histogram(api).put(bucket, seconds, times)
            self.kafka_answered_now.clear()
        if self.iggy_answered_now:
            for command, times in self.iggy_answered_now.items():
                self._iggy_histogram(command).put(bucket, seconds, times)
            self.iggy_answered_now.clear()
