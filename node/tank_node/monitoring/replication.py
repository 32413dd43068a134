"""What a node shows of replication, as Prometheus families: who leads, who is in sync, how far each follower
is behind, and its line to the controllers. Made when somebody scrapes, by one walk over the partitions."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tank_node.broker.broker import Broker
from tank_node.metrics import Metrics
from tank_node.partition.leader import Leadership
from tank_node.partition.partition import Partition
from tank_node.replication.progress import PlaceState
from tank_node.replication.role import Role

PUSHES = ("live", "catch_up")
"""What connections to followers are for: the label of `Metrics.pushed_bytes`."""
_AGREED = (PlaceState.STREAMING, PlaceState.LEAVING)
"""What a follower has matched is known then."""


@dataclass(slots=True)
class _Follower:
    """A broker that follows partitions which are led here; as it is when it lacks nothing."""

    lag_ms: int = 0
    """The longest of any partition."""
    behind_bytes: int = 0
    out_of_sync: int = 0


@dataclass(slots=True)
class _Found:
    """All partitions of a node, counted."""

    roles: dict[Role, int] = field(default_factory=lambda: dict.fromkeys(Role, 0))
    refilling: int = 0
    in_sync: Counter[int] = field(default_factory=Counter)
    """Partitions led here, by how many are in sync."""
    under_replicated: int = 0
    below_min_insync: int = 0
    uncommitted: int = 0
    followers: defaultdict[int, _Follower] = field(default_factory=lambda: defaultdict(_Follower))

    def add(self, broker: Broker, partition: Partition, now_ms: int) -> None:
        self.roles[partition.role] += 1
        self.refilling += partition.log.refilling
        if partition.role is not Role.LEADER:
            return
        uncommitted = partition.log.written - partition.high_water_mark
        self.uncommitted += uncommitted
        leadership = partition.leadership
        self.below_min_insync += (
            leadership.is_below_min if isinstance(leadership, Leadership) else not partition.in_sync
        )
        placed = broker.placed(partition)
        if placed is None:
            return  # its topic is going
        in_sync = placed.in_sync
        self.in_sync[len(in_sync)] += 1
        if not uncommitted and len(in_sync) == len(placed.replicas):
            return  # nobody lacks anything: so it is with most, and there may be very many
        settled = set(placed.replicas).difference(placed.adding)
        self.under_replicated += not settled <= set(in_sync)
        if isinstance(leadership, Leadership):
            self._add_followers(leadership, now_ms)

    def _add_followers(self, leadership: Leadership, now_ms: int) -> None:
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
    """For one node; on the event loop's thread."""
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
        "tank_replicas_refilling", "Replicas that are copied anew from their leaders", value=found.refilling
    )
    in_sync = GaugeMetricFamily(
        "tank_led_partitions", "Partitions led here, by how many replicas are in sync", labels=["in_sync"]
    )
    for size, count in sorted(found.in_sync.items()):
        in_sync.add_metric([str(size)], count)
    yield in_sync
    yield GaugeMetricFamily(
        "tank_led_partitions_under_replicated",
        "Partitions led here of which a replica is out of sync that doesn't only just come",
        value=found.under_replicated,
    )
    yield GaugeMetricFamily(
        "tank_led_partitions_below_min_insync",
        "Partitions led here that acknowledge nothing: fewer than min.insync.replicas are in sync",
        value=found.below_min_insync,
    )
    yield GaugeMetricFamily(
        "tank_uncommitted_numbers",
        "Numbers that were given here and that not all in sync have yet",
        value=found.uncommitted,
    )


def _followers(found: _Found, connected: dict[int, bool]) -> Iterator[Metric]:
    lines = GaugeMetricFamily(
        "tank_follower_connected",
        "Whether the connection for its pushes is open, 1 or 0",
        labels=["follower"],
    )
    lag = GaugeMetricFamily(
        "tank_follower_lag_seconds", "The age of the oldest message that it lacks", labels=["follower"]
    )
    behind = GaugeMetricFamily(
        "tank_follower_behind_bytes", "Bytes that it is still to be sent, or to answer", labels=["follower"]
    )
    outside = GaugeMetricFamily(
        "tank_follower_out_of_sync_partitions", "Partitions in which it is out of sync", labels=["follower"]
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
        "tank_leader_changes", "Partitions that came to be led here, or ceased to be", labels=["change"]
    )
    changes.add_metric(["began"], metrics.began_leading)
    changes.add_metric(["ended"], metrics.ended_leading)
    yield changes
    members = CounterMetricFamily(
        "tank_in_sync_changes", "Replicas that joined or left in-sync sets led here", labels=["change"]
    )
    members.add_metric(["joined"], metrics.in_sync_joined)
    members.add_metric(["left"], metrics.in_sync_left)
    yield members
    unchanged = CounterMetricFamily(
        "tank_in_sync_refusals", "In-sync sets that the controllers refused", labels=["error"]
    )
    for error, count in sorted(metrics.in_sync_refusals.items()):
        unchanged.add_metric([error], count)
    yield unchanged
    refusals = CounterMetricFamily(
        "tank_push_refusals", "Pushes that a follower did not take", labels=["follower", "error"]
    )
    for (follower, error), count in sorted(metrics.push_refusals.items()):
        refusals.add_metric([str(follower), error], count)
    yield refusals
    yield CounterMetricFamily(
        "tank_refuted_epochs",
        "Leader epochs that a push told of and the controllers had given to no leader",
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
        "Whether the controller that leads has a line here, 1 or 0",
        value=link.connected,
    )
    yield GaugeMetricFamily(
        "tank_controllers_silence_seconds",
        "How long ago the controller that leads was heard",
        value=link.silence_ms / 1000,
    )
    yield GaugeMetricFamily(
        "tank_producer_ids_left",
        "Producers that can start here while no controller leads",
        value=link.producer_ids_left,
    )
    yield GaugeMetricFamily(
        "tank_fenced",
        "Whether this broker may neither lead nor be in sync, 1 or 0",
        value=own is None or own.fenced,
    )
    yield GaugeMetricFamily(
        "tank_believed_epochs",
        "Partitions with a leader epoch that a push told of and the view should have by now, and hasn't",
        value=len(broker.followers.beliefs.held(broker.clock.monotonic_ms())),
    )
    yield GaugeMetricFamily(
        "tank_view_index", "The last entry of the controllers' log that is known here", value=link.view.index
    )
