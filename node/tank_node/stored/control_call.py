"""A flush or a deletion of segments for a session, at the partition's leader wherever that is."""

from collections.abc import Callable

from tank_node.broker.broker import Broker
from tank_node.session import Session
from tank_node.stored.answers import read_controlled
from tank_node.stored.forwarded import ForwardedStored
from tank_node.stored.leader.control import PartitionControl, control_here
from tank_node.stored.leader_attempts import LeaderAttempts
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Place
from tank_node.stored.telling import tell
from tank_protos.generated.tank import PartitionControlRequest


class ControlCall:
    """One such request. It is sent once at most."""

    __slots__ = ("_broker", "_control", "_done", "_place", "_search", "_sender")

    def __init__(
        self,
        broker: Broker,
        place: Place,
        control: PartitionControl,
        sender: Session,
        done: Callable[[StoredOutcome], None],
    ) -> None:
        self._broker = broker
        self._place = place
        self._control = control
        self._sender = sender
        self._done = done
        self._search = LeaderAttempts(broker, place, sender, self._do_here, self._send, self._end)

    def begin(self) -> None:
        """Brings the request to the leader."""
        self._search.attempt()

    def _do_here(self) -> None:
        control_here(self._broker, self._place, self._control, self._sender, self._told)

    def _send(self, leader: int) -> bool:
        broker, search = self._broker, self._search
        topic_id, number = self._place
        request = PartitionControlRequest(
            topic_id=topic_id,
            partition=number,
            action=self._control.action,
            segments=self._control.segments,
        )
        tried = search.leadership()
        forwarded = ForwardedStored(
            request,
            broker.tick.monotonic_ms + broker.limits.ack_timeout_ms + broker.limits.forwarded_answer_ms,
            read_controlled,
            self._told,
            self._not_answered,
            lambda: search.leadership() == tried,
        )
        return broker.forwarding.send(leader, forwarded, self._sender)

    def _not_answered(self, sent: bool) -> None:
        if sent:
            self._end(StoredOutcome.MAYBE_STORED)
        else:
            self._search.again()

    def _told(self, outcome: StoredOutcome) -> None:
        if self._search.is_passing(outcome):
            self._search.again()
        else:
            self._end(outcome)

    def _end(self, outcome: StoredOutcome) -> None:
        tell(self._broker, self._sender, self._done, outcome)
