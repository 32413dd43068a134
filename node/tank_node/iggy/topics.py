"""Topics: shown, made, changed, deleted, and emptied (300 to 305)."""

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.cluster.iggy.link import IggyOutcome, IggyTopicChange, NewIggyTopic
from tank_node.cluster.iggy.parts import IggyOptionView, StreamView
from tank_node.cluster.view import TopicView
from tank_node.iggy.numbers import iggy_part, iggy_view, stream_of, topic_of
from tank_node.iggy.records import (
    NEVER,
    SECOND_US,
    Sizes,
    partition_records,
    shown_topics,
    topic_record,
    with_sizes,
)
from tank_node.iggy.refusals import IggyFault, of_code, refusal
from tank_node.iggy.streams import answer_missing, chosen_number, iggy_name
from tank_node.iggy.system import TOPIC_OPTION_NAMES
from tank_node.users.rights import IggyAction
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.iggy import (
    CreateTopicRequest,
    DeleteTopicRequest,
    GetTopicRequest,
    GetTopicsRequest,
    GetTopicsResponse,
    PurgeTopicRequest,
    TopicDetails,
    UpdateTopicRequest,
)
from tank_protos.iggy import header_map, identifiers, options, tolerant
from tank_protos.iggy.eras import A2, A3, V11, Era
from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.iggy.limits import MAX_TOPIC_PARTITIONS
from tank_protos.iggy.options import OptionValue
from tank_protos.wire.buffer import Buffer

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

_EXPIRY: Final = "message_expiry"
_SIZE: Final = "max_topic_size"
_COMPRESSION: Final = "compression_algorithm"
_COMPRESSIONS: Final = {"none": 1, "gzip": 2}
_UNITS_US: Final = {
    "us": 1,
    "ms": 1000,
    "s": SECOND_US,
    "sec": SECOND_US,
    "m": 60 * SECOND_US,
    "min": 60 * SECOND_US,
    "h": 3600 * SECOND_US,
    "hour": 3600 * SECOND_US,
    "hours": 3600 * SECOND_US,
    "d": 86_400 * SECOND_US,
    "day": 86_400 * SECOND_US,
    "days": 86_400 * SECOND_US,
}
_BYTES: Final = {"b": 1, "kb": 1000, "mb": 10**6, "gb": 10**9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


@dataclass(slots=True)
class _Given:
    """What a request says of a topic beside its name and partitions; None: nothing."""

    expiry_us: int | None = None
    max_bytes: int | None = None
    compression: int | None = None
    replication_factor: int = 0
    options: tuple[IggyOptionView, ...] = field(default=())


def get_topic(call: "IggyCall", payload: memoryview) -> None:
    """Shows a topic with its partitions. One that is not there is an empty answer from era A3 on."""
    request, may_lack_a_byte = tolerant.read_get_topic(payload, call.era)
    try:
        _, topic = topic_of(call, request.stream, request.topic, IggyAction.READ_TOPIC)
    except IggyRefusal as refused:
        longer = _longer_name(call, request, refused) if may_lack_a_byte else None
        if longer is None:
            answer_missing(call, refused)
            return
        topic = longer
    _show(call, topic)


def _longer_name(call: "IggyCall", request: GetTopicRequest, refused: IggyRefusal) -> TopicView | None:
    """The one topic whose name is a byte longer than that of a request: a client of era S cuts the last byte
    off."""
    if refused.error is not IggyError.TOPIC_NAME_NOT_FOUND:
        return None
    name = identifiers.named(request.topic, call.era)
    assert isinstance(name, str)
    stream = stream_of(call, request.stream, IggyAction.READ_STREAM)
    found = [topic for topic in iggy_view(call).topics(stream.number) if iggy_part(topic).name[:-1] == name]
    return found[0] if len(found) == 1 else None


def get_topics(call: "IggyCall", payload: memoryview) -> None:
    """Lists the topics of a stream that the client may see, by number."""
    request = GetTopicsRequest.decode(payload, call.era.version)
    stream = stream_of(call, request.stream, IggyAction.READ_TOPIC)
    topics = shown_topics(call, stream)
    with_sizes(call, topics, partial(_list, call, topics))


def _list(call: "IggyCall", topics: list[TopicView], sizes: Sizes) -> None:
    records = [topic_record(call, topic, sizes) for topic in topics]
    call.answer(GetTopicsResponse(count=len(records), topics=records).encode(call.era.version))


def create_topic(call: "IggyCall", payload: memoryview) -> None:
    """Makes a topic, which is stored as its options say, else the broker's setting, else as record
    batches."""
    session = call.session
    if session.era is A2:
        call.era = session.narrow(payload)
    era = call.era
    request = tolerant.read_create_topic(payload, era)
    stream = stream_of(call, request.stream, IggyAction.CREATE_TOPIC)
    if request.partitions_count > MAX_TOPIC_PARTITIONS:
        raise refusal(IggyError.TOO_MANY_PARTITIONS)
    given = _given(request, era)
    topic = NewIggyTopic(
        stream,
        iggy_name(call, request.name, IggyError.INVALID_TOPIC_NAME),
        request.partitions_count,
        number=chosen_number(call, request.topic_id, IggyError.INVALID_TOPIC_ID),
        replication_factor=given.replication_factor,
        expiry_us=given.expiry_us or 0,
        max_bytes=given.max_bytes or 0,
        compression=given.compression or 1,
        options=given.options,
        per_partition=era is V11,
        log_format=session.settings.log_format,
    )
    session.broker.link.requests.iggy.create_topic(topic, partial(_created, call, stream))


def _created(call: "IggyCall", stream: StreamView, outcome: IggyOutcome) -> None:
    if call.session.closed:
        return
    topic = call.session.broker.link.view.topic_by_id(outcome.topic_id)
    if outcome.error:
        call.fail(_fault(outcome.error))
    elif not call.era.creates_answer:
        call.answer()
    elif topic is None or topic.iggy is None:  # deleted since
        call.fail(IggyError.TOPIC_ID_NOT_FOUND)
    else:
        _show(call, topic)


def update_topic(call: "IggyCall", payload: memoryview) -> None:
    """Gives a topic another name, and other values. Its partitions stay, and so does the name that other
    protocols' clients see."""
    request = UpdateTopicRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.MANAGE_TOPIC)
    given = _given(request, call.era)
    change = IggyTopicChange(
        name=iggy_name(call, request.name, IggyError.INVALID_TOPIC_NAME),
        expiry_us=given.expiry_us,
        max_bytes=given.max_bytes,
        compression=given.compression,
        options=given.options if call.era is V11 else None,
        per_partition=call.era is V11,
    )
    requests = call.session.broker.link.requests.iggy
    requests.alter_topic(topic, change, partial(changed_topic, call))


