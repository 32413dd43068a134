"""The brokers that live, as the leading controller sees them. Pure: times come in, commands come out.

Sessions are not in the log: a new leader knows no broker's. Live brokers connect within a moment. A broker
that has not connected shortly after the others counts as gone, at the latest after a full timeout. `tick`
judges silence; call it after the sockets were read.
"""

from dataclasses import dataclass
from enum import Enum

from tank_controller import limits
from tank_controller.state.model import BrokerState
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb


class Loss(Enum):
    """Why a broker counts as gone."""

    SILENT = "silent"
    """The broker sent nothing for the session timeout, though its stream did not break: it is frozen, cut
    off, or starved of processor time.
    """
    STAYED_AWAY = "stayed_away"
    """The broker did not connect to a new leader shortly after the others, or within a session timeout."""
    STREAM_BROKE = "stream_broke"
    """The broker's stream broke, and it did not connect again within the grace: most likely its process has
    ended.
    """


@dataclass(slots=True)
class _Session:
    epoch: int
    """The epoch of the broker's process."""
    deadline_ms: int
    """The broker lives until then without another heartbeat."""
    seen_index: int = 0
    """The index of the broker's view."""
    broke: bool = False
    """Whether the broker's stream broke, and no heartbeat came since."""


class BrokerLiveness:
    """The brokers that live, as one leader judges in one term. Times in ms of a clock that never goes
    back.
    """

    def __init__(
        self,
        timeout_ms: int = limits.SESSION_TIMEOUT_MS,
        grace_ms: int = limits.BROKEN_STREAM_GRACE_MS,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._grace_ms = grace_ms
        self._sessions: dict[int, _Session] = {}
        self._all_until_ms = 0
        """The end of the full timeout after the leader began: the latest time for brokers to connect."""
        self._arrivals_end_ms = 0
        """When a broker that has not connected counts as gone, because the last of the other brokers
        connected long before. 0 before the first.
        """

    def lead(self, now_ms: int) -> None:
        """Gives each broker a full timeout, because this controller began to lead or was held up."""
        self._sessions.clear()
        self._all_until_ms = now_ms + self._timeout_ms
        self._arrivals_end_ms = 0

    def connected(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """Notes that the broker's process of this epoch has a stream."""
        self.heard(broker_id, epoch, 0, now_ms)

    def heard(self, broker_id: int, epoch: int, seen_index: int, now_ms: int) -> None:
        """Takes a heartbeat with the index of the broker's view."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch < epoch:
            if session is None:
                self._arrivals_end_ms = now_ms + self._timeout_ms // limits.ARRIVALS_IN_A_SESSION
            session = self._sessions[broker_id] = _Session(epoch, 0)
        elif session.epoch > epoch:
            return  # from an earlier process
        session.deadline_ms = now_ms + self._timeout_ms
        session.broke = False
        session.seen_index = max(session.seen_index, seen_index)

    def lives(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """Whether this process was heard within its timeout."""
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and now_ms < session.deadline_ms

    def broken(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """Notes that the stream of this process broke: unless it connects, it is gone after the grace."""
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch == epoch:
            session.deadline_ms = min(session.deadline_ms, now_ms + self._grace_ms)
            session.broke = True

    def loss(self, broker_id: int) -> Loss:
        """Why a broker that `tick` fences counts as gone."""
        session = self._sessions.get(broker_id)
        if session is None:
            return Loss.STAYED_AWAY
        return Loss.STREAM_BROKE if session.broke else Loss.SILENT

    def known(self) -> list[int]:
        """The brokers that have connected in this term."""
        return sorted(self._sessions)

    def tick(self, state: ClusterState, now_ms: int) -> list[pb.Command]:
        """The commands to fence and to unfence brokers; a bounded number, the rest at the next call."""
        for broker_id in [each for each in self._sessions if each not in state.brokers]:
            del self._sessions[broker_id]
        commands: list[pb.Command] = []
        for broker in state.brokers.values():
            command = self._judge(broker, now_ms)
            if command is not None:
                commands.append(command)
                if len(commands) == limits.MAX_FENCES_PER_TICK:
                    break
        return commands

    def _judge(self, broker: BrokerState, now_ms: int) -> pb.Command | None:
        session = self._sessions.get(broker.broker_id)
        until_ms = self._all_until_ms
        if session is None:
            until_ms = min(until_ms, self._arrivals_end_ms or until_ms)
        elif session.epoch == broker.epoch:
            until_ms = session.deadline_ms
        else:
            session = None
        silent = now_ms >= until_ms
        if not broker.fenced:
            if not silent:
                return None
            fence = pb.FenceBroker(broker_id=broker.broker_id, epoch=broker.epoch)
            return pb.Command(fence_broker=fence)
        if session is None or silent or broker.shutting_down or session.seen_index < broker.fenced_index:
            return None
        unfence = pb.UnfenceBroker(broker_id=broker.broker_id, epoch=broker.epoch)
        return pb.Command(unfence_broker=unfence)
