"""Registration of brokers' processes at the leading controller. No I/O.

`refusal` checks what needs the connected streams; what depends on the state alone is checked again when the
entry is applied (`commands.brokers`). A registration counts when its entry is committed.
"""

from collections.abc import Callable, Mapping

from tank_controller.commands import levels
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.leader.brokers.deltas import BrokerViews
from tank_controller.leader.brokers.liveness import BrokerLiveness
from tank_controller.leader.brokers.streams import Stream
from tank_controller.leader.leadership import ControllerLeadership, LeaderTerm
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

_PASSING = (ErrorCode.OVERLOADED, ErrorCode.STORAGE, ErrorCode.IN_USE)
"""Errors after which the broker tries again; all others are final. IN_USE is temporary when the process that
had the broker's address has ended, because it is fenced soon.
"""


class BrokerRegistration:
    """Registers the brokers of one controller's streams. All calls on the driver's thread."""

    def __init__(
        self,
        cluster_id: str,
        leadership: ControllerLeadership,
        streams: dict[int, Stream],
        views: BrokerViews,
        send_away: Callable[[Stream], None],
    ) -> None:
        """`streams`, by broker id, is changed here; `send_away` ends a stream and names the leader to the
        broker.
        """
        self._cluster_id = cluster_id
        self._leadership = leadership
        self._streams = streams
        self._views = views
        self._send_away = send_away
        self._clock = leadership.clock
        self._proposals = leadership.proposals
        self._metadata = leadership.proposals.metadata

    def register(self, term: LeaderTerm, stream: Stream, register: pb.BrokerRegister) -> None:
        """A broker's first message: proposes its registration, or refuses it."""
        wanted = register.broker
        why = refusal(
            register, self._cluster_id, self._metadata.state, self._streams, term.liveness,
            self._clock.monotonic_ms(),
        )  # fmt: skip
        if why is not None:
            self._refuse(stream, why)
            return
        if stream.broker_id:
            return  # the registration has been proposed already
        before = self._streams.get(wanted.broker_id)
        if before is not None:
            before.end()  # messages unread in the old stream are dropped: the broker sends them again
        stream.broker_id, stream.incarnation = wanted.broker_id, wanted.incarnation
        stream.max_level = levels.said(wanted).highest
        self._streams[wanted.broker_id] = stream
        if epoch := self._epoch_of(stream):  # the process lives, though its entry is not committed yet
            term.liveness.connected(stream.broker_id, epoch, self._clock.monotonic_ms())
        command = pb.Command(now_ms=self._clock.now_ms(), register_broker=wanted)
        self._proposals.propose(
            command, lambda outcome: self._registered(stream, register.view_index, outcome)
        )

    def broken(self, stream: Stream) -> None:
        """The stream of a broker has ended: its process may connect again within a short grace."""
        term = self._leadership.term
        if term is not None and (epoch := self._epoch_of(stream)):
            term.liveness.broken(stream.broker_id, epoch, self._clock.monotonic_ms())

    def _epoch_of(self, stream: Stream) -> int:
        """The broker epoch of the process at the other end; 0 where the state doesn't know the process."""
        broker = self._metadata.state.brokers.get(stream.broker_id)
        return broker.epoch if broker is not None and broker.incarnation == stream.incarnation else 0

    def _registered(self, stream: Stream, view_index: int, outcome: CommandOutcome) -> None:
        if not stream.open:
            return
        term = self._leadership.term
        if term is None or (outcome.rejection is not None and outcome.rejection.is_unsure):
            self._send_away(stream)
            return
        if outcome.rejection is not None:
            self._refuse(stream, outcome.rejection)
            return
        state = self._metadata.state
        broker = state.brokers[stream.broker_id]
        if broker.incarnation != stream.incarnation:
            stream.end()  # a later process of this broker has registered meanwhile
            return
        stream.epoch = broker.epoch
        registered = pb.Registered(
            broker_epoch=broker.epoch,
            index=broker.epoch,
            cluster_id=self._cluster_id,
            session_timeout_ms=self._leadership.session_timeout_ms,
            peer_key=state.peer_key,
            demands_secret=state.demands_secret,
        )
        stream.send(pb.BrokerDown(registered=registered))
        term.liveness.connected(stream.broker_id, stream.epoch, self._clock.monotonic_ms())
        self._views.begin(stream, view_index)

    def _refuse(self, stream: Stream, why: Rejected) -> None:
        refused = pb.RegisterRefused(error=why.error, message=why.message, passing=why.error in _PASSING)
        if self._streams.get(stream.broker_id) is stream:
            del self._streams[stream.broker_id]
            self.broken(stream)
        stream.end(pb.BrokerDown(refused=refused))


def refusal(
    register: pb.BrokerRegister,
    cluster_id: str,
    state: ClusterState,
    streams: Mapping[int, Stream],
    liveness: BrokerLiveness,
    now_ms: int,
) -> Rejected | None:
    """Why the leader refuses this registration; None when it accepts it."""
    wanted = register.broker
    if register.cluster_id not in ("", cluster_id):
        message = (
            f"broker {wanted.broker_id} belongs to cluster {register.cluster_id}, these controllers to "
            f"{cluster_id}: give it their addresses, or another data folder"
        )
        return Rejected(ErrorCode.INVALID_REQUEST, message)
    if why := levels.said(wanted).refusal(state.feature_level):
        return Rejected(ErrorCode.INVALID_REQUEST, why)
    if _another_lives(wanted, state, streams, liveness, now_ms):
        endpoints = state.brokers[wanted.broker_id].endpoints
        where = f" at {endpoints[0][1]}:{endpoints[0][2]}" if endpoints else ""
        message = (
            f"another process is broker {wanted.broker_id}{where}, and lives: stop one of the two, or give "
            "this one another --broker-id and data folder; this one registers when the other has ended"
        )
        return Rejected(ErrorCode.IN_USE, message)
    return None


def _another_lives(
    wanted: pb.RegisterBroker,
    state: ClusterState,
    streams: Mapping[int, Stream],
    liveness: BrokerLiveness,
    now_ms: int,
) -> bool:
    """Whether another process of this broker is connected and heard. A killed process has lost its
    connection, and a process that is cut off is silent, so neither delays the next process for longer than
    the session timeout.
    """
    broker, before = state.brokers.get(wanted.broker_id), streams.get(wanted.broker_id)
    if broker is None or before is None or not before.open or before.epoch != broker.epoch:
        return False
    is_other = before.incarnation != wanted.incarnation and not broker.shutting_down
    return is_other and liveness.lives(broker.broker_id, broker.epoch, now_ms)
