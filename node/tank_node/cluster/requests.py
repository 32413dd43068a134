"""The requests of a broker to the controllers. Translates between the names that brokers and clients use and
the ids in the controllers' log. No I/O.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from tank_node.cluster.answers import is_text, known_error, known_errors
from tank_node.cluster.iggy.requests import ControllerIggyRequests
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
    TopicAlteration,
    TopicOutcome,
)
from tank_node.cluster.pending import Answered, PendingRequests, Proposed
from tank_node.cluster.producer_ids import ProducerIds
from tank_node.cluster.users.requests import ControllerUserRequests
from tank_node.cluster.view import ClusterView
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


class ControllerRequests:
    """Implements `tank_node.cluster.link.MetadataRequests` over the stream to the controller that leads. All
    calls on the event loop."""

    def __init__(self, view: ClusterView, pending: PendingRequests) -> None:
        self.broker_epoch = 0
        """This process's broker epoch, which its proposals about replicas carry so that a fenced process's
        are refused; 0: none yet."""
        self._view = view
        self._pending = pending
        self.producer_ids = ProducerIds(self._ask_for_ids)
        self.exposures: Mapping[str, tuple[str, str]] = {}
        """By topic: the stream and the name under which Iggy's clients are to see it, when it is created."""
        self.iggy = ControllerIggyRequests(view, pending, lambda: self.broker_epoch)
        """As MetadataRequests."""
        self.users = ControllerUserRequests(view, pending)
        """As MetadataRequests."""

    def shut_down(self, done: Proposed) -> None:
        """Asks the controllers to move leadership away from this broker, and then to let it stop."""
        stop = pb.SetBroker(broker_id=self._view.broker_id, epoch=self.broker_epoch, shutting_down=True)
        self._pending.propose(pb.Command(set_broker=stop), done)

    # --- replicas ---

    def propose_in_sync(self, changes: Sequence[InSyncChange], done: Callable[[ChangeOutcome], None]) -> None:
        """As MetadataRequests."""
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
        change = pb.ChangeInSync(broker_id=self._view.broker_id, broker_epoch=self.broker_epoch, sets=sets)
        self._change_replicas(pb.Command(change_in_sync=change), done)

    def report_failed(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        """As MetadataRequests."""
        report = pb.ReportFailed(
            broker_id=self._view.broker_id,
            broker_epoch=self.broker_epoch,
            partitions=_refs(partitions),
        )
        self._change_replicas(pb.Command(report_failed=report), done)

    def elect_leaders(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None], *, unclean: bool
    ) -> None:
        """As MetadataRequests."""
        kind = pb.ElectLeader.UNCLEAN if unclean else pb.ElectLeader.PREFERRED
        elect = pb.ElectLeader(kind=kind, partitions=_refs(partitions))
        self._change_replicas(pb.Command(elect_leader=elect), done, of_client=True)

    def reassign(self, placements: Sequence[Placement], done: Callable[[ChangeOutcome], None]) -> None:
        """As MetadataRequests."""
        placed = [
            pb.Placed(topic_id=each.topic_id, partition=each.partition, replicas=each.replicas)
            for each in placements
        ]
        self._change_replicas(pb.Command(reassign=pb.Reassign(partitions=placed)), done, of_client=True)

    def cancel_reassign(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        """As MetadataRequests."""
        cancel = pb.CancelReassign(partitions=_refs(partitions))
        self._change_replicas(pb.Command(cancel_reassign=cancel), done, of_client=True)

    def _change_replicas(
        self, command: pb.Command, done: Callable[[ChangeOutcome], None], *, of_client: bool = False
    ) -> None:
        def answer(outcome: pb.ProposalOutcome) -> None:
            done(ChangeOutcome(known_error(outcome.error), outcome.message, known_errors(outcome.results)))

        self._pending.propose(command, answer, of_client=of_client)

    def await_view(self, done: Callable[[bool], None], *, of_client: bool = False) -> None:
        """As MetadataRequests. A controller of an older version, without this query, refuses it."""

        def answer(found: pb.QueryAnswer) -> None:
            if found.error:
                done(False)
            else:
                self._pending.when_seen(found.index, lambda: done(self._view.index >= found.index))

        self._pending.query(pb.BrokerQuery(view=pb.ViewQuery()), answer, of_client=of_client)

    # --- topics ---

    def create_topic(self, topic: NewTopic, done: Callable[[TopicOutcome], None]) -> None:
        """As MetadataRequests."""
        if not is_text(topic.name, *topic.settings, *topic.settings.values()):
            done(_NOT_TEXT)
            return
        if topic.assignments and self._view.feature_level < feature_levels.KAFKA:
            done(_LEVEL_TOO_LOW)
            return
        create = pb.CreateTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            settings=[pb.Setting(key=key, value=value) for key, value in topic.settings.items()],
            assignments=[pb.Assignment(replicas=replicas) for replicas in topic.assignments],
            internal=topic.is_internal,
        )
        exposure = self.exposures.get(topic.name)
        if exposure is not None and self._view.feature_level >= feature_levels.IGGY:
            create.expose.stream, create.expose.name = exposure
        self._change_topic(pb.Command(create_topic=create), done, validate_only=topic.validate_only)

    def alter_topic(self, change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        """As MetadataRequests."""
        topic = self._view.topic(change.name)
        if topic is None:
            done(_unknown_topic(change.name))
            return
        given = {key: value for key, value in change.settings.items() if value is not None}
        if not is_text(*change.settings, *given.values()):
            done(_NOT_TEXT)
            return
        if change.assignments and self._view.feature_level < feature_levels.KAFKA:
            done(_LEVEL_TOO_LOW)
            return
        alter = pb.AlterTopic(
            topic_id=topic.topic_id,
            partitions=change.partitions,
            set=[pb.Setting(key=key, value=value) for key, value in given.items()],
            unset=[key for key, value in change.settings.items() if value is None],
            assignments=[pb.Assignment(replicas=replicas) for replicas in change.assignments],
        )
        self._change_topic(pb.Command(alter_topic=alter), done, validate_only=change.validate_only)

    def delete_topic(self, name: str, done: Callable[[TopicOutcome], None]) -> None:
        """As MetadataRequests."""
        topic = self._view.topic(name)
        if topic is None:
            done(_unknown_topic(name))
            return
        self._change_topic(pb.Command(delete_topic=pb.DeleteTopic(topic_id=topic.topic_id)), done)

    def _change_topic(
        self, command: pb.Command, done: Callable[[TopicOutcome], None], *, validate_only: bool = False
    ) -> None:
        def answer(outcome: pb.ProposalOutcome) -> None:
            done(TopicOutcome(known_error(outcome.error), outcome.message, outcome.topic_id))

        self._pending.propose(command, answer, validate_only=validate_only, of_client=True)

    # --- producers and groups ---

    @property
    def producer_ids_left(self) -> int:
        """As MetadataRequests."""
        return self.producer_ids.left

    def init_producer(self, name: str, generation: int, done: Callable[[ProducerOutcome], None]) -> None:
        """As MetadataRequests; epochs begin at 0. A producer without a name gets an id of this broker's
        block."""
        if not name and (producer_id := self.producer_ids.take()):
            done(ProducerOutcome(ErrorCode.NONE, "", producer_id))
            return
        if not is_text(name):
            done(ProducerOutcome(ErrorCode.INVALID_NAME, "a producer's name is UTF-8 text"))
            return

        def answer(outcome: pb.ProposalOutcome) -> None:
            done(ProducerOutcome(known_error(outcome.error), outcome.message, outcome.producer_id))

        init = pb.InitProducer(name=name, generation=generation)
        self._pending.propose(pb.Command(init_producer=init), answer, of_client=True)

    def reserve_producer_ids(self, count: int, done: Callable[[ProducerOutcome], None]) -> None:
        """As MetadataRequests; the controllers refuse more than MAX_BLOCK_IDS."""
        if count == 0:
            done(ProducerOutcome(ErrorCode.INVALID_REQUEST, "ask for one producer id at least"))
            return

        def answer(outcome: pb.ProposalOutcome) -> None:
            error = known_error(outcome.error)
            ids = outcome.producer_ids or 1
            done(ProducerOutcome(error, outcome.message, outcome.producer_id, count=ids))

        init = pb.InitProducer(block=True, block_ids=count)
        self._pending.propose(pb.Command(init_producer=init), answer, of_client=True)

    def _ask_for_ids(self, done: Proposed) -> None:
        self._pending.propose(pb.Command(init_producer=pb.InitProducer(block=True)), done)

    def commit_positions(
        self, group: str, positions: Sequence[Position], done: Callable[[CommitOutcome], None]
    ) -> None:
        """As MetadataRequests: positions are stored under the topics' present ids."""
        if not is_text(group):
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
            done(CommitOutcome(known_error(outcome.error), outcome.message, known_errors(outcome.results)))

        self._pending.propose(pb.Command(commit_positions=commit), answer, of_client=True)

    def fetch_positions(
        self, group: str, topics: Sequence[str], done: Callable[[PositionsOutcome], None]
    ) -> None:
        """As MetadataRequests."""
        if not is_text(group):
            done(PositionsOutcome(ErrorCode.UNKNOWN_GROUP, "a group's name is UTF-8 text"))
            return
        wanted = [self._topic_id(name) for name in topics]
        query = pb.BrokerQuery(positions=pb.PositionsQuery(group=group, topic_ids=wanted))
        self._pending.query(query, self._telling_positions(done), of_client=True)

    def _telling_positions(self, done: Callable[[PositionsOutcome], None]) -> Answered:
        def answer(found: pb.QueryAnswer) -> None:
            done(PositionsOutcome(known_error(found.error), found.message, self._named(found.positions)))

        return answer

    def list_groups(self, done: Callable[[GroupsOutcome], None]) -> None:
        """As MetadataRequests."""
        self._pending.query(pb.BrokerQuery(groups=pb.GroupsQuery()), _telling_names(done), of_client=True)

    def groups_to_move(self, done: Callable[[GroupsOutcome], None]) -> None:
        """As MetadataRequests."""
        query = pb.BrokerQuery(groups=pb.GroupsQuery(to_move=True))
        self._pending.query(query, _telling_names(done))

    def positions_to_move(self, group: str, done: Callable[[PositionsOutcome], None]) -> None:
        """As MetadataRequests."""
        query = pb.BrokerQuery(positions=pb.PositionsQuery(group=group, to_move=True))
        self._pending.query(query, self._telling_positions(done))

    def drop_positions(self, groups: Sequence[str], done: Callable[[ChangeOutcome], None]) -> None:
        """As MetadataRequests."""
        self._change_replicas(pb.Command(drop_positions=pb.DropPositions(groups=groups)), done)

    def _topic_id(self, name: str) -> int:
        """The topic's id; 0 for an unknown topic, which the controller answers with UNKNOWN_TOPIC."""
        topic = self._view.topic(name)
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
            if (topic := self._view.topic_by_id(position.topic_id)) is not None
        ]
        return sorted(named, key=lambda position: (position.topic, position.partition))


def _telling_names(done: Callable[[GroupsOutcome], None]) -> Answered:
    def answer(found: pb.QueryAnswer) -> None:
        done(GroupsOutcome(known_error(found.error), found.message, sorted(found.groups)))

    return answer


def _refs(partitions: Iterable[tuple[int, int]]) -> list[pb.PartitionRef]:
    return [pb.PartitionRef(topic_id=topic, partition=number) for topic, number in partitions]


_LEVEL_TOO_LOW = TopicOutcome(
    ErrorCode.INELIGIBLE_REPLICA,
    f"choosing brokers needs feature level {feature_levels.KAFKA}, which is not in force: upgrade all "
    "processes",
)
_NOT_TEXT = TopicOutcome(ErrorCode.INVALID_REQUEST, "names and settings are UTF-8 text")


def _unknown_topic(name: str) -> TopicOutcome:
    return TopicOutcome(ErrorCode.UNKNOWN_TOPIC, f"there is no topic {name}")
