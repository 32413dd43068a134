"""The controller's link of a node that has its controller in the same process: for `tank serve`.

A node asks by names, the controller's log holds ids; here one becomes the other.
"""

import asyncio
from collections.abc import Callable, Sequence

from tank_controller import commands
from tank_controller.journal import Journal, Recovered
from tank_controller.journal_driver import JournalDriver
from tank_controller.outcome import Outcome, Rejected
from tank_node.clock import Clock
from tank_node.cluster_view import ClusterView, TopicChange
from tank_node.controller_link import (
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
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb

PRODUCER_USE_NOTED_MS = 3_600_000
"""How exactly the log knows when a named producer was last used: asking again within this writes nothing."""


class RegistrationError(RuntimeError):
    """The controller doesn't take this broker; the message says why."""


class LocalController:
    """Implements `tank_node.controller_link.ControllerLink`. All calls on the event loop's thread."""

    def __init__(
        self,
        journal: Journal,
        cluster_id: str,
        broker_id: int,
        clock: Clock,
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        self.view = ClusterView(cluster_id, broker_id)
        self.broker_epoch = 0
        self._clock = clock
        self._listeners: list[Callable[[TopicChange], None]] = []
        self._when_registered: list[Callable[[], None]] = []
        self._when_brokers_change: list[Callable[[], None]] = []
        self._driver = JournalDriver(journal, post, self._on_delta)

    def open(self, *, may_be_new: bool) -> Recovered:
        """Reads the metadata, waiting for the disk. JournalError."""
        recovered = self._driver.open(may_be_new=may_be_new)
        self.view.apply(self._driver.state.delta())
        return recovered

    async def register(self, incarnation: bytes, disk_uuid: bytes, host: str, port: int, rack: str) -> None:
        """Says that this process is the broker now: what it leads, it leads in new epochs.
        RegistrationError.
        """
        register = pb.RegisterBroker(
            broker_id=self.view.broker_id,
            incarnation=incarnation,
            disk_uuid=disk_uuid,
            endpoints=[pb.Endpoint(name="tank", host=host, port=port)],
            rack=rack,
        )
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._propose(pb.Command(register_broker=register), outcome.set_result)
        if (rejection := (await outcome).rejection) is not None:
            raise RegistrationError(rejection.message)
        epoch = self.view.brokers[self.view.broker_id].epoch
        if epoch != self.broker_epoch:
            self.broker_epoch = epoch
            for listener in self._when_registered:
                listener()

    async def stop(self) -> None:
        """Answers what waits and ends the journal in good order."""
        stopped = asyncio.Event()
        self._driver.stop(stopped.set)
        await stopped.wait()

    @property
    def failed(self) -> str | None:
        """Why nothing can be changed any more; None while all is well."""
        return self._driver.failed

    # --- what the node asks ---

    def on_change(self, listener: Callable[[TopicChange], None]) -> None:
        """Calls `listener` for every topic that is created, altered or deleted from now on."""
        self._listeners.append(listener)

    def on_brokers(self, listener: Callable[[], None]) -> None:
        """Calls `listener` whenever a broker registers."""
        self._when_brokers_change.append(listener)

    def on_registered(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when this process is registered; at once when it is."""
        self._when_registered.append(listener)
        if self.broker_epoch:
            listener()

    def on_ends_asked(self, answer: Callable[[Sequence[tuple[int, int]]], Sequence[ReplicaEnd]]) -> None:
        """Nobody asks: with one broker there is nobody to choose from."""

    def propose_in_sync(self, changes: Sequence[InSyncChange], done: Callable[[ChangeOutcome], None]) -> None:
        """Refused: the only replica is the in-sync set."""
        done(ChangeOutcome(ErrorCode.INVALID_REQUEST, _ALONE, [ErrorCode.INVALID_REQUEST] * len(changes)))

    def report_failed(
        self, partitions: Sequence[tuple[int, int]], done: Callable[[ChangeOutcome], None]
    ) -> None:
        """Refused: nobody else could lead."""
        done(ChangeOutcome(ErrorCode.INVALID_REQUEST, _ALONE, [ErrorCode.INVALID_REQUEST] * len(partitions)))

    def create_topic(self, topic: NewTopic, done: Callable[[TopicOutcome], None]) -> None:
        """Creates a topic; with `validate_only` says whether it could be."""
        if not _is_text(topic.name, *topic.settings, *topic.settings.values()):
            done(_NOT_TEXT)
            return
        create = pb.CreateTopic(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            settings=[pb.Setting(key=key, value=value) for key, value in topic.settings.items()],
        )
        self._change_topic(pb.Command(create_topic=create), topic.validate_only, done)

    def alter_topic(self, change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        """Changes settings and adds partitions; with `validate_only` says whether it could."""
        topic = self._driver.state.topic(change.name)
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
        self._change_topic(pb.Command(alter_topic=alter), change.validate_only, done)

    def delete_topic(self, name: str, done: Callable[[TopicOutcome], None]) -> None:
        """Deletes a topic, its data and the positions in it."""
        topic = self._driver.state.topic(name)
        if topic is None:
            done(_unknown_topic(name))
            return
        command = pb.Command(delete_topic=pb.DeleteTopic(topic_id=topic.topic_id))
        self._change_topic(command, False, done)

    def init_producer(self, name: str, generation: int, done: Callable[[ProducerOutcome], None]) -> None:
        """A producer id; its epochs begin at 0."""
        if not _is_text(name):
            done(ProducerOutcome(ErrorCode.INVALID_NAME, "a producer's name is UTF-8 text"))
            return
        known = commands.known_producer(self._driver.state, name, generation)
        if known is not None and self._clock.now_ms() - known.used_ms < PRODUCER_USE_NOTED_MS:
            done(ProducerOutcome(ErrorCode.NONE, producer_id=known.producer_id))
            return

        def answer(outcome: Outcome) -> None:
            error, message = _error(outcome.rejection)
            done(ProducerOutcome(error, message, producer_id=outcome.producer_id))

        self._propose(pb.Command(init_producer=pb.InitProducer(name=name, generation=generation)), answer)

    def commit_positions(
        self, group: str, positions: Sequence[Position], done: Callable[[CommitOutcome], None]
    ) -> None:
        """Keeps positions under the ids that the topics have now."""
        if not _is_text(group):
            done(CommitOutcome(ErrorCode.INVALID_NAME, "a group's name is UTF-8 text"))
            return
        topic_ids = self._driver.state.topic_ids
        commit = pb.CommitPositions(
            group=group,
            positions=[
                pb.Position(
                    topic_id=topic_ids.get(position.topic, 0),
                    partition=position.partition,
                    sequence_number=position.sequence_number,
                    metadata=position.metadata.encode("utf-8", "surrogateescape"),
                )
                for position in positions
            ],
        )

        def answer(outcome: Outcome) -> None:
            error, message = _error(outcome.rejection)
            done(CommitOutcome(error, message, outcome.results))

        self._propose(pb.Command(commit_positions=commit), answer)

    def fetch_positions(
        self, group: str, topics: Sequence[str], done: Callable[[PositionsOutcome], None]
    ) -> None:
        """A group's positions, by the topics' names and partitions."""
        state = self._driver.state
        held = state.groups.get(group)
        if held is None:
            done(PositionsOutcome(ErrorCode.UNKNOWN_GROUP, "the group has no positions yet"))
            return
        wanted = {state.topic_ids.get(name, 0) for name in topics} if topics else held.keys()
        found = [
            Position(
                topic=state.topics[topic_id].name,
                partition=partition,
                sequence_number=position.sequence_number,
                metadata=position.metadata.decode("utf-8", "surrogateescape"),
                committed_ms=position.committed_ms,
            )
            for topic_id in held.keys() & wanted
            for partition, position in held[topic_id].items()
        ]
        found.sort(key=lambda position: (position.topic, position.partition))
        done(PositionsOutcome(ErrorCode.NONE, positions=found))

    def list_groups(self, done: Callable[[GroupsOutcome], None]) -> None:
        """The groups that have positions."""
        done(GroupsOutcome(ErrorCode.NONE, groups=sorted(self._driver.state.groups)))

    # --- inside ---

    def _change_topic(
        self, command: pb.Command, validate_only: bool, done: Callable[[TopicOutcome], None]
    ) -> None:
        def answer(outcome: Outcome) -> None:
            error, message = _error(outcome.rejection)
            done(TopicOutcome(error, message, outcome.topic_id))

        if validate_only:
            done(TopicOutcome(*_error(commands.check(self._driver.state, command))))
        else:
            self._propose(command, answer)

    def _propose(self, command: pb.Command, done: Callable[[Outcome], None]) -> None:
        command.now_ms = self._clock.now_ms()
        self._driver.propose(command, done)

    def _on_delta(self, delta: pb.Delta) -> None:
        for change in self.view.apply(delta):
            for listener in self._listeners:
                listener(change)
        if delta.brokers:
            for told in self._when_brokers_change:
                told()


_ALONE = "this broker is alone: nobody else holds a replica"
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


def _error(rejection: Rejected | None) -> tuple[ErrorCode, str]:
    return (ErrorCode.NONE, "") if rejection is None else (rejection.error, rejection.message)
