"""A controller in memory that answers at once: for tests of the node alone."""

from collections.abc import Callable, Sequence

from tank_node.cluster.link import (
    ChangeOutcome,
    CommitOutcome,
    GroupsOutcome,
    InSyncChange,
    NewTopic,
    Placement,
    Position,
    PositionsOutcome,
    ProducerOutcome,
    ReplicaEnd,
    TopicAlteration,
    TopicOutcome,
)
from tank_node.cluster.users.requests import ControllerUserRequests
from tank_node.cluster.view import BrokerView, ChangeKind, ClusterView, PartitionView, TopicChange, TopicView
from tank_node.volume import Room
from tank_protos import topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import OWN
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import SettingError
from tank_protos.wire.names import INTERNAL_TOPICS, topic_name_problem
from tests.support.controllers.instant_iggy import InstantIggy
from tests.support.controllers.shown_topics import show

BROKER_ID = 1


class InstantController:
    """Implements ControllerLink and its MetadataRequests. Nothing is kept when it goes."""

    def __init__(self) -> None:
        self.view = ClusterView("test-cluster", BROKER_ID, feature_level=OWN.highest)
        self.view.brokers[BROKER_ID] = BrokerView(
            BROKER_ID, 1, "127.0.0.1", 11011, "", kafka_host="127.0.0.1", kafka_port=9092
        )
        self.broker_epoch = 1
        self.peer_key = bytes(16)
        self.positions: dict[str, dict[tuple[str, int], Position]] = {}
        self.proposed: list[tuple[InSyncChange, Callable[[ChangeOutcome], None]]] = []
        """In-sync changes, for the test to answer."""
        self.elections: list[tuple[tuple[int, int], bool]] = []
        """(partition, whether unclean) of the elections that were asked for."""
        self.placements: list[Placement] = []
        self.stopped_moves: list[tuple[int, int]] = []
        self.verdicts: list[ErrorCode] = []
        """The codes of the next changes by administrators; NONE for those beyond."""
        self.refusal = ErrorCode.NONE
        """The error of every proposal of such changes."""
        self.refuses_topics = False
        """Whether no topic is created."""
        self.failed: list[tuple[int, int]] = []
        """Replicas that were reported."""
        self.ends: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]] | None = None
        """What to ask for the ends of replicas."""
        self.tell_brokers: list[Callable[[], None]] = []
        self.tell_registered: list[Callable[[], None]] = []
        self._listeners: list[Callable[[TopicChange], None]] = []
        self.connected = True
        self.silence_ms = 0
        self.producer_ids_left = 0
        self.room = Room.UNSAID
        self.names_held: Callable[[], Sequence[str] | None] = lambda: None
        self.held_back = False
        self._ids = 0
        self._producers: dict[str, tuple[int, int]] = {}
        self.iggy = InstantIggy(self.view, self._heard)
        """Requests of Iggy's names, for tests that raise the view's feature level."""
        self.users = ControllerUserRequests(self.view, self.iggy)  # type: ignore[arg-type]  # as there

    @property
    def requests(self) -> "InstantController":
        return self

    def on_change(self, listener: Callable[[TopicChange], None]) -> None:
        self._listeners.append(listener)

    def on_brokers(self, listener: Callable[[], None]) -> None:
        self.tell_brokers.append(listener)

    def on_registered(self, listener: Callable[[], None]) -> None:
        self.tell_registered.append(listener)
        listener()

    def on_ends_asked(self, answer: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]]) -> None:
        self.ends = answer

    def on_names_asked(self, answer: Callable[[], Sequence[str] | None]) -> None:
        self.names_held = answer

    def say_room(self, room: Room) -> None:
        self.room = room

    def hold_back(self, *, on: bool) -> None:
        self.held_back = on

    def propose_in_sync(self, changes: Sequence[InSyncChange], done: Callable[[ChangeOutcome], None]) -> None:
        self.proposed += [(change, done) for change in changes]

    def report_failed(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        self.failed += partitions
        done(ChangeOutcome(ErrorCode.NONE, "", [ErrorCode.NONE] * len(partitions)))

    def elect_leaders(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None], *, unclean: bool
    ) -> None:
        self.elections += [(ref, unclean) for ref in partitions]
        self._judge(len(partitions), done)

    def reassign(self, placements: Sequence[Placement], done: Callable[[ChangeOutcome], None]) -> None:
        self.placements += placements
        self._judge(len(placements), done)

    def cancel_reassign(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        self.stopped_moves += partitions
        self._judge(len(partitions), done)

    def _judge(self, count: int, done: Callable[[ChangeOutcome], None]) -> None:
        if self.refusal:
            return done(ChangeOutcome(self.refusal, "the controllers say so"))
        results = [*self.verdicts[:count], *[ErrorCode.NONE] * (count - len(self.verdicts[:count]))]
        del self.verdicts[:count]
        return done(ChangeOutcome(ErrorCode.NONE, "", results))

    def part(self) -> None:
        """The broker's process has ended: nobody listens until another one begins."""
        self._listeners.clear()
        self.tell_brokers.clear()
        self.tell_registered.clear()

    def _heard(self, change: TopicChange) -> None:
        self._ids = max(self._ids, self.view.index)
        for listener in self._listeners:
            listener(change)

    def publish(self, kind: ChangeKind, topic: TopicView) -> None:
        """The view has the topic, or has it no more, and the listeners hear of it."""
        shown = () if kind is ChangeKind.DELETED else (topic,)
        show(self.view, *shown, without=(topic.topic_id,))
        for listener in self._listeners:
            listener(TopicChange(kind, topic))

    def update(self, delta: pb.Delta) -> None:
        """The view gets an update of the controllers, and the listeners hear of it."""
        for change in self.view.apply(delta):
            self._heard(change)

    def add(self, name: str, partitions: int = 1, **settings: str) -> TopicView:
        """Creates a topic and returns it; underscores in the settings' names stand for dots."""
        pairs = {key.replace("_", "."): value for key, value in settings.items()}
        outcomes: list[TopicOutcome] = []
        self.create_topic(NewTopic(name, partitions, settings=pairs), outcomes.append)
        assert outcomes[0].error == 0, outcomes
        topic = self.view.topic(name)
        assert topic is not None
        return topic

    def create_topic(self, topic: NewTopic, done: Callable[[TopicOutcome], None]) -> None:
        if topic_name_problem(topic.name) is not None or (topic.name in INTERNAL_TOPICS) != topic.is_internal:
            return done(TopicOutcome(ErrorCode.INVALID_NAME, "bad name"))
        if self.refuses_topics:
            return done(TopicOutcome(ErrorCode.OVERLOADED, "not now"))
        if self.view.topic(topic.name) is not None:
            return done(TopicOutcome(ErrorCode.TOPIC_EXISTS, "exists"))
        if not topic.partitions:
            return done(TopicOutcome(ErrorCode.INVALID_PARTITIONS, "no partitions"))
        try:
            settings = topic_settings.from_pairs(topic.settings)
        except SettingError as error:
            return done(TopicOutcome(ErrorCode.INVALID_SETTING, str(error)))
        if any(replicas != [BROKER_ID] for replicas in topic.assignments):
            return done(TopicOutcome(ErrorCode.UNKNOWN_BROKER, "no such broker"))
        if topic.validate_only:
            return done(TopicOutcome(ErrorCode.NONE))
        self._ids += 1
        self.view.index = max(self.view.index, self._ids)  # ids are places in the log of the controllers
        placed = [
            PartitionView(n, BROKER_ID, 1, 1, (BROKER_ID,), (BROKER_ID,)) for n in range(topic.partitions)
        ]
        view = TopicView(self._ids, topic.name, 1, settings, dict(topic.settings), placed)
        self.publish(ChangeKind.CREATED, view)
        return done(TopicOutcome(ErrorCode.NONE, "", self._ids))

    def alter_topic(self, change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        topic = self.view.topic(change.name)
        if topic is None:
            return done(TopicOutcome(ErrorCode.UNKNOWN_TOPIC, "no such topic"))
        if any(replicas != [BROKER_ID] for replicas in change.assignments):
            return done(TopicOutcome(ErrorCode.UNKNOWN_BROKER, "no such broker"))
        pairs = {**topic.settings_text, **change.settings}
        text = {key: value for key, value in pairs.items() if value is not None}
        placed = list(topic.partitions)
        placed += [
            PartitionView(n, BROKER_ID, 1, 1, (BROKER_ID,), (BROKER_ID,))
            for n in range(len(placed), change.partitions)
        ]
        try:
            settings = topic_settings.from_pairs(text)
        except SettingError as error:
            return done(TopicOutcome(ErrorCode.INVALID_SETTING, str(error)))
        self.publish(ChangeKind.ALTERED, TopicView(topic.topic_id, topic.name, 1, settings, text, placed))
        return done(TopicOutcome(ErrorCode.NONE, "", topic.topic_id))

    def await_view(self, done: Callable[[bool], None], *, of_client: bool = False) -> None:
        done(True)

    def delete_topic(self, name: str, done: Callable[[TopicOutcome], None]) -> None:
        topic = self.view.topic(name)
        if topic is None:
            return done(TopicOutcome(ErrorCode.UNKNOWN_TOPIC, "no such topic"))
        self.publish(ChangeKind.DELETED, topic)
        return done(TopicOutcome(ErrorCode.NONE))

    def init_producer(self, name: str, generation: int, done: Callable[[ProducerOutcome], None]) -> None:
        self._ids += 1
        done(ProducerOutcome(ErrorCode.NONE, "", self._ids, 0))

    def reserve_producer_ids(self, count: int, done: Callable[[ProducerOutcome], None]) -> None:
        first = self._ids + 1
        self._ids += count
        done(ProducerOutcome(ErrorCode.NONE, "", first, count=count))

    def commit_positions(
        self, group: str, positions: Sequence[Position], done: Callable[[CommitOutcome], None]
    ) -> None:
        kept = self.positions.setdefault(group, {})
        for position in positions:
            kept[position.topic, position.partition] = position
        done(CommitOutcome(ErrorCode.NONE, "", [ErrorCode.NONE] * len(positions)))

    def fetch_positions(
        self, group: str, topics: Sequence[str], done: Callable[[PositionsOutcome], None]
    ) -> None:
        kept = self.positions.get(group)
        if kept is None:
            return done(PositionsOutcome(ErrorCode.UNKNOWN_GROUP, "no such group"))
        wanted = [p for _, p in sorted(kept.items()) if not topics or p.topic in topics]
        return done(PositionsOutcome(ErrorCode.NONE, "", wanted))

    def list_groups(self, done: Callable[[GroupsOutcome], None]) -> None:
        done(GroupsOutcome(ErrorCode.NONE, "", sorted(self.positions)))

    def groups_to_move(self, done: Callable[[GroupsOutcome], None]) -> None:
        self.list_groups(done)

    def positions_to_move(self, group: str, done: Callable[[PositionsOutcome], None]) -> None:
        self.fetch_positions(group, [], done)

    def drop_positions(self, groups: Sequence[str], done: Callable[[ChangeOutcome], None]) -> None:
        for group in groups:
            self.positions.pop(group, None)
        done(ChangeOutcome(ErrorCode.NONE))
