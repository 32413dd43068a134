"""What every link to a controller does alike: the node asks by names, the controller's log holds ids.

Heirs say how a command or a question reaches the controller that leads: in one process, or over the network.
No I/O here.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from tank_node.clock import Clock
from tank_node.cluster.link import (
    ChangeOutcome,
    CommitOutcome,
    GroupsOutcome,
    InSyncChange,
    NewTopic,
    Position,
    PositionsOutcome,
    ProducerOutcome,
    TopicAlteration,
    TopicOutcome,
)
from tank_node.cluster.producer_ids import ProducerIds
from tank_node.cluster.view import ClusterView, TopicChange, WholeState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

Proposed = Callable[[pb.ProposalOutcome], None]
Answered = Callable[[pb.QueryAnswer], None]


class RequestingLink(ABC):
    """The half of `tank_node.cluster.link.ControllerLink` that asks. All calls on the event loop."""

    def __init__(self, cluster_id: str, broker_id: int, clock: Clock) -> None:
        self.view = ClusterView(cluster_id, broker_id)
        self.broker_epoch = 0
        self.peer_key = b""
        self._clock = clock
        self._producer_ids = ProducerIds(self._ask_for_ids)
        self._on_change: list[Callable[[TopicChange], None]] = []
        self._on_brokers: list[Callable[[], None]] = []
        self._on_registered: list[Callable[[], None]] = []

    @abstractmethod
    def _propose(
        self, command: pb.Command, done: Proposed, *, validate_only: bool = False, of_client: bool = False
    ) -> None:
        """Takes a command to the controller's log; `done` gets its outcome, once. `of_client`: while no
        controller leads, the outcome is that, at once."""

    @abstractmethod
    def _query(self, query: pb.BrokerQuery, done: Answered, *, of_client: bool = False) -> None:
        """Takes a question to the controller; `done` gets the whole answer, once. `of_client`: as above."""

    @property
    def producer_ids_left(self) -> int:
        """As ControllerLink."""
        return self._producer_ids.left

    # --- listeners ---

    def on_change(self, listener: Callable[[TopicChange], None]) -> None:
        """As ControllerLink."""
        self._on_change.append(listener)

    def on_brokers(self, listener: Callable[[], None]) -> None:
        """As ControllerLink."""
        self._on_brokers.append(listener)

    def on_registered(self, listener: Callable[[], None]) -> None:
        """As ControllerLink."""
        self._on_registered.append(listener)
        if self.broker_epoch:
            listener()

    def _take_delta(self, delta: pb.Delta) -> None:
        """Puts what changed into the view, then tells of it."""
        brokers = bool(delta.brokers or delta.removed_brokers)
        self._announce(self.view.apply(delta), brokers=brokers)

    def _take_whole(self, whole: WholeState) -> None:
        """The same, for a state that leaves nothing out."""
        self._announce(self.view.replace(whole), brokers=True)

    def _announce(self, changes: Sequence[TopicChange], *, brokers: bool) -> None:
        if brokers:
            for told in self._on_brokers:
                told()
        for change in changes:
            for listener in self._on_change:
                listener(change)

    def _registered(self, epoch: int) -> None:
        """The view has reached the registration."""
        if epoch != self.broker_epoch:
            self.broker_epoch = epoch
            for listener in self._on_registered:
                listener()

    # --- replicas ---

    def propose_in_sync(self, changes: Sequence[InSyncChange], done: Callable[[ChangeOutcome], None]) -> None:
        """As ControllerLink."""
        sets = [
            pb.InSyncSet(
                topic_id=change.topic_id,
                partition=change.partition,
                leader_epoch=change.leader_epoch,
                partition_epoch=change.partition_epoch,
                in_sync=[
                    pb.InSyncMember(broker_id=broker_id, broker_epoch=epoch)
                    for broker_id, epoch in change.in_sync
                ],
            )
            for change in changes
        ]
        change = pb.ChangeInSync(broker_id=self.view.broker_id, broker_epoch=self.broker_epoch, sets=sets)
        self._change_replicas(pb.Command(change_in_sync=change), done)

    def report_failed(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        """As ControllerLink."""
        report = pb.ReportFailed(
            broker_id=self.view.broker_id,
            broker_epoch=self.broker_epoch,
            partitions=[pb.PartitionRef(topic_id=topic, partition=number) for topic, number in partitions],
        )
        self._change_replicas(pb.Command(report_failed=report), done)

    def _change_replicas(self, command: pb.Command, done: Callable[[ChangeOutcome], None]) -> None:
        def answer(outcome: pb.ProposalOutcome) -> None:
            done(ChangeOutcome(_known(outcome.error), outcome.message, _all_known(outcome.results)))

        self._propose(self._dated(command), answer)

    def await_view(self, done: Callable[[bool], None]) -> None:
        """As ControllerLink. A controller of before this question refuses it."""

        def answer(found: pb.QueryAnswer) -> None:
            done(not found.error and self.view.index >= found.index)

        self._query(pb.BrokerQuery(view=pb.ViewQuery()), answer)

    # --- topics ---

    def create_topic(self, topic: NewTopic, done: Callable[[TopicOutcome], None]) -> None:
        """As ControllerLink."""
        if not _is_text(topic.name, *topic.settings, *topic.settings.values()):
            done(_NOT_TEXT)
            return
        create = pb.CreateTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            settings=[pb.Setting(key=key, value=value) for key, value in topic.settings.items()],
        )
        self._change_topic(pb.Command(create_topic=create), done, validate_only=topic.validate_only)

    def alter_topic(self, change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        """As ControllerLink."""
        topic = self.view.topic(change.name)
        if topic is None:
            done(_unknown_topic(change.name))
            return
        given = {key: value for key, value in change.settings.items() if value is not None}
        if not _is_text(*change.settings, *given.values()):
            done(_NOT_TEXT)
            return
        alter = pb.AlterTopic(
            topic_id=topic.topic_id,
            partitions=change.partitions,
            set=[pb.Setting(key=key, value=value) for key, value in given.items()],
            unset=[key for key, value in change.settings.items() if value is None],
        )
        self._change_topic(pb.Command(alter_topic=alter), done, validate_only=change.validate_only)

    def delete_topic(self, name: str, done: Callable[[TopicOutcome], None]) -> None:
        """As ControllerLink."""
        topic = self.view.topic(name)
        if topic is None:
            done(_unknown_topic(name))
            return
        self._change_topic(pb.Command(delete_topic=pb.DeleteTopic(topic_id=topic.topic_id)), done)

    def _change_topic(
        self, command: pb.Command, done: Callable[[TopicOutcome], None], *, validate_only: bool = False
    ) -> None:
        def answer(outcome: pb.ProposalOutcome) -> None:
            done(TopicOutcome(_known(outcome.error), outcome.message, outcome.topic_id))

        self._propose(self._dated(command), answer, validate_only=validate_only, of_client=True)

    # --- producers and groups ---

    def init_producer(self, name: str, generation: int, done: Callable[[ProducerOutcome], None]) -> None:
        """As ControllerLink; epochs begin at 0. One without a name has its id from this broker's block."""
        if not name and (producer_id := self._producer_ids.take()):
            done(ProducerOutcome(ErrorCode.NONE, "", producer_id))
            return
        if not _is_text(name):
            done(ProducerOutcome(ErrorCode.INVALID_NAME, "a producer's name is UTF-8 text"))
            return

        def answer(outcome: pb.ProposalOutcome) -> None:
            done(ProducerOutcome(_known(outcome.error), outcome.message, outcome.producer_id))

        init = pb.InitProducer(name=name, generation=generation)
        self._propose(self._dated(pb.Command(init_producer=init)), answer, of_client=True)

    def reserve_producer_ids(self, count: int, done: Callable[[ProducerOutcome], None]) -> None:
        """As ControllerLink; the controllers say what more than MAX_BLOCK_IDS are."""
        if count == 0:
            done(ProducerOutcome(ErrorCode.INVALID_REQUEST, "ask for one producer id at least"))
            return

        def answer(outcome: pb.ProposalOutcome) -> None:
            error = _known(outcome.error)
            ids = outcome.producer_ids or 1
            done(ProducerOutcome(error, outcome.message, outcome.producer_id, count=ids))

        init = pb.InitProducer(block=True, block_ids=count)
        self._propose(self._dated(pb.Command(init_producer=init)), answer, of_client=True)

    def _ask_for_ids(self, done: Proposed) -> None:
        self._propose(self._dated(pb.Command(init_producer=pb.InitProducer(block=True))), done)

    def commit_positions(
        self, group: str, positions: Sequence[Position], done: Callable[[CommitOutcome], None]
    ) -> None:
        """As ControllerLink: positions are kept under the ids that the topics have now."""
        if not _is_text(group):
            done(CommitOutcome(ErrorCode.INVALID_NAME, "a group's name is UTF-8 text"))
            return
        commit = pb.CommitPositions(
            group=group,
            positions=[
                pb.Position(
                    topic_id=self._topic_id(position.topic),
                    partition=position.partition,
                    sequence_number=position.sequence_number,
                    metadata=position.metadata.encode("utf-8", "surrogateescape"),
                )
                for position in positions
            ],
        )

        def answer(outcome: pb.ProposalOutcome) -> None:
            done(CommitOutcome(_known(outcome.error), outcome.message, _all_known(outcome.results)))

        self._propose(self._dated(pb.Command(commit_positions=commit)), answer, of_client=True)

    def fetch_positions(
        self, group: str, topics: Sequence[str], done: Callable[[PositionsOutcome], None]
    ) -> None:
        """As ControllerLink."""
        if not _is_text(group):
            done(PositionsOutcome(ErrorCode.UNKNOWN_GROUP, "a group's name is UTF-8 text"))
            return
        wanted = [self._topic_id(name) for name in topics]

        def answer(found: pb.QueryAnswer) -> None:
            done(PositionsOutcome(_known(found.error), found.message, self._named(found.positions)))

        query = pb.BrokerQuery(positions=pb.PositionsQuery(group=group, topic_ids=wanted))
        self._query(query, answer, of_client=True)

    def list_groups(self, done: Callable[[GroupsOutcome], None]) -> None:
        """As ControllerLink."""

        def answer(found: pb.QueryAnswer) -> None:
            done(GroupsOutcome(_known(found.error), found.message, sorted(found.groups)))

        self._query(pb.BrokerQuery(groups=pb.GroupsQuery()), answer, of_client=True)

    def _topic_id(self, name: str) -> int:
        """0: there is none, which the controller answers with UNKNOWN_TOPIC."""
        topic = self.view.topic(name)
        return 0 if topic is None else topic.topic_id

    def _named(self, positions: Sequence[pb.Position]) -> list[Position]:
        named = [
            Position(
                topic=topic.name,
                partition=position.partition,
                sequence_number=position.sequence_number,
                metadata=position.metadata.decode("utf-8", "surrogateescape"),
                committed_ms=position.committed_ms,
            )
            for position in positions
            if (topic := self.view.topic_by_id(position.topic_id)) is not None
        ]
        return sorted(named, key=lambda position: (position.topic, position.partition))

    def _dated(self, command: pb.Command) -> pb.Command:
        command.now_ms = self._clock.now_ms()
        return command


_NOT_TEXT = TopicOutcome(ErrorCode.INVALID_REQUEST, "names and settings are UTF-8 text")


def _is_text(*strings: str) -> bool:
    """Whether it is UTF-8: what came off the wire may hold bytes that are not, as lone surrogates."""
    try:
        for string in strings:
            string.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown_topic(name: str) -> TopicOutcome:
    return TopicOutcome(ErrorCode.UNKNOWN_TOPIC, f"there is no topic {name}")


def _known(error: int) -> ErrorCode:
    """As an error of ours; of a newer controller's, which we don't know, only that it refused."""
    try:
        return ErrorCode(error)
    except ValueError:
        return ErrorCode.INVALID_REQUEST


def _all_known(errors: Iterable[int]) -> list[ErrorCode]:
    return [_known(error) for error in errors]
