"""The metrics of consumer groups as Prometheus families, of the groups that this broker coordinates; and the
ends of the partitions that it leads, to which the groups' offsets are compared.

A group's coordinator knows how far the group has read, and the partition's leader where the partition ends.
They are two brokers, so that neither exports the lag: the difference is made where both are scraped.
"""

from collections.abc import Iterator
from itertools import islice

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from tank_node.broker.broker import Broker
from tank_node.coordinators.groups import Groups
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_memory import GroupMemory
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.group_state import GroupState
from tank_node.metrics import Metrics
from tank_node.replication.role import Role


def families(broker: Broker, metrics: Metrics) -> Iterator[Metric]:
    """The families of one node. Call it on the event loop's thread."""
    groups = broker.groups if isinstance(broker.groups, Groups) else None
    yield from _levels(groups.room.memory if groups is not None else GroupMemory())
    yield from _partitions(groups)
    yield from _events(metrics)
    most = (groups.settings if groups is not None else GroupSettings()).lag_series
    yield _offsets(groups, most)
    yield _marks(broker, most)


def _levels(memory: GroupMemory) -> Iterator[Metric]:
    by_state = GaugeMetricFamily("tank_groups", "Groups coordinated here, by state", labels=["state"])
    for state in GroupState:
        if state is not GroupState.DEAD:
            by_state.add_metric([state.value], memory.states[state])
    yield by_state
    yield GaugeMetricFamily(
        "tank_group_members", "Members of the groups coordinated here", value=memory.members
    )
    yield GaugeMetricFamily(
        "tank_group_offsets", "Committed offsets of the groups coordinated here", value=memory.offsets
    )
    yield GaugeMetricFamily(
        "tank_group_held_bytes",
        "About how much memory the groups coordinated here take",
        value=memory.held_bytes,
    )


def _partitions(groups: Groups | None) -> Iterator[Metric]:
    found = {GroupError.LOADING: 0, GroupError.NONE: 0}
    for led in groups.led() if groups is not None else ():
        found[led.state] += 1
    partitions = GaugeMetricFamily(
        "tank_group_partitions",
        "Partitions of the groups' topic whose groups are coordinated here, or being loaded",
        labels=["state"],
    )
    partitions.add_metric(["coordinated"], found[GroupError.NONE])
    partitions.add_metric(["loading"], found[GroupError.LOADING])
    yield partitions


def _events(metrics: Metrics) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "tank_group_rebalances",
        "Generations that groups coordinated here have begun",
        value=metrics.group_rebalances,
    )
    commits = CounterMetricFamily(
        "tank_group_commits", "Offsets that groups committed here, by outcome", labels=["outcome"]
    )
    for outcome, count in sorted(metrics.group_commits.items()):
        commits.add_metric([outcome], count)
    yield commits
    load = metrics.group_load
    yield HistogramMetricFamily(
        "tank_group_load_seconds",
        "Time from leading a partition of the groups' topic to answering for its groups",
        buckets=load.cumulated(),
        sum_value=load.sum_s,
    )


def _offsets(groups: Groups | None, most: int) -> Metric:
    offsets = GaugeMetricFamily(
        "tank_group_committed_offset",
        "Offset up to which a group has read a partition, of the first ones",
        labels=["group", "topic", "partition"],
    )
    found = (
        (group_id, place, offset)
        for led in (groups.led() if groups is not None else ())
        for group_id, group in led.groups.items()
        for place, offset in group.offsets.items()
    )
    for group_id, (topic, number), offset in islice(found, most):
        offsets.add_metric([_label(group_id), topic, str(number)], offset.offset)
    return offsets


def _marks(broker: Broker, most: int) -> Metric:
    marks = GaugeMetricFamily(
        "tank_partition_end_offset",
        "Offset behind the last committed message of a partition led here, of the first ones",
        labels=["topic", "partition"],
    )
    led = (
        partition
        for partition in broker.partitions()
        if partition.role is Role.LEADER and not broker.is_internal(partition.topic_name)
    )
    for partition in islice(led, most):
        marks.add_metric([partition.topic_name, str(partition.number)], partition.high_water_mark)
    return marks


def _label(group_id: str) -> str:
    """The group's name as a label, which must be UTF-8."""
    return group_id.encode("utf-8", "replace").decode("utf-8")
