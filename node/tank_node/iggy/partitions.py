"""Partitions: added, removed, flushed, and rid of their oldest segments (402, 403, 102, 503)."""

from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.iggy.numbers import partition_of, topic_of
from tank_node.iggy.refusals import of_stored, refusal
from tank_node.iggy.topics import changed_topic
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.stored_partitions import stored_partitions
from tank_node.users.rights import IggyAction
from tank_protos.generated.iggy import (
    AddPartitionsRequest,
    DeleteSegmentsRequest,
    FlushMessagesRequest,
    RemovePartitionsRequest,
)
from tank_protos.iggy.eras import SEED
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.limits import MAX_TOPIC_PARTITIONS

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

_LEAST: Final = 1


def add_partitions(call: "IggyCall", payload: memoryview) -> None:
    """Adds partitions behind those that a topic has."""
    request = AddPartitionsRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.MANAGE_TOPIC)
    if request.count < _LEAST or len(topic.partitions) + request.count > MAX_TOPIC_PARTITIONS:
        raise refusal(IggyError.TOO_MANY_PARTITIONS)
    requests = call.session.broker.link.requests.iggy
    requests.add_partitions(topic, request.count, partial(changed_topic, call))


def remove_partitions(call: "IggyCall", payload: memoryview) -> None:
    """Removes a topic's highest partitions with their messages. Era S removes as many as there are; later
    ones are refused when they name more."""
    request = RemovePartitionsRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.MANAGE_TOPIC)
    count = request.count
    if call.era is SEED:
        count = min(count, len(topic.partitions))
        if not count:
            call.answer()
            return
    if not _LEAST <= count <= len(topic.partitions):
        raise refusal(IggyError.PARTITION_NOT_FOUND)
    call.session.broker.link.requests.iggy.shrink_topic(topic, count, partial(changed_topic, call))


def flush_messages(call: "IggyCall", payload: memoryview) -> None:
    """Brings a partition's messages to the disk of its leader; with the flag, answers when they are there."""
    request = FlushMessagesRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.SEND)
    place = topic.topic_id, partition_of(call, topic, request.partition)
    session = call.session
    stored = stored_partitions(session.broker)
    stored.flush(place, session, partial(_done, call), waits=request.fsync != 0)


def delete_segments(call: "IggyCall", payload: memoryview) -> None:
    """Drops a partition's oldest segments."""
    request = DeleteSegmentsRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.MANAGE_TOPIC)
    place = topic.topic_id, partition_of(call, topic, request.partition)
    session = call.session
    stored = stored_partitions(session.broker)
    stored.delete_segments(place, request.count, session, partial(_done, call))


def _done(call: "IggyCall", outcome: StoredOutcome) -> None:
    if outcome is StoredOutcome.DONE:
        call.answer()
    else:
        call.fail(of_stored(outcome))
