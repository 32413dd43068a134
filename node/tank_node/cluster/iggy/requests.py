"""The requests of a broker to the controllers about the names of Iggy's clients. No I/O."""

from collections.abc import Callable, Iterable

from tank_node.cluster.answers import is_text, known_error
from tank_node.cluster.iggy.link import IggyDone, IggyOutcome, IggyTopicChange, NewIggyTopic
from tank_node.cluster.iggy.parts import IggyGroupView, IggyOptionView, StreamView
from tank_node.cluster.pending import PendingRequests
from tank_node.cluster.view import ClusterView, TopicView
from tank_protos import feature_levels, topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


class ControllerIggyRequests:
    """Implements `tank_node.cluster.iggy.link.IggyRequests` over the stream to the controller that leads. All
    calls on the event loop."""

    def __init__(
        self, view: ClusterView, pending: PendingRequests, broker_epoch: Callable[[], int] = int
    ) -> None:
        """`broker_epoch`: that of this process."""
        self._view = view
        self._pending = pending
        self._broker_epoch = broker_epoch
        self._made = 0
        """How many things were asked for that get a name."""

    # --- streams ---

    def create_stream(self, name: str, done: IggyDone, *, number: int | None = None) -> None:
        """As IggyRequests."""
        if _refused(done, name):
            return
        create = pb.CreateStream(name=name, number=number, maker=self._maker())
        self._change(pb.Command(create_stream=create), done)

    def rename_stream(self, stream: StreamView, name: str, done: IggyDone) -> None:
        """As IggyRequests."""
        if _refused(done, name):
            return
        rename = pb.RenameStream(stream=stream.number, born=stream.born, name=name)
        self._change(pb.Command(rename_stream=rename), done)

    def delete_stream(self, stream: StreamView, done: IggyDone) -> None:
        """As IggyRequests."""
        delete = pb.DeleteStream(stream=stream.number, born=stream.born)
        self._change(pb.Command(delete_stream=delete), done)

    def purge_stream(self, stream: StreamView, done: IggyDone) -> None:
        """As IggyRequests."""
        topics = self._view.iggy.topics(stream.number)
        ids = [each.topic_id for each in topics if each.iggy is not None and not each.iggy.exposed]

        def go_on(outcome: IggyOutcome) -> None:
            if outcome.error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC):
                done(outcome)
            elif ids:  # one that is gone by now has no message that could be left
                self._change(pb.Command(purge_topic=pb.PurgeTopic(topic_id=ids.pop())), go_on)
            else:
                done(IggyOutcome(ErrorCode.NONE, number=stream.number))

        go_on(IggyOutcome(ErrorCode.NONE))

    # --- topics ---

    def create_topic(self, topic: NewIggyTopic, done: IggyDone) -> None:
        """As IggyRequests."""
        if _refused(done, topic.name, *(option.key for option in topic.options)):
            return
        format_setting = pb.Setting(key=topic_settings.LOG_FORMAT, value=topic.log_format.value)
        create = pb.CreateIggyTopic(
            stream=topic.stream.number,
            born=topic.stream.born,
            name=topic.name,
            number=topic.number,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            settings=[format_setting],
            values=pb.IggyValues(
                expiry_us=topic.expiry_us,
                max_bytes=topic.max_bytes,
                per_partition=topic.per_partition,
                compression=topic.compression,
                options=_options(topic.options),
            ),
            maker=self._maker(),
        )
        self._change(pb.Command(create_iggy_topic=create), done)

    def alter_topic(self, topic: TopicView, change: IggyTopicChange, done: IggyDone) -> None:
        """As IggyRequests."""
        options = change.options
        if _refused(done, change.name or "", *(option.key for option in options or ())):
            return
        alter = pb.AlterIggyTopic(
            topic_id=topic.topic_id,
            name=change.name,
            expiry_us=change.expiry_us,
            max_bytes=change.max_bytes,
            per_partition=change.per_partition,
            compression=change.compression,
            options=None if options is None else pb.IggyOptions(options=_options(options)),
        )
        self._change(pb.Command(alter_iggy_topic=alter), done)

    def add_partitions(self, topic: TopicView, count: int, done: IggyDone) -> None:
        """As IggyRequests."""
        alter = pb.AlterTopic(topic_id=topic.topic_id, partitions=len(topic.partitions) + count)
        self._change(pb.Command(alter_topic=alter), done)

    def shrink_topic(self, topic: TopicView, count: int, done: IggyDone) -> None:
        """As IggyRequests."""
        left = len(topic.partitions) - count
        if left < 0:
            message = f"the topic has {len(topic.partitions)} partitions, so {count} can't be removed"
            done(IggyOutcome(ErrorCode.INVALID_PARTITIONS, message))
            return
        shrink = pb.ShrinkTopic(
            topic_id=topic.topic_id,
            partitions=left,
            seen_partitions=len(topic.partitions),
            seen_epoch_floor=topic.epoch_floor,
        )
        self._change(pb.Command(shrink_topic=shrink), done)

    def purge_topic(self, topic: TopicView, done: IggyDone) -> None:
        """As IggyRequests."""
        self._change(pb.Command(purge_topic=pb.PurgeTopic(topic_id=topic.topic_id)), done)

    def delete_topic(self, topic: TopicView, done: IggyDone) -> None:
        """As IggyRequests."""
        self._change(pb.Command(delete_topic=pb.DeleteTopic(topic_id=topic.topic_id)), done)

    # --- groups ---

    def create_group(self, topic: TopicView, name: str, done: IggyDone, *, number: int | None = None) -> None:
        """As IggyRequests."""
        if _refused(done, name):
            return
        maker = self._maker()
        create = pb.CreateIggyGroup(topic_id=topic.topic_id, name=name, number=number, maker=maker)
        self._change(pb.Command(create_iggy_group=create), done)

    def delete_group(self, group: IggyGroupView, done: IggyDone) -> None:
        """As IggyRequests."""
        delete = pb.DeleteIggyGroup(topic_id=group.topic_id, number=group.number, born=group.born)
        self._change(pb.Command(delete_iggy_group=delete), done)

    # --- topics of other protocols ---

    def expose_topic(self, topic: TopicView, stream: StreamView, name: str, done: IggyDone) -> None:
        """As IggyRequests."""
        if _refused(done, name):
            return
        expose = pb.ExposeTopic(topic_id=topic.topic_id, stream=stream.number, born=stream.born, name=name)
        self._change(pb.Command(expose_topic=expose), done)

    def hide_topic(self, topic: TopicView, done: IggyDone) -> None:
        """As IggyRequests."""
        self._change(pb.Command(hide_topic=pb.HideTopic(topic_id=topic.topic_id)), done)

    def _maker(self) -> pb.Maker:
        """What a repeat of the next command is known by: requests without an answer are sent again."""
        self._made += 1
        return pb.Maker(broker_epoch=self._broker_epoch(), request=self._made)

    def _change(self, command: pb.Command, done: IggyDone) -> None:
        if self._view.feature_level < feature_levels.IGGY:
            done(_LEVEL_TOO_LOW)
            return

        def answer(outcome: pb.ProposalOutcome) -> None:
            error = known_error(outcome.error)
            done(IggyOutcome(error, outcome.message, outcome.number, outcome.topic_id))

        self._pending.change(command, answer)


def _refused(done: IggyDone, *names: str) -> bool:
    """Whether a name can't be sent, because it is no text; `done` has heard it then."""
    if is_text(*names):
        return False
    done(IggyOutcome(ErrorCode.INVALID_NAME, "names are UTF-8 text"))
    return True


def _options(options: Iterable[IggyOptionView]) -> list[pb.IggyOption]:
    return [pb.IggyOption(key=each.key, kind=each.kind, value=each.value) for each in options]


_LEVEL_TOO_LOW = IggyOutcome(
    ErrorCode.LEVEL_TOO_LOW,
    f"Iggy's clients need feature level {feature_levels.IGGY}, which is not in force: upgrade all processes",
)
