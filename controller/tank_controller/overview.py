"""What an operator is shown of the state: brokers and their loads, partitions and their troubles. Pure.

It looks at every partition; whoever asks on an event loop does so a portion at a time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tank_controller.cluster_state import ClusterState
from tank_controller.state_messages import add_partition, broker_message, topic_message
from tank_controller.state_parts import NOBODY, PartitionState, TopicState
from tank_protos.generated import control_pb2 as pb

PORTION = 2_000
"""Partitions that are looked at in one go: a few milliseconds' work."""


_UNWELL = frozenset({pb.UNDER_REPLICATED, pb.BELOW_MIN_INSYNC, pb.LEADERLESS})


def troubles(topic: TopicState, partition: PartitionState) -> list[pb.PartitionTrouble]:
    """What an operator may have to look at; empty when all is well."""
    found = []
    if partition.under_replicated:
        found.append(pb.UNDER_REPLICATED)
    if len(partition.in_sync) < topic.min_insync:
        found.append(pb.BELOW_MIN_INSYNC)
    if partition.leader == NOBODY:
        found.append(pb.LEADERLESS)
    elif partition.leader != partition.replicas[0] and partition.replicas[0] in partition.in_sync:
        found.append(pb.DISPLACED)
    if partition.moves:
        found.append(pb.MOVING)
    if partition.lossy_elections:
        found.append(pb.LOSSY)
    return found


@dataclass(slots=True)
class Tally:
    """Counts over all partitions."""

    troubles: Counter[pb.PartitionTrouble] = field(default_factory=Counter)
    lossy_elections: int = 0
    arriving: Counter[int] = field(default_factory=Counter)
    """By broker."""
    widest: dict[int, int] = field(default_factory=dict)
    """By broker: the greatest replication factor of what it holds."""

    def count(self, state: ClusterState) -> Iterator[None]:
        """Counts; a step after each portion, between which the state may change."""
        left = PORTION
        for topic in list(state.topics.values()):
            for partition in topic.partitions:
                self._add(topic, partition)
                left -= 1
                if not left:
                    left = PORTION
                    yield

    def _add(self, topic: TopicState, partition: PartitionState) -> None:
        found = troubles(topic, partition)
        self.troubles.update(found)
        if not _UNWELL.intersection(found):
            self.troubles[pb.NO_TROUBLE] += 1
        self.lossy_elections += partition.lossy_elections
        self.arriving.update(partition.adding)
        for broker_id in partition.replicas:
            self.widest[broker_id] = max(self.widest.get(broker_id, 0), topic.replication_factor)


def overview(
    state: ClusterState, tally: Tally, connected: Iterable[int], *, balanced: bool
) -> pb.OverviewAnswer:
    """The answer, when all was counted. `connected`: the brokers whose streams are open."""
    streams = set(connected)
    return pb.OverviewAnswer(
        index=state.index,
        topics=len(state.topics),
        partitions=state.partition_count,
        troubles=[
            pb.TroubleCount(trouble=trouble, partitions=count)
            for trouble, count in sorted(tally.troubles.items())
        ],
        lossy_elections=tally.lossy_elections,
        brokers=[
            pb.BrokerLoad(
                broker=broker_message(broker),
                connected=broker_id in streams,
                replicas=len(state.held_by(broker_id)),
                leads=state.derived.led[broker_id],
                arriving=tally.arriving[broker_id],
                widest=tally.widest.get(broker_id, 0),
            )
            for broker_id, broker in sorted(state.brokers.items())
        ],
        balanced=balanced,
    )


def partition_parts(
    state: ClusterState, names: Sequence[str], only: pb.PartitionTrouble, limit: int
) -> Iterator[pb.PartitionsAnswer]:
    """Topics by name, with their partitions: a part after each portion looked at, which may be empty."""
    wanted = sorted(set(names)) if names else sorted(state.topic_ids)
    part = pb.PartitionsAnswer(unknown_topics=[name for name in wanted if name not in state.topic_ids])
    room = limit or state.partition_count + 1
    left = PORTION
    for name in wanted:
        topic = state.topic(name)
        if topic is None:
            continue
        told = False
        for number, partition in enumerate(topic.partitions):
            if not left:
                yield part
                part, left = pb.PartitionsAnswer(), PORTION
            left -= 1
            found = troubles(topic, partition)
            if only not in (pb.NO_TROUBLE, *found):
                continue
            if not told:
                told = True
                part.topics.append(_summary(topic))
            part.partitions.append(_report(topic, number, partition, found))
            room -= 1
            if not room:
                yield part
                return
    yield part


def _report(
    topic: TopicState, number: int, partition: PartitionState, found: list[pb.PartitionTrouble]
) -> pb.PartitionReport:
    holder = pb.ChangedPartitions()
    add_partition(holder, number, partition)
    return pb.PartitionReport(topic_id=topic.topic_id, partition=holder.partitions[0], troubles=found)


def _summary(topic: TopicState) -> pb.TopicSummary:
    return pb.TopicSummary(topic=topic_message(replace(topic, partitions=[])), min_insync=topic.min_insync)