def delete_topic(call: "IggyCall", payload: memoryview) -> None:
    """Deletes a topic with its messages, groups and offsets."""
    request = DeleteTopicRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.MANAGE_TOPIC)
    call.session.broker.link.requests.iggy.delete_topic(topic, partial(changed_topic, call))


def purge_topic(call: "IggyCall", payload: memoryview) -> None:
    """Deletes all messages of a topic; its offsets begin at 0 again."""
    request = PurgeTopicRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.MANAGE_TOPIC)
    call.session.broker.link.requests.iggy.purge_topic(topic, partial(changed_topic, call))


def changed_topic(call: "IggyCall", outcome: IggyOutcome) -> None:
    """Answers a change of a topic."""
    if call.session.closed:
        return
    if outcome.error:
        call.fail(_fault(outcome.error))
    else:
        call.answer()


def _fault(error: ErrorCode) -> IggyFault:
    if error is ErrorCode.NUMBER_TAKEN:
        return IggyError.TOPIC_ID_ALREADY_EXISTS
    if error is ErrorCode.INVALID_NAME:
        return IggyError.INVALID_TOPIC_NAME
    if error is ErrorCode.INVALID_PARTITIONS:
        return IggyError.INVALID_PARTITIONS_COUNT
    if error is ErrorCode.INVALID_SETTING:
        return IggyError.INVALID_OPTION
    return of_code(error)


def _given(request: CreateTopicRequest | UpdateTopicRequest, era: Era) -> _Given:
    """The values of a request, as era V11 and the others send them. Raises IggyRefusal."""
    if era is V11:
        return _by_options(request.options)
    found = _Given()
    if era.version < A3.version:
        found.expiry_us = request.expiry_secs * SECOND_US if request.expiry_secs else NEVER
    else:
        found.expiry_us = request.expiry_us
    if era.version >= A2.version:
        found.max_bytes = request.max_bytes
        found.compression = request.compression
        found.replication_factor = request.replication_factor
    return found


def _by_options(data: Buffer) -> _Given:
    given = options.read(data)
    if not given.keys() <= TOPIC_OPTION_NAMES:
        raise refusal(IggyError.UNKNOWN_OPTION)
    found = _Given(
        options=tuple(
            IggyOptionView(header.key.decode(), header.value_kind, header.value)
            for header in header_map.read(data, True)
        )
    )
    if _EXPIRY in given:
        found.expiry_us = _quantity(given[_EXPIRY], _UNITS_US, "never_expire")
    if _SIZE in given:
        found.max_bytes = _quantity(given[_SIZE], _BYTES, "unlimited")
    if _COMPRESSION in given:
        found.compression = _COMPRESSIONS.get(str(given[_COMPRESSION]).lower())
        if found.compression is None:
            raise refusal(IggyError.INVALID_OPTION)
    return found


def _quantity(value: OptionValue, units: dict[str, int], endless: str) -> int:
    """A number of microseconds or bytes: as it is, or as text such as `10 s` or `server_default`. Raises
    IggyRefusal."""
    if isinstance(value, int):
        return min(max(value, 0), NEVER)
    text = value.strip().lower()
    if text in ("server_default", "default"):
        return 0
    if text in (endless, "unlimited", "none", "never"):
        return NEVER
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip()
    try:
        return min(int(number) * (units[unit] if unit else 1), NEVER)
    except (ValueError, KeyError):
        raise refusal(IggyError.INVALID_OPTION) from None


def _show(call: "IggyCall", topic: TopicView) -> None:
    with_sizes(call, [topic], partial(_show_with, call, topic), of_one=True)


def _show_with(call: "IggyCall", topic: TopicView, sizes: Sizes) -> None:
    details = TopicDetails(
        topic=topic_record(call, topic, sizes), partitions=partition_records(call, topic, sizes)
    )
    call.answer(details.encode(call.era.version))
