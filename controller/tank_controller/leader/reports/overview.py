"""The state as operators see it: brokers and their loads, partitions and their troubles. Pure.

Functions that look at many partitions are generators, so that the event loop can do other work in between.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from tank_controller.state.codec import add_partition, broker_message, topic_message
from tank_controller.state.keys import partition_of, topic_of
from tank_controller.state.model import NO_BROKER, PartitionState, TopicState
from tank_controller.state.state import ClusterState
from tank_controller.state.view_parts import PART_BYTES
from tank_protos.generated import control_pb2 as pb

PORTION = 500
"""How many partitions one step looks at: some ten milliseconds' work."""


def troubles(topic: TopicState, partition: PartitionState) -> list[pb.PartitionTrouble]:
    """The partition's troubles; empty when all is well."""
    found = []
    if partition.under_replicated:
        found.append(pb.UNDER_REPLICATED)
    if len(partition.in_sync) < topic.min_insync:
        found.append(pb.BELOW_MIN_INSYNC)
    if partition.leader == NO_BROKER:
        found.append(pb.LEADERLESS)
    elif partition.leader != partition.replicas[0] and partition.replicas[0] in partition.in_sync:
        found.append(pb.DISPLACED)
    if partition.moves:
        found.append(pb.MOVING)
    if partition.lossy_elections:
        found.append(pb.LOSSY)
    return found


def overview(
    state: ClusterState, displaced: int, connected: Iterable[int], *, balanced: bool
) -> pb.OverviewAnswer:
    """The overview of the cluster. `displaced` as `Displaced` counts; `connected`: the brokers whose streams
    are open.
    """
    streams = set(connected)
    derived = state.derived
    arriving = Counter(each for key in derived.moving for each in state.find(key)[1].adding)
    return pb.OverviewAnswer(
        index=state.index,
        topics=len(state.topics),
        partitions=derived.partition_count,
        under_replicated=derived.under_replicated,
        below_min_insync=derived.below_min_insync,
        leaderless=len(derived.leaderless),
        moving=len(derived.moving),
        displaced=displaced,
        lossy_elections=state.lossy_elections,
        brokers=[
            pb.BrokerLoad(
                broker=broker_message(broker),
                connected=broker_id in streams,
                replicas=len(state.held_by(broker_id)),
                leads=derived.led[broker_id],
                arriving=arriving[broker_id],
            )
            for broker_id, broker in sorted(state.brokers.items())
        ],
        widest=max((topic.replication_factor for topic in state.topics.values()), default=0),
        balanced=balanced,
        feature_level=state.feature_level,
    )


class Displaced:
    """Counts the partitions that their preferred replica doesn't lead although it could."""

    def __init__(self) -> None:
        self.found = 0

    def count(self, state: ClusterState) -> Iterator[None]:
        """A step after each portion, between which the state may change."""
        for number, key in enumerate(list(state.derived.displaced), 1):
            if key in state.derived.displaced:
                _, partition = state.find(key)
                self.found += partition.replicas[0] in partition.in_sync
            if number % PORTION == 0:
                yield


def partition_parts(state: ClusterState, request: pb.PartitionsRequest) -> Iterator[pb.PartitionsAnswer]:
    """Partitions by topic's name and number: a part after each portion looked at, which may be empty, or when
    it is large. Between two parts the state may change."""
    names, only = set(request.topics), request.only
    part = pb.PartitionsAnswer(unknown_topics=sorted(names - state.topic_ids.keys()))
    named: set[int] = set()
    room = request.limit or state.partition_count + 1
    size = 0
    """Bytes of the part's topics: the options of one of Iggy's may have 64 KiB."""
    for looked_at, (topic, number, partition) in enumerate(_candidates(state, names, request), 1):
        found = troubles(topic, partition)
        if only in (pb.NO_TROUBLE, *found):
            if topic.topic_id not in named:
                named.add(topic.topic_id)
                summary = _summary(topic)
                part.topics.append(summary)
                size += summary.ByteSize()
            part.partitions.append(_report(topic, number, partition, found))
            room -= 1
            if not room:
                break
        if looked_at % PORTION == 0 or size >= PART_BYTES:
            yield part
            part, size = pb.PartitionsAnswer(), 0
    yield part


def add_unreadable(part: pb.PartitionsAnswer, unreadable: Callable[[int, int], list[int]]) -> None:
    """Adds the brokers that can't read a leaderless partition. `unreadable` takes (topic id, partition)."""
    for report in part.partitions:
        if report.partition.leader == NO_BROKER:
            report.unreadable.extend(unreadable(report.topic_id, report.partition.partition))


def _candidates(
    state: ClusterState, names: set[str], request: pb.PartitionsRequest
) -> Iterator[tuple[TopicState, int, PartitionState]]:
    """The partitions that may be in this trouble; the state has sets of leaderless and moving ones."""
    after = request.after_topic, request.after_partition
    if request.only in (pb.LEADERLESS, pb.MOVING):
        known = state.derived.leaderless if request.only == pb.LEADERLESS else state.derived.moving
        named = [(state.topics[topic_of(key)].name, partition_of(key), key) for key in known]
        for name, number, key in sorted(each for each in named if not after[0] or each[:2] > after):
            if key in known and (not names or name in names):
                topic, partition = state.find(key)
                yield topic, number, partition
        return
    for name in sorted(name for name in (names or state.topic_ids) if name >= after[0]):
        if (named_so := state.topic(name)) is not None:
            first = after[1] + 1 if name == after[0] else 0
            for number, partition in islice(enumerate(named_so.partitions), first, None):
                yield named_so, number, partition


def _report(
    topic: TopicState, number: int, partition: PartitionState, found: list[pb.PartitionTrouble]
) -> pb.PartitionReport:
    holder = pb.ChangedPartitions()
    add_partition(holder, number, partition)
    return pb.PartitionReport(topic_id=topic.topic_id, partition=holder.partitions[0], troubles=found)


def _summary(topic: TopicState) -> pb.TopicSummary:
    return pb.TopicSummary(topic=topic_message(replace(topic, partitions=[])), min_insync=topic.min_insync)
