"""New partitions whose replicas go to brokers that a client chose. Pure.

Older controllers ignore what clients chose, so below feature level `feature_levels.KAFKA` these do, too.
"""

from collections import Counter
from collections.abc import Sequence

from tank_controller import limits
from tank_controller.commands.outcome import Rejected
from tank_controller.state.state import ClusterState
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


def assigned(state: ClusterState, assignments: Sequence[pb.Assignment]) -> list[tuple[int, ...]]:
    """The replicas of each new partition; empty: the controllers choose them."""
    if state.feature_level < feature_levels.KAFKA:
        return []
    return [tuple(each.replicas) for each in assignments]


def check_assigned(
    state: ClusterState, assignments: Sequence[pb.Assignment], count: int, replication_factor: int
) -> None:
    """Raises Rejected unless nothing was chosen, or the replicas of `count` partitions were."""
    placed = assigned(state, assignments)
    if not placed:
        return
    if len(placed) != count:
        message = f"{count} partitions are new, and {len(placed)} are assigned"
        raise Rejected(ErrorCode.INELIGIBLE_REPLICA, message)
    for replicas in placed:
        if len(replicas) != replication_factor or len(set(replicas)) != len(replicas):
            message = f"each partition needs {replication_factor} brokers, none of them twice"
            raise Rejected(ErrorCode.INELIGIBLE_REPLICA, message)
    for broker_id, added in sorted(Counter(each for replicas in placed for each in replicas).items()):
        broker = state.brokers.get(broker_id)
        if broker is None:
            raise Rejected(ErrorCode.UNKNOWN_BROKER, f"there is no broker {broker_id}")
        if broker.draining or broker.no_room:
            message = f"broker {broker_id} is being drained, or has no room"
            raise Rejected(ErrorCode.INELIGIBLE_REPLICA, message)
        if len(state.held_by(broker_id)) + added > limits.MAX_REPLICAS_PER_BROKER:
            message = f"broker {broker_id} holds at most {limits.MAX_REPLICAS_PER_BROKER} replicas"
            raise Rejected(ErrorCode.LIMIT_REACHED, message)
