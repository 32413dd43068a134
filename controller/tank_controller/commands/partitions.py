"""In-sync sets, failed replicas and elections of single partitions. Pure.

A command that names many partitions is judged partition by partition: `CommandOutcome.results` has an error
for each, and a refused partition does not change.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tank_controller import limits
from tank_controller.commands.brokers import process
from tank_controller.commands.elections import Elections
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.keys import key_of
from tank_controller.state.model import NO_BROKER, PartitionState, TopicState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

Named = TypeVar("Named", pb.PartitionRef, pb.InSyncSet, pb.Placed)
"""The part of a command that is about one partition."""

Judge = Callable[[Elections, int, TopicState, PartitionState, Named], ErrorCode]
"""Changes one partition, or returns the error code."""


def check_count(count: int) -> None:
    """Raises Rejected for a command about too many partitions at once."""
    if count > limits.MAX_PARTITIONS_PER_COMMAND:
        message = f"at most {limits.MAX_PARTITIONS_PER_COMMAND} partitions at once: send them in parts"
        raise Rejected(ErrorCode.TOO_LARGE, message)


def each(state: ClusterState, named: Sequence[Named], judge: "Judge[Named]", outcome: CommandOutcome) -> None:
    """Judges partitions one by one."""
    elections = Elections(state)
    for one in named:
        topic = state.topics.get(one.topic_id)
        if topic is None:
            outcome.results.append(ErrorCode.UNKNOWN_TOPIC)
        elif one.partition >= len(topic.partitions):
            outcome.results.append(ErrorCode.UNKNOWN_PARTITION)
        else:
            key = key_of(one.topic_id, one.partition)
            outcome.results.append(judge(elections, key, topic, topic.partitions[one.partition], one))
    elections.changes.finish(outcome.delta)


# --- in-sync sets ---


def check_change_in_sync(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected when the broker that asks may not lead any partition."""
    change = command.change_in_sync
    check_count(len(change.sets))
    if process(state, change.broker_id, change.broker_epoch).fenced:
        message = (
            f"broker {change.broker_id} is fenced: it may lead again when its view has the entry of "
            f"its registration"
        )
        raise Rejected(ErrorCode.FENCED, message)


