"""The controllers' own commands and state behind a broker's own requests, in memory, without Raft: what is
asked for is committed at once, and in the view."""

from collections.abc import Callable, Sequence

from tank_controller.commands.machine import Metadata
from tank_controller.leader.brokers.requests import query_answers
from tank_node.clock import Clock
from tank_node.cluster.link import ReplicaEnd
from tank_node.cluster.pending import PendingRequests
from tank_node.cluster.requests import ControllerRequests
from tank_node.cluster.view import ClusterView, TopicChange
from tank_node.volume import Room
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

BROKER_ID = 1


class StateController:
    """Implements ControllerLink for one broker, at Iggy's feature level."""

    def __init__(self, clock: Clock, level: int = feature_levels.IGGY) -> None:
        self.metadata = Metadata(level)
        self.view = ClusterView("test-cluster", BROKER_ID)
        self.broker_epoch = 0
        self.peer_key = bytes(16)
        self.connected = True
        self.silence_ms = 0
        self.room = Room.UNSAID
        self.names_held: Callable[[], Sequence[str] | None] = lambda: None
        self.refusal: ErrorCode | None = None
        """The error of every change by clients."""
        self._listeners: list[Callable[[TopicChange], None]] = []
        self._pending = PendingRequests(self.view, clock, lambda: 0)
        self._pending.line_taken(self._take)
        self.requests = ControllerRequests(self.view, self._pending)
        self.metadata.on_delta = self._show
        self._index = 0
        register = pb.RegisterBroker(
            broker_id=BROKER_ID,
            incarnation=bytes(16),
            disk_uuid=bytes(16),
            endpoints=[pb.Endpoint(name="tank", host="127.0.0.1", port=11011)],
            flush_replicated=True,
            min_level=feature_levels.FIRST,
            max_level=level,
        )
        self.apply(pb.Command(register_broker=register))
        self.broker_epoch = self.requests.broker_epoch = self._index
        for each in range(feature_levels.FIRST + 1, level + 1):
            self.apply(pb.Command(raise_level=pb.RaiseLevel(level=each, seen_index=self._index)))
        assert self.view.feature_level == level

    def apply(self, command: pb.Command) -> pb.ProposalOutcome:
        """Commits a command."""
        self._index += 1
        outcome = self.metadata.apply(self._index, command.SerializeToString())
        self.view.index = max(self.view.index, self._index)
        return outcome.as_message(0)

    def _show(self, delta: pb.Delta) -> None:
        for change in self.view.apply(delta):
            for listener in self._listeners:
                listener(change)

    def _take(self, message: pb.BrokerUp) -> None:
        if message.WhichOneof("message") == "query":
            for part in query_answers(self.metadata.state, message.query):
                self._pending.on_answer(part)
            return
        proposal = message.proposal
        if self.refusal is not None:
            outcome = pb.ProposalOutcome(error=self.refusal, message="the test says so")
        else:
            outcome = self.apply(proposal.command)
        outcome.request_id = proposal.request_id
        self._pending.on_outcome(outcome)

    # --- ControllerLink ---

    def on_change(self, listener: Callable[[TopicChange], None]) -> None:
        self._listeners.append(listener)

    def on_brokers(self, listener: Callable[[], None]) -> None:
        """Brokers do not change."""

    def on_registered(self, listener: Callable[[], None]) -> None:
        listener()

    def on_ends_asked(self, answer: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]]) -> None:
        """Nobody asks."""

    def on_names_asked(self, answer: Callable[[], Sequence[str] | None]) -> None:
        self.names_held = answer

    def say_room(self, room: Room) -> None:
        self.room = room

    def hold_back(self, *, on: bool) -> None:
        """As ControllerLink."""
