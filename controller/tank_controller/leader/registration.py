"""Whether the leader lets a broker's process register, before the log hears of it. Pure.

What the state alone can say is judged again when the entry is applied (`state.brokers`); what is here takes
knowing who is connected.
"""

from collections.abc import Mapping

from tank_controller.leader.streams import Stream
from tank_controller.leader.term import Liveness
from tank_controller.state import levels
from tank_controller.state.outcome import Rejected
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


def refusal(
    register: pb.BrokerRegister,
    cluster_id: str,
    state: ClusterState,
    streams: Mapping[int, Stream],
    sessions: Liveness,
    now_ms: int,
) -> Rejected | None:
    """Why it is not let in; None: it is."""
    wanted = register.broker
    if register.cluster_id not in ("", cluster_id):
        message = (
            f"broker {wanted.broker_id} belongs to cluster {register.cluster_id}, these controllers to "
            f"{cluster_id}: give it their addresses, or another data folder"
        )
        return Rejected(ErrorCode.INVALID_REQUEST, message)
    if why := levels.said(wanted).refusal(state.feature_level):
        return Rejected(ErrorCode.INVALID_REQUEST, why)
    if _another_lives(wanted, state, streams, sessions, now_ms):
        endpoints = state.brokers[wanted.broker_id].endpoints
        where = f" at {endpoints[0][1]}:{endpoints[0][2]}" if endpoints else ""
        message = (
            f"another process is broker {wanted.broker_id}{where}, and lives: stop one of the two, or give "
            "this one another --broker-id and data folder; it is taken when the other has ended"
        )
        return Rejected(ErrorCode.IN_USE, message)
    return None


def _another_lives(
    wanted: pb.RegisterBroker,
    state: ClusterState,
    streams: Mapping[int, Stream],
    sessions: Liveness,
    now_ms: int,
) -> bool:
    """A process that was killed has lost its connection, and one that is cut off is silent: neither holds up
    the next one for longer than the session."""
    broker, before = state.brokers.get(wanted.broker_id), streams.get(wanted.broker_id)
    if broker is None or before is None or not before.open or before.epoch != broker.epoch:
        return False
    is_other = before.incarnation != wanted.incarnation and not broker.shutting_down
    return is_other and sessions.lives(broker.broker_id, broker.epoch, now_ms)
