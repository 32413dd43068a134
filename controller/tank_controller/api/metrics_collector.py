"""One controller's Raft and state as Prometheus families.

Partitions are counted when they change, so a scrape need not look at them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tank_controller.commands.machine import Metadata
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.leader.brokers.clocks import BrokerClocks
from tank_controller.leader.brokers.liveness import Loss
from tank_controller.raft.state import RaftRole
from tank_controller.raft_node.driver import RaftDriver
from tank_controller.raft_node.figures import LATENCY_BOUNDS_S, RaftFigures
from tank_controller.state.state import ClusterState
from tank_protos.feature_levels import OWN


class ControllerCollector(Collector):
    """The metrics of one controller. `collect` runs on its event loop's thread."""

    def __init__(
        self,
        driver: RaftDriver[CommandOutcome],
        metadata: Metadata,
        clocks: BrokerClocks | None = None,
        fences: Mapping[Loss, int] | None = None,
    ) -> None:
        """`clocks`: the brokers' clocks as the leader compares them; None: it compares none. `fences`: how
        often brokers were fenced; None: it fences none.
        """
        self._driver = driver
        self._metadata = metadata
        self._clocks = clocks
        self._fences = fences

    def collect(self) -> Iterator[Metric]:
        """The metrics, as Prometheus' library expects them."""
        yield from self._raft()
        yield from _figures(self._driver.figures)
        state = self._metadata.state
        yield from _brokers(state)
        yield from _partitions(state)
        yield from _tables(state)
        if self._clocks is not None:
            yield from _clocks(self._clocks)
        if self._fences is not None:
            yield _fences(self._fences)

    def _raft(self) -> Iterator[Metric]:
        driver = self._driver
        raft = driver.raft
        role = GaugeMetricFamily("tank_controller_role", "1 for what it does in its term", labels=["role"])
        for each in RaftRole:
            role.add_metric([each.value], float(raft.role is each))
        yield role
        yield _gauge("leads", "1 when it leads and its state holds all that was ever committed", driver.ready)
        yield _gauge("term", "Raft's term", raft.term)
        yield _gauge("voters", "Controllers that vote", len(raft.configuration.voters))
        yield _gauge(
            "learners", "Controllers that learn, and don't vote yet", len(raft.configuration.learners)
        )
        yield _gauge("commit_index", "The last entry that a majority is known to hold", raft.log.commit)
        yield _gauge("applied_index", "The last entry that is in the state", driver.applied)
        yield _gauge("snapshot_index", "The last entry in the newest snapshot", driver.snapshot_index)
        yield _gauge("waiting_proposals", "Log entries that wait for a majority", driver.proposals_waiting)
        yield _gauge("storage_full", "1 while its disk has no room", driver.full is not None)
        yield _gauge("storage_hangs", "1 while a write to its disk hangs", driver.hangs)
        yield _gauge("feature_level_known", "The newest feature level that its version knows", OWN.highest)


def _figures(figures: RaftFigures) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "tank_controller_leader_changes", "Changes of the leader that it knows", value=figures.leader_changes
    )
    yield _by_reason(
        "refused_proposals", "Commands and reads that it refused, by reason", figures.refused_proposals
    )
    yield _by_reason(
        "refused_messages", "Messages of other controllers that it refused", figures.refused_messages
    )
    buckets, count = [], 0
    for bound, more in zip((*map(str, LATENCY_BOUNDS_S), "+Inf"), figures.persist_counts, strict=True):
        count += more
        buckets.append((bound, float(count)))
    yield HistogramMetricFamily(
        "tank_controller_fsync_latency_seconds",
        "One write of the log, with its fsync",
        buckets=buckets,
        sum_value=figures.persist_s,
    )


