"""A controller in memory that answers at once: for tests of the node alone."""

from collections.abc import Callable, Sequence

from tank_node.cluster.link import (
    ChangeOutcome,
    CommitOutcome,
    GroupsOutcome,
    InSyncChange,
    NewTopic,
    Position,
    PositionsOutcome,
    ProducerOutcome,
    ReplicaEnd,
    TopicAlteration,
    TopicOutcome,
)
from tank_node.cluster.view import BrokerView, ChangeKind, ClusterView, PartitionView, TopicChange, TopicView
from tank_node.volume import Room
from tank_protos import topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.topic_settings import SettingError

BROKER_ID = 1


class InstantController:
    """Implements ControllerLink. Nothing is kept when it goes."""

    def __init__(self) -> None:
        self.view = ClusterView("test-cluster", BROKER_ID)
        self.view.brokers[BROKER_ID] = BrokerView(BROKER_ID, 1, "127.0.0.1", 11011, "")
        self.broker_epoch = 1
        self.peer_key = bytes(16)
        self.positions: dict[str, dict[tuple[str, int], Position]] = {}
        self.proposed: list[tuple[InSyncChange, Callable[[ChangeOutcome], None]]] = []
        """In-sync changes, for the test to answer."""
        self.failed: list[tuple[int, int]] = []
        """Replicas that were reported."""
        self.ends: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]] | None = None
        """What to ask for the ends of replicas."""
        self.tell_brokers: list[Callable[[], None]] = []
        self._listeners: list[Callable[[TopicChange], None]] = []
        self.connected = True
        self.silence_ms = 0
        self.producer_ids_left = 0
        self.room = Room.UNSAID
        self._ids = 0
        self._producers: dict[str, tuple[int, int]] = {}

    def on_change(self, listener: Callable[[TopicChange], None]) -> None:
        self._listeners.append(listener)

    def on_brokers(self, listener: Callable[[], None]) -> None:
        self.tell_brokers.append(listener)

    def on_registered(self, listener: Callable[[], None]) -> None:
        listener()

    def on_ends_asked(self, answer: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]]) -> None:
        self.ends = answer

    def say_room(self, room: Room) -> None:
        self.room = room

    def propose_in_sync(self, changes: Sequence[InSyncChange], done: Callable[[ChangeOutcome], None]) -> None:
        self.proposed += [(change, done) for change in changes]

    def report_failed(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        self.failed += partitions
        done(ChangeOutcome(ErrorCode.NONE, "", [ErrorCode.NONE] * len(partitions)))

    def _publish(self, kind: ChangeKind, topic: TopicView) -> None:
        if kind is ChangeKind.DELETED:
            del self.view._by_name[topic.name]
            del self.view._by_id[topic.topic_id]
        else:
            self.view._by_name[topic.name] = self.view._by_id[topic.topic_id] = topic
        for listener in self._listeners:
            listener(TopicChange(kind, topic))

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
        if not all(c.isalnum() or c in "-_" for c in topic.name) or not topic.name:
            return done(TopicOutcome(ErrorCode.INVALID_NAME, "bad name"))
        if self.view.topic(topic.name) is not None:
            return done(TopicOutcome(ErrorCode.TOPIC_EXISTS, "exists"))
        if not topic.partitions:
            return done(TopicOutcome(ErrorCode.INVALID_PARTITIONS, "no partitions"))
        try:
            settings = topic_settings.from_pairs(topic.settings)
        except SettingError as error:
            return done(TopicOutcome(ErrorCode.INVALID_SETTING, str(error)))
        if topic.validate_only:
            return done(TopicOutcome(ErrorCode.NONE))
        self._ids += 1
        placed = [
            PartitionView(n, BROKER_ID, 1, 1, (BROKER_ID,), (BROKER_ID,)) for n in range(topic.partitions)
        ]
        view = TopicView(self._ids, topic.name, 1, settings, dict(topic.settings), placed)
        self._publish(ChangeKind.CREATED, view)
        return done(TopicOutcome(ErrorCode.NONE, "", self._ids))

    def alter_topic(self, change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        topic = self.view.topic(change.name)
        if topic is None:
            return done(TopicOutcome(ErrorCode.UNKNOWN_TOPIC, "no such topic"))
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
        self._publish(ChangeKind.ALTERED, TopicView(topic.topic_id, topic.name, 1, settings, text, placed))
        return done(TopicOutcome(ErrorCode.NONE, "", topic.topic_id))

    def await_view(self, done: Callable[[bool], None]) -> None:
        done(True)

    def delete_topic(self, name: str, done: Callable[[TopicOutcome], None]) -> None:
        topic = self.view.topic(name)
        if topic is None:
            return done(TopicOutcome(ErrorCode.UNKNOWN_TOPIC, "no such topic"))
        self._publish(ChangeKind.DELETED, topic)
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
