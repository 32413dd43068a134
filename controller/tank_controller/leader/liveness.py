"""Which brokers live, as the leading controller sees it. Pure: times come in, commands come out.

Sessions are not in the log: a new leader knows no broker. Those that live come to it within a moment; one
that has not come when the others have is gone, and at the latest after a full timeout. Silence is judged by
`tick`; call it after what waits in the sockets was read.
"""

from dataclasses import dataclass
from enum import Enum

from tank_controller import limits
from tank_controller.state.model import BrokerState
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb


class Loss(Enum):
    """Why a broker is taken for gone."""

    SILENT = "silent"
    """It said nothing for the session timeout, though no stream of it broke: frozen, cut off, or starved."""
    STAYED_AWAY = "stayed_away"
    """It did not come to a controller that leads anew, as the others did or within a session timeout."""
    STREAM_BROKE = "stream_broke"
    """Its stream broke, and it did not come back within the grace: most often its process has ended."""


@dataclass(slots=True)
class _Session:
    epoch: int
    """Of the broker's process."""
    deadline_ms: int
    """Until then it need not say anything."""
    seen_index: int = 0
    """How far its view has come."""
    broke: bool = False
    """Its stream broke, and nothing was heard of it since."""


class BrokerSessions:
    """One leader's, for one term. Times in ms of a clock that never goes back."""

    def __init__(
        self,
        timeout_ms: int = limits.SESSION_TIMEOUT_MS,
        grace_ms: int = limits.BROKEN_STREAM_GRACE_MS,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._grace_ms = grace_ms
        self._sessions: dict[int, _Session] = {}
        self._all_until_ms = 0
        """Until then a broker has time to come, however many others have come."""
        self._arrivals_end_ms = 0
        """A broker that was not heard of by then stays away: the last of the others came so long ago. 0: none
        has come."""

    def lead(self, now_ms: int) -> None:
        """This controller leads from now on, or was itself held up: every broker has to be heard anew."""
        self._sessions.clear()
        self._all_until_ms = now_ms + self._timeout_ms
        self._arrivals_end_ms = 0

    def connected(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """The broker's process of this epoch has a stream."""
        self.heard(broker_id, epoch, 0, now_ms)

    def heard(self, broker_id: int, epoch: int, seen_index: int, now_ms: int) -> None:
        """A heartbeat; its view has come so far."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch < epoch:
            if session is None:
                self._arrivals_end_ms = now_ms + self._timeout_ms // limits.ARRIVALS_IN_A_SESSION
            session = self._sessions[broker_id] = _Session(epoch, 0)
        elif session.epoch > epoch:
            return  # of a process before
        session.deadline_ms = now_ms + self._timeout_ms
        session.broke = False
        session.seen_index = max(session.seen_index, seen_index)

    def lives(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """Whether this process was heard within its timeout."""
        session = self._sessions.get(broker_id)
        return session is not None and session.epoch == epoch and now_ms < session.deadline_ms

    def broken(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """The stream of this process broke: most often it has ended, else it connects again at once."""
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch == epoch:
            session.deadline_ms = min(session.deadline_ms, now_ms + self._grace_ms)
            session.broke = True

    def loss(self, broker_id: int) -> Loss:
        """Why a broker that `tick` fences is taken for gone."""
        session = self._sessions.get(broker_id)
        if session is None:
            return Loss.STAYED_AWAY
        return Loss.STREAM_BROKE if session.broke else Loss.SILENT

    def known(self) -> list[int]:
        """The brokers that were heard of."""
        return sorted(self._sessions)

    def tick(self, state: ClusterState, now_ms: int) -> list[pb.Command]:
        """Brokers to fence, and to unfence; a bounded number, the rest the next time."""
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