def change_in_sync(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Sets in-sync sets as their leaders propose them, unless the partition has changed since the leader
    looked.
    """
    leader = command.change_in_sync.broker_id

    def judge(
        elections: Elections, key: int, topic: TopicState, partition: PartitionState, wanted: pb.InSyncSet
    ) -> ErrorCode:
        error = _in_sync_error(state, leader, partition, wanted)
        if error is ErrorCode.NONE:
            members = {member.broker_id for member in wanted.in_sync}
            elections.set_in_sync(key, topic, partition, members)
        return error

    each(state, command.change_in_sync.sets, judge, outcome)


def _in_sync_error(
    state: ClusterState, leader: int, partition: PartitionState, wanted: pb.InSyncSet
) -> ErrorCode:
    if partition.leader != leader:
        return ErrorCode.OTHER_LEADER
    if (partition.leader_epoch, partition.partition_epoch) != (wanted.leader_epoch, wanted.partition_epoch):
        return ErrorCode.STALE_EPOCH
    members = {member.broker_id for member in wanted.in_sync}
    if leader not in members or len(members) != len(wanted.in_sync) or not members <= set(partition.replicas):
        return ErrorCode.INVALID_REQUEST
    for member in wanted.in_sync:
        broker = state.brokers[member.broker_id]
        joins = member.broker_id not in partition.in_sync
        if broker.fenced or broker.epoch != member.broker_epoch or (joins and broker.leaves):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def check_report_failed(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected when the report is not of the broker's present process."""
    report = command.report_failed
    check_count(len(report.partitions))
    process(state, report.broker_id, report.broker_epoch)


def report_failed(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Takes replicas that can't go on out of the in-sync sets, and elects other leaders where they led."""
    failed = command.report_failed.broker_id

    def judge(
        elections: Elections, key: int, topic: TopicState, partition: PartitionState, _: pb.PartitionRef
    ) -> ErrorCode:
        if failed not in partition.replicas:
            return ErrorCode.INVALID_REQUEST
        elections.leave(key, topic, partition, failed, impaired=True)
        elections.settle(key, topic, partition, failed=failed)
        return ErrorCode.NONE

    each(state, command.report_failed.partitions, judge, outcome)


# --- elections ---


def check_elect_leader(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    check_count(len(command.elect_leader.partitions))
    if command.elect_leader.kind not in pb.ElectLeader.Kind.values():
        raise Rejected(ErrorCode.INVALID_REQUEST, "this version doesn't know this kind of election")


def elect_leader(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Elects preferred leaders, or, where a partition has no leader, an unclean leader that may lack
    messages.
    """
    unclean = command.elect_leader.kind == pb.ElectLeader.UNCLEAN
    each(state, command.elect_leader.partitions, _elect_unclean if unclean else _elect_preferred, outcome)


def _elect_preferred(
    elections: Elections, key: int, topic: TopicState, partition: PartitionState, _: pb.PartitionRef
) -> ErrorCode:
    if partition.leader == NO_BROKER:
        return ErrorCode.NOT_ELECTABLE
    elections.lead(key, partition, elections.best(partition.in_sync))
    return ErrorCode.NONE


def _elect_unclean(
    elections: Elections, key: int, topic: TopicState, partition: PartitionState, _: pb.PartitionRef
) -> ErrorCode:
    if partition.leader != NO_BROKER:
        return ErrorCode.NONE
    best = elections.any_alive(partition)
    if best == NO_BROKER:
        return ErrorCode.NOT_ELECTABLE
    elections.lead_lossy(key, partition, best)
    return ErrorCode.NONE


def check_elect_lossy(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected while an unimpaired replica may yet come back, or a replica has not answered where its
    log ends.
    """
    lossy = command.elect_lossy
    partition = state.partition(lossy.topic_id, lossy.partition)
    if partition is None:
        raise Rejected(ErrorCode.UNKNOWN_PARTITION, "there is no such partition")
    if not waits_for_ends(state, partition):
        raise Rejected(
            ErrorCode.NOT_ELECTABLE,
            "the partition has a leader, or a replica that lost nothing may yet come back",
        )
    ends = _valid_ends(state, partition, lossy)
    silent = set(partition.eligible) - {end.broker_id for end in ends}
    if silent:
        message = f"ask broker {min(silent)}, too, where its log ends: it may have more messages"
        raise Rejected(ErrorCode.INELIGIBLE_REPLICA, message)
    if all(end.unusable for end in ends):
        raise Rejected(
            ErrorCode.NOT_ELECTABLE,
            "no replica has a log that can be read: restart the brokers of the partition's replicas, and "
            "start those that are down; if their disks are gone, put back a data folder of one of them",
        )


def elect_lossy(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Makes the replica with the greatest end the leader."""
    lossy = command.elect_lossy
    key = key_of(lossy.topic_id, lossy.partition)
    _, partition = state.find(key)

    def rank(end: pb.ReplicaEnd) -> tuple[int, int, bool, bool, int]:
        preference = -partition.replicas.index(end.broker_id)
        return (
            end.epoch_at_end,
            end.end,
            not end.damaged,
            end.broker_id in partition.eligible,
            preference,
        )

    best = max((end for end in _valid_ends(state, partition, lossy) if not end.unusable), key=rank)
    elections = Elections(state)
    elections.lead_lossy(key, partition, best.broker_id)
    elections.changes.finish(outcome.delta)


def waits_for_ends(state: ClusterState, partition: PartitionState) -> bool:
    """Whether a lossy election is due: no leader, all eligible replicas back, and each impaired."""
    return (
        partition.leader == NO_BROKER
        and bool(partition.eligible)
        and partition.impaired == partition.eligible
        and not any(state.brokers[broker_id].fenced for broker_id in partition.eligible)
    )


def _valid_ends(state: ClusterState, partition: PartitionState, lossy: pb.ElectLossy) -> list[pb.ReplicaEnd]:
    """The answers that come from the present processes of this partition's replicas."""
    valid = []
    for end in lossy.ends:
        broker = state.brokers.get(end.broker_id)
        if broker is None or end.broker_id not in partition.replicas:
            continue
        if not broker.fenced and broker.epoch == end.broker_epoch:
            valid.append(end)
    return valid