def _brokers(state: ClusterState) -> Iterator[Metric]:
    brokers = state.brokers.values()
    yield _gauge("brokers", "Brokers that have registered and were not removed", len(brokers))
    fenced = sum(broker.fenced for broker in brokers)
    yield _gauge("brokers_fenced", "Brokers that may neither lead nor be in sync", fenced)
    draining = sum(broker.draining for broker in brokers)
    yield _gauge("brokers_draining", "Brokers that are being drained of their replicas", draining)
    stopping = sum(broker.shutting_down for broker in brokers)
    yield _gauge(
        "brokers_shutting_down", "Brokers that are shutting down, and hand over leadership", stopping
    )
    off = sum(broker.clock_off for broker in brokers)
    yield _gauge(
        "brokers_clock_off",
        "Brokers whose clocks are off: they lead only partitions that no other broker can lead",
        off,
    )
    full = sum(broker.no_room for broker in brokers)
    yield _gauge(
        "brokers_without_room",
        "Brokers whose volumes filled: they lead only partitions that no other broker can lead",
        full,
    )
    yield _gauge("feature_level", "The feature level in force", state.feature_level)


def _fences(fences: Mapping[Loss, int]) -> Metric:
    family = CounterMetricFamily(
        "tank_controller_fences", "Brokers that it fenced while it led, by reason", labels=["reason"]
    )
    for loss in Loss:
        family.add_metric([loss.value], fences.get(loss, 0))
    return family


def _clocks(clocks: BrokerClocks) -> Iterator[Metric]:
    """The metrics of clocks, at the leading controller only."""
    yield _gauge("clocks_disagree", "1 while no majority of the brokers' clocks agrees", clocks.disagree)
    own_ms = clocks.own_ahead_ms or 0
    yield _gauge("clock_ahead_seconds", "How far its clock is ahead of most brokers'", own_ms / 1000)
    ahead = GaugeMetricFamily(
        "tank_controller_broker_clock_ahead_seconds",
        "How far a broker's clock is ahead of most; none while no majority agrees",
        labels=["broker"],
    )
    for broker_id, ahead_ms in sorted(clocks.ahead_ms.items()):
        ahead.add_metric([str(broker_id)], ahead_ms / 1000)
    yield ahead


def _partitions(state: ClusterState) -> Iterator[Metric]:
    derived = state.derived
    yield _gauge("topics", "Topics", len(state.topics))
    yield _gauge("partitions", "Partitions of all topics", derived.partition_count)
    yield _gauge(
        "partitions_leaderless",
        "Partitions without a leader: they wait for an eligible replica",
        len(derived.leaderless),
    )
    yield _gauge(
        "partitions_doubtful",
        "Leaderless partitions of which an eligible replica came back and may have lost messages",
        len(derived.doubtful),
    )
    yield _gauge(
        "partitions_below_min_insync",
        "Partitions that acknowledge nothing: fewer than min.insync.replicas are in sync",
        derived.below_min_insync,
    )
    yield _gauge(
        "partitions_under_replicated",
        "Partitions with a replica out of sync, apart from replicas that are being added",
        derived.under_replicated,
    )
    yield _gauge("partitions_moving", "Partitions whose replicas are being moved", len(derived.moving))
    yield CounterMetricFamily(
        "tank_controller_lossy_elections",
        "Lossy and unclean elections: acknowledged messages may be gone",
        value=state.lossy_elections,
    )


def _tables(state: ClusterState) -> Iterator[Metric]:
    """The sizes of tables that are bounded (limits.py); beyond the bound, requests are refused."""
    yield _gauge("groups", "Groups with committed positions", len(state.groups))
    yield _gauge("positions", "Committed positions of all groups", state.position_count)
    yield _gauge("position_metadata_bytes", "Metadata of all committed positions", state.metadata_bytes)
    yield _gauge("named_producers", "Names of producers in the state", len(state.producers))


def _gauge(name: str, about: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tank_controller_{name}", about, value=float(value))


def _by_reason(name: str, about: str, counts: Counter[str]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"tank_controller_{name}", about, labels=["reason"])
    for error, count in sorted(counts.items()):
        reason = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", error.removesuffix("Error")).lower()
        family.add_metric([reason], count)
    return family
