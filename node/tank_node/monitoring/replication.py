"""The metrics of replication as Prometheus families: leaders, in-sync replicas, the lag of each follower, and
the connection to the controllers. Made at each scrape, by one pass over the partitions."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tank_node.broker.broker import Broker
from tank_node.metrics import Metrics
from tank_node.partition.leader import PartitionLeader
from tank_node.partition.partition import Partition
from tank_node.replication.progress import ProgressState
from tank_node.replication.role import Role

PUSHES = ("live", "catch_up")
"""The purposes of connections to followers, as labels for `Metrics.pushed_bytes`."""
_AGREED = (ProgressState.REPLICATE, ProgressState.LEAVING)
"""The states in which it is known what a follower has matched."""


@dataclass(slots=True)
class _Follower:
    """What a broker lacks of the partitions led here; by default nothing."""

    lag_ms: int = 0
    """The longest lag of any partition."""
    behind_bytes: int = 0
    out_of_sync: int = 0


@dataclass(slots=True)
class _Found:
    """Counts over all partitions of a node."""

    roles: dict[Role, int] = field(default_factory=lambda: dict.fromkeys(Role, 0))
    refilling: int = 0
    in_sync: Counter[int] = field(default_factory=Counter)
    """Partitions led here, by the size of their in-sync sets."""
    under_replicated: int = 0
    below_min_insync: int = 0
    uncommitted: int = 0
    followers: defaultdict[int, _Follower] = field(default_factory=lambda: defaultdict(_Follower))

    def add(self, broker: Broker, partition: Partition, now_ms: int) -> None:
        self.roles[partition.role] += 1
        self.refilling += partition.log.health.refilling
        if partition.role is not Role.LEADER:
            return
        uncommitted = partition.log.written - partition.high_water_mark
        self.uncommitted += uncommitted
        leadership = partition.leadership
        self.below_min_insync += (
            leadership.is_below_min if isinstance(leadership, PartitionLeader) else not partition.in_sync
        )
        placed = broker.placed(partition)
        if placed is None:
            return  # its topic is being deleted
        in_sync = placed.in_sync
        self.in_sync[len(in_sync)] += 1
        if not uncommitted and len(in_sync) == len(placed.replicas):
            return  # all replicas have everything: the usual case, kept fast
        settled = set(placed.replicas).difference(placed.adding)
        self.under_replicated += not settled <= set(in_sync)
        if isinstance(leadership, PartitionLeader):
            self._add_followers(leadership, now_ms)

    def _add_followers(self, leadership: PartitionLeader, now_ms: int) -> None:
        in_sync = leadership.in_sync
        for broker_id, replica in in_sync.replicas.items():
            follower = self.followers[broker_id]
            follower.out_of_sync += broker_id not in in_sync.members
            if in_sync.has_all(replica):
                continue
            follower.lag_ms = max(follower.lag_ms, in_sync.lag_ms(replica, now_ms))
            carried = leadership.places.get(broker_id)
            if carried is not None:
                place = carried[1]
                if place.state in _AGREED and place.matched < leadership.log_end:
                    follower.behind_bytes += leadership.bytes_behind(place.matched)


def families(broker: Broker, metrics: Metrics) -> Iterator[Metric]:
    """The families of one node. Call it on the event loop's thread."""
    found = _Found()
    now_ms = broker.clock.monotonic_ms()
    for partition in broker.partitions():
        found.add(broker, partition, now_ms)
    yield from _partitions(found)
    yield from _followers(found, broker.roles.pushers.connected)
    yield from _events(metrics)
    yield from _controllers(broker)


def _partitions(found: _Found) -> Iterator[Metric]:
    replicas = GaugeMetricFamily("tank_replicas", "Partitions held here, by role", labels=["role"])
    for role, count in found.roles.items():
        replicas.add_metric([role.value], count)
    yield replicas
    yield GaugeMetricFamily(
        "tank_replicas_refilling",
        "Replicas that are being copied anew from their leaders",
        value=found.refilling,
    )
    in_sync = GaugeMetricFamily(
        "tank_led_partitions", "Partitions led here, by how many replicas are in sync", labels=["in_sync"]
    )
    for size, count in sorted(found.in_sync.items()):
        in_sync.add_metric([str(size)], count)
    yield in_sync
    yield GaugeMetricFamily(
        "tank_led_partitions_under_replicated",
        "Partitions led here with a replica out of sync, not counting replicas that are being added",
        value=found.under_replicated,
    )
    yield GaugeMetricFamily(
        "tank_led_partitions_below_min_insync",
        "Partitions led here that acknowledge nothing: fewer than min.insync.replicas are in sync",
        value=found.below_min_insync,
    )
    yield GaugeMetricFamily(
        "tank_uncommitted_numbers",
        "Message numbers given out here and not committed yet",
        value=found.uncommitted,
    )


