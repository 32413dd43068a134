"""Moving a partition's replicas: adding new ones, waiting until they are in sync, removing the old ones.
Pure.
"""

from collections.abc import Callable, Sequence

from tank_controller import limits
from tank_controller.commands.elections import Elections
from tank_controller.commands.levels import is_internal
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.commands.partitions import check_count, each
from tank_controller.state.model import PartitionState, TopicState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


def check_reassign(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    check_count(len(command.reassign.partitions))


def reassign(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Begins moves. A new order of the same replicas takes effect at once."""

    def judge(
        elections: Elections, key: int, topic: TopicState, partition: PartitionState, placed: pb.Placed
    ) -> ErrorCode:
        wanted = tuple(placed.replicas)
        if partition.moves:
            return ErrorCode.NONE if wanted == partition.target else ErrorCode.IN_USE
        error = _placement_error(state, topic, partition, wanted)
        if error is ErrorCode.NONE and wanted != partition.replicas:
            _begin(elections, key, partition, wanted)
        return error

    each(state, command.reassign.partitions, judge, outcome)


def _placement_error(
    state: ClusterState, topic: TopicState, partition: PartitionState, wanted: tuple[int, ...]
) -> ErrorCode:
    if len(set(wanted)) != len(wanted) or len(wanted) not in _counts(state, topic, partition):
        return ErrorCode.INVALID_REPLICATION_FACTOR
    for broker_id in wanted:
        broker = state.brokers.get(broker_id)
        if broker is None:
            return ErrorCode.UNKNOWN_BROKER
        if broker_id in partition.replicas:
            continue
        if broker.draining or broker.no_room:
            return ErrorCode.INELIGIBLE_REPLICA
        if len(state.held_by(broker_id)) >= limits.MAX_REPLICAS_PER_BROKER:
            return ErrorCode.OVERLOADED
    return ErrorCode.NONE


def _counts(state: ClusterState, topic: TopicState, partition: PartitionState) -> range:
    """How many replicas a partition may get. Those of internal topics may get more, one partition after
    another, before the topic's replication factor rises.
    """
    if not is_internal(state, topic):
        return range(topic.replication_factor, topic.replication_factor + 1)
    present = len(partition.replicas)
    return range(present, max(present, limits.DEFAULT_REPLICATION_FACTOR) + 1)


def _begin(elections: Elections, key: int, partition: PartitionState, wanted: tuple[int, ...]) -> None:
    elections.changes.touch(key, partition)
    before = partition.replicas
    partition.adding = tuple(broker_id for broker_id in wanted if broker_id not in before)
    partition.removing = tuple(broker_id for broker_id in before if broker_id not in wanted)
    partition.replicas = wanted + partition.removing
    _put_in_order(partition)


def check_finish_reassign(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    check_count(len(command.finish_reassign.partitions))


def finish_reassign(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Removes the replicas that are to go, where the added ones are in sync."""
    _end_moves(
        state, command.finish_reassign.partitions, may_finish, lambda partition: partition.target, outcome
    )


def may_finish(topic: TopicState, partition: PartitionState) -> bool:
    """Whether the added replicas are in sync, and enough are in sync without the ones to be removed."""
    left = set(partition.in_sync) - set(partition.removing)
    return set(partition.adding) <= left and len(left) >= topic.min_insync


def check_cancel_reassign(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    check_count(len(command.cancel_reassign.partitions))


def cancel_reassign(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Removes the added replicas again, unless messages would be in too few replicas then."""

    def before(partition: PartitionState) -> tuple[int, ...]:
        return tuple(each for each in partition.replicas if each not in partition.adding)

    _end_moves(state, command.cancel_reassign.partitions, may_cancel, before, outcome)


def may_cancel(topic: TopicState, partition: PartitionState) -> bool:
    """Whether the move can be cancelled: the added replicas hold no message that too few others have."""
    adding = set(partition.adding)
    left = set(partition.in_sync) - adding
    return not adding & {*partition.in_sync, *partition.eligible} or len(left) >= topic.min_insync


def _end_moves(
    state: ClusterState,
    named: Sequence[pb.PartitionRef],
    may_end: Callable[[TopicState, PartitionState], bool],
    kept: Callable[[PartitionState], tuple[int, ...]],
    outcome: CommandOutcome,
) -> None:
    def judge(
        elections: Elections, key: int, topic: TopicState, partition: PartitionState, _: pb.PartitionRef
    ) -> ErrorCode:
        if not partition.moves:
            return ErrorCode.NONE
        if not may_end(topic, partition):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        elections.changes.touch(key, partition)
        partition.replicas = kept(partition)
        partition.adding = partition.removing = ()
        _put_in_order(partition)
        elections.settle(key, topic, partition)
        return ErrorCode.NONE

    each(state, named, judge, outcome)


def _put_in_order(partition: PartitionState) -> None:
    """Sorts the sets of replicas in the order of the new replicas."""
    partition.in_sync = partition.in_order(set(partition.in_sync) & set(partition.replicas))
    partition.eligible = partition.in_order(set(partition.eligible) & set(partition.replicas))
    partition.impaired = partition.in_order(set(partition.impaired) & set(partition.replicas))
