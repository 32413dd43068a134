"""The part of `InstantController` with the names of Iggy's clients, by the controllers' own commands."""

from collections.abc import Callable

from tank_controller.commands import commands
from tank_controller.state.model import PartitionState, TopicState
from tank_controller.state.state import ClusterState
from tank_node.cluster.iggy.requests import ControllerIggyRequests
from tank_node.cluster.pending import Proposed
from tank_node.cluster.view import ClusterView, TopicChange
from tank_protos.feature_levels import IGGY
from tank_protos.generated import control_pb2 as pb

BROKER_ID = 1


class InstantIggy(ControllerIggyRequests):
    """Implements IggyRequests; every change is in the view, and told, when the request returns."""

    def __init__(self, view: ClusterView, tell: Callable[[TopicChange], None]) -> None:
        super().__init__(view, self)  # type: ignore[arg-type]  # it has what is needed of PendingRequests
        self.now_ms = 1
        self.shown = view
        self._tell = tell
        self._state = ClusterState(feature_level=IGGY)
        endpoint = pb.Endpoint(name="tank", host="127.0.0.1", port=11011)
        register = pb.RegisterBroker(
            broker_id=BROKER_ID, incarnation=bytes(16), endpoints=[endpoint], min_level=1, max_level=IGGY
        )
        outcome = commands.apply(self._state, 1, pb.Command(register_broker=register))
        assert outcome.rejection is None, outcome.rejection

    def change(self, command: pb.Command, done: Proposed) -> None:
        """As PendingRequests."""
        command.now_ms = self.now_ms
        if command.HasField("expose_topic"):
            self._learn(command.expose_topic.topic_id)
        index = max(self._state.index, self.shown.index) + 1
        outcome = commands.apply(self._state, index, command)
        for change in self.shown.apply(outcome.delta):
            self._tell(change)
        done(outcome.as_message())

    def _learn(self, topic_id: int) -> None:
        """Takes over a topic that was created without a command."""
        topic = self.shown.topic_by_id(topic_id)
        if topic is None or topic_id in self._state.topics:
            return
        alone = (BROKER_ID,)
        placed = [PartitionState(alone, alone, BROKER_ID, 1, 1) for _ in topic.partitions]
        self._state.topics[topic_id] = TopicState(topic_id, topic.name, 1, topic.settings_text, placed)
        self._state.topic_ids[topic.name] = topic_id