def _followers(found: _Found, connected: dict[int, bool]) -> Iterator[Metric]:
    lines = GaugeMetricFamily(
        "tank_follower_connected",
        "Whether the connection for pushes to this follower is open, 1 or 0",
        labels=["follower"],
    )
    lag = GaugeMetricFamily(
        "tank_follower_lag_seconds", "Age of the oldest message that this follower lacks", labels=["follower"]
    )
    behind = GaugeMetricFamily(
        "tank_follower_behind_bytes",
        "Bytes that this follower has not confirmed, sent or not",
        labels=["follower"],
    )
    outside = GaugeMetricFamily(
        "tank_follower_out_of_sync_partitions",
        "Partitions led here in which this follower is out of sync",
        labels=["follower"],
    )
    for broker_id in sorted(connected.keys() | found.followers.keys()):
        label, follower = [str(broker_id)], found.followers[broker_id]
        lines.add_metric(label, connected.get(broker_id, False))
        lag.add_metric(label, follower.lag_ms / 1000)
        behind.add_metric(label, follower.behind_bytes)
        outside.add_metric(label, follower.out_of_sync)
    yield from (lines, lag, behind, outside)


def _events(metrics: Metrics) -> Iterator[Metric]:
    changes = CounterMetricFamily(
        "tank_leader_changes", "Partitions that this broker began or ended to lead", labels=["change"]
    )
    changes.add_metric(["began"], metrics.began_leading)
    changes.add_metric(["ended"], metrics.ended_leading)
    yield changes
    members = CounterMetricFamily(
        "tank_in_sync_changes",
        "Replicas that joined or left in-sync sets of partitions led here",
        labels=["change"],
    )
    members.add_metric(["joined"], metrics.in_sync_joined)
    members.add_metric(["left"], metrics.in_sync_left)
    yield members
    unchanged = CounterMetricFamily(
        "tank_in_sync_refusals",
        "In-sync sets proposed here that the controllers refused, by error",
        labels=["error"],
    )
    for error, count in sorted(metrics.in_sync_refusals.items()):
        unchanged.add_metric([error], count)
    yield unchanged
    refusals = CounterMetricFamily(
        "tank_push_refusals", "Stretches that a follower refused, by error", labels=["follower", "error"]
    )
    for (follower, error), count in sorted(metrics.push_refusals.items()):
        refusals.add_metric([str(follower), error], count)
    yield refusals
    yield CounterMetricFamily(
        "tank_refuted_epochs",
        "Leader epochs heard in a push that the controllers had given to no leader",
        value=metrics.refuted_epochs,
    )
    pushed = CounterMetricFamily("tank_pushed_bytes", "Bytes sent to followers", labels=["push"])
    for name, count in zip(PUSHES, metrics.pushed_bytes, strict=True):
        pushed.add_metric([name], count)
    yield pushed


def _controllers(broker: Broker) -> Iterator[Metric]:
    link = broker.link
    own = link.view.brokers.get(link.view.broker_id)
    yield GaugeMetricFamily(
        "tank_controllers_connected",
        "Whether the leading controller has a connection to this broker, 1 or 0",
        value=link.connected,
    )
    yield GaugeMetricFamily(
        "tank_controllers_silence_seconds",
        "Time since the leading controller was last heard",
        value=link.silence_ms / 1000,
    )
    yield GaugeMetricFamily(
        "tank_producer_ids_left",
        "Producer ids in reserve: producers that can start here while no controller leads",
        value=link.requests.producer_ids_left,
    )
    yield GaugeMetricFamily(
        "tank_fenced",
        "Whether this broker is fenced, so that it neither leads nor is in sync, 1 or 0",
        value=own is None or own.fenced,
    )
    yield GaugeMetricFamily(
        "tank_believed_epochs",
        "Partitions with a leader epoch heard in a push that the view should have by now, and doesn't",
        value=len(broker.followers.beliefs.held(broker.clock.monotonic_ms())),
    )
    yield GaugeMetricFamily(
        "tank_view_index",
        "Index of the last entry of the controllers' log in this broker's view",
        value=link.view.index,
    )
