"""The offsets of consumers and groups: shown, stored, deleted (120 to 122). The wire's offset is that of the
last message that was consumed."""

from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.cluster.view import TopicView
from tank_node.iggy.consumers import NamedConsumer, consumer_of, wanted_partition
from tank_node.iggy.coordinator_wait import ask_for_error, ask_patiently
from tank_node.iggy.numbers import partition_of, topic_of
from tank_node.iggy.refusals import of_code, of_stored, refusal
from tank_node.iggy.streams import answer_missing
from tank_node.peers.iggy.iggy_memberships import memberships_of
from tank_node.peers.iggy.iggy_offsets import offsets_of
from tank_node.peers.iggy.position_cache import IggyPlace
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Fetched, StoredWanted
from tank_node.stored.stored_partitions import stored_partitions
from tank_node.stored.strategy import StoredStrategy
from tank_node.users.rights import IggyAction
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.iggy import (
    DeleteConsumerOffsetRequest,
    GetConsumerOffsetRequest,
    GetConsumerOffsetResponse,
    StoreConsumerOffsetRequest,
)
from tank_protos.iggy.eras import A3, SEED
from tank_protos.iggy.errors import IggyError, IggyRefusal

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

_BEHIND_ALL: Final = 2**62
"""A number behind every message: what is read there is the partition's end."""


def get_consumer_offset(call: "IggyCall", payload: memoryview) -> None:
    """Shows what a consumer has stored, and where the partition ends. Without a stored offset the answer is
    empty, before era A3 zeros."""
    request = GetConsumerOffsetRequest.decode(payload, call.era.version)
    try:
        _, topic = topic_of(call, request.stream, request.topic, IggyAction.POLL)
        consumer = consumer_of(call, request.consumer, topic)
    except IggyRefusal as refused:
        answer_missing(call, refused)
        return
    wanted = wanted_partition(call, request.has_partition, request.partition)
    place = _place(call, topic, consumer, wanted)
    get = offsets_of(call.session.broker).get
    ask_patiently(call, partial(get, place, call.session), partial(_got, call, place))


def _got(call: "IggyCall", place: IggyPlace, error: ErrorCode, offset: int | None) -> None:
    session = call.session
    if session.closed:
        return
    if error and error is not ErrorCode.UNKNOWN_GROUP:
        call.fail(of_code(error))
        return
    if offset is None and call.era.version >= A3.version:
        call.answer()
        return
    wanted = StoredWanted(StoredStrategy.NUMBER, _BEHIND_ALL, 1, 1, 0)
    stored_partitions(session.broker).fetch(
        (place.topic_id, place.partition), wanted, session, partial(_show, call, place, offset or 0)
    )


def _show(call: "IggyCall", place: IggyPlace, offset: int, end: Fetched) -> None:
    if end.outcome is not StoredOutcome.DONE:
        call.fail(of_stored(end.outcome))
        return
    current = max(end.mark - 1, 0)
    response = GetConsumerOffsetResponse(place.partition + call.era.base, current, offset)
    call.answer(response.encode(call.era.version))


def store_consumer_offset(call: "IggyCall", payload: memoryview) -> None:
    """Stores how far a consumer has come, and answers when the coordinator's replicas have it."""
    request = StoreConsumerOffsetRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.POLL)
    consumer = consumer_of(call, request.consumer, topic)
    wanted = wanted_partition(call, request.has_partition, request.partition)
    place = _place(call, topic, consumer, wanted)
    done = partial(_stored, call, consumer, place.partition, request.offset)
    store = offsets_of(call.session.broker).store
    ask_for_error(call, partial(store, place, request.offset, call.session), done)


def _stored(call: "IggyCall", consumer: NamedConsumer, partition: int, offset: int, error: ErrorCode) -> None:
    session = call.session
    if session.closed:
        return
    if error:
        call.fail(of_code(error))
        return
    if consumer.group is not None:
        memberships_of(session.broker).stored(consumer.group.born, session.serial, partition, offset)
    call.answer()


def delete_consumer_offset(call: "IggyCall", payload: memoryview) -> None:
    """Forgets a consumer's offset."""
    request = DeleteConsumerOffsetRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.POLL)
    consumer = consumer_of(call, request.consumer, topic)
    wanted = wanted_partition(call, request.has_partition, request.partition)
    place = _place(call, topic, consumer, wanted)
    delete = offsets_of(call.session.broker).delete
    ask_for_error(call, partial(delete, place, call.session), partial(_deleted, call))


def _deleted(call: "IggyCall", error: ErrorCode) -> None:
    if call.session.closed:
        return
    if error:
        call.fail(of_code(error))
    else:
        call.answer()


def _place(call: "IggyCall", topic: TopicView, consumer: NamedConsumer, wanted: int | None) -> IggyPlace:
    """Where the offset is kept. A group's member that names no partition means the one it polled last; era S
    does so even when it names one."""
    session, group = call.session, consumer.group
    number: int | None = None
    if group is not None and (wanted is None or call.era is SEED):
        number = memberships_of(session.broker).last_polled(group.born, session.serial)
    if number is None:
        if wanted is None and call.era is SEED:
            raise refusal(IggyError.PARTITION_NOT_FOUND)
        number = partition_of(call, topic, call.era.base if wanted is None else wanted)
    return IggyPlace(consumer.key, topic.topic_id, number)
