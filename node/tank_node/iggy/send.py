"""Sends messages: one request is one batch, one append, and one answer when all in-sync replicas have it."""

from typing import TYPE_CHECKING, Final, NamedTuple

from tank_node.cluster.view import TopicView
from tank_node.iggy.numbers import iggy_part, partition_of, topic_of
from tank_node.iggy.refusals import of_stored, refusal
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Appended
from tank_node.stored.stored_partitions import stored_partitions
from tank_node.users.rights import IggyAction
from tank_protos.iggy import send as wire
from tank_protos.iggy import sent_messages
from tank_protos.iggy.checksums import key_partition
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.kinds import PartitioningKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.topic_settings import LogFormat

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall, IggySession

_MOST_TURNS: Final = 1024
"""How many topics one connection sends to before it begins their partitions anew."""


class _Target(NamedTuple):
    """Where the messages of a request go."""

    topic: TopicView
    stream_number: int
    topic_number: int
    partitioning: Partitioning


class _SendCall:
    """A request, until its batch is stored."""

    __slots__ = ("call", "partition", "stream", "topic")

    def __init__(self, call: "IggyCall", stream: int, topic: int, partition: int) -> None:
        self.call = call
        self.stream = stream
        self.topic = topic
        self.partition = partition

    def done(self, appended: Appended) -> None:
        """Answers with the batch's place, or with its error."""
        call = self.call
        if appended.outcome is StoredOutcome.DONE:
            offset = appended.first - 1
            call.answer(wire.answer(self.stream, self.topic, self.partition, offset, call.era))
        else:
            call.fail(of_stored(appended.outcome))


def send_messages(call: "IggyCall", payload: memoryview) -> None:
    """Stores the messages of a request in one partition, all or none."""
    era, session = call.era, call.session
    size = wire.head_bytes(payload, era)
    head = bytes(payload[:size])
    view = session.broker.link.view
    found = session.learned.find(head, view, session.principal, era) if size else None
    if isinstance(found, _Target):
        sent, target = wire.read_again(payload, size, found.partitioning), found
    else:
        sent = wire.read(payload, era)
        stream, topic = topic_of(call, sent.stream, sent.topic, IggyAction.SEND)
        target = _Target(topic, stream.number, iggy_part(topic).number, sent.partitioning)
        if size:
            session.learned.keep(head, target)
    number = _chosen(call, target.topic, target.partitioning)
    now_ms = session.broker.tick.now_ms
    batch: bytes | bytearray
    if target.topic.settings.log_format is LogFormat.KAFKA:
        batch = sent_messages.record_batch(sent, era, now_ms)
    else:
        batch = sent_messages.tank_batch(sent, era, now_ms)
    sending = _SendCall(call, target.stream_number, target.topic_number, number)
    place = target.topic.topic_id, number
    stored_partitions(session.broker).append(place, batch, session, sending.done)


def _chosen(call: "IggyCall", topic: TopicView, partitioning: Partitioning) -> int:
    """The number of the partition to send to. Raises IggyRefusal."""
    count = len(topic.partitions)
    if not count:
        raise refusal(IggyError.NO_PARTITIONS)
    if partitioning.kind is PartitioningKind.PARTITION:
        return partition_of(call, topic, partitioning.partition)
    if partitioning.kind is PartitioningKind.KEY:
        return key_partition(partitioning.key, count)
    return _next_turn(call.session, topic.topic_id) % count


def _next_turn(session: "IggySession", topic_id: int) -> int:
    turns = session.turns
    if len(turns) >= _MOST_TURNS and topic_id not in turns:
        turns.clear()
    turn = turns.get(topic_id, 0)
    turns[topic_id] = turn + 1
    return turn
