"""Streams: shown, made, renamed, deleted, and emptied (200 to 205)."""

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from tank_node.cluster.iggy.link import IggyOutcome
from tank_node.cluster.iggy.parts import StreamView
from tank_node.cluster.view import TopicView
from tank_node.iggy.numbers import iggy_view, may, stream_of
from tank_node.iggy.records import Sizes, shown_topics, stream_record, topic_record, with_sizes
from tank_node.iggy.refusals import IggyFault, of_code, refusal
from tank_node.users.rights import IggyAction
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.iggy import (
    CreateStreamRequest,
    DeleteStreamRequest,
    GetStreamRequest,
    GetStreamsResponse,
    PurgeStreamRequest,
    StreamDetails,
    UpdateStreamRequest,
)
from tank_protos.iggy.eras import A2, B1
from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.wire.names import readable

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

_SPACES: Final = re.compile(r"\s+")
MOST_NAME_BYTES: Final = 255
_MISSING: Final = frozenset(
    {
        IggyError.STREAM_ID_NOT_FOUND,
        IggyError.STREAM_NAME_NOT_FOUND,
        IggyError.TOPIC_ID_NOT_FOUND,
        IggyError.TOPIC_NAME_NOT_FOUND,
        IggyError.CONSUMER_GROUP_ID_NOT_FOUND,
        IggyError.CLIENT_NOT_FOUND,
    }
)
"""What a look-up may say of a thing that is not there."""


def get_stream(call: "IggyCall", payload: memoryview) -> None:
    """Shows a stream with its topics. One that is not there is an empty answer from era A3 on."""
    request = GetStreamRequest.decode(payload, call.era.version)
    try:
        stream = stream_of(call, request.stream, IggyAction.READ_STREAM)
    except IggyRefusal as refused:
        answer_missing(call, refused)
        return
    _show(call, stream)


def get_streams(call: "IggyCall", payload: memoryview) -> None:
    """Lists the streams that the client may see, by number."""
    streams = [
        stream for stream in iggy_view(call).streams() if may(call, IggyAction.READ_STREAM, stream.born)
    ]
    topics = {stream.number: iggy_view(call).topics(stream.number) for stream in streams}
    every = [topic for some in topics.values() for topic in some]
    with_sizes(call, every, partial(_list, call, streams, topics))


def _list(
    call: "IggyCall", streams: list[StreamView], topics: dict[int, list[TopicView]], sizes: Sizes
) -> None:
    records = [stream_record(call, stream, topics[stream.number], sizes) for stream in streams]
    call.answer(GetStreamsResponse(streams=records).encode(call.era.version))


def create_stream(call: "IggyCall", payload: memoryview) -> None:
    """Makes a stream. Clients until era B1 may choose its number."""
    request = CreateStreamRequest.decode(payload, call.era.version)
    name = iggy_name(call, request.name, IggyError.INVALID_STREAM_NAME)
    number = chosen_number(call, request.stream_id, IggyError.INVALID_STREAM_ID)
    requests = call.session.broker.link.requests.iggy
    requests.create_stream(name, partial(_created, call), number=number)


def _created(call: "IggyCall", outcome: IggyOutcome) -> None:
    if call.session.closed:
        return
    stream = iggy_view(call).stream(outcome.number)
    if outcome.error:
        call.fail(stream_fault(outcome.error))
    elif not call.era.creates_answer:
        call.answer()
    elif stream is None:  # deleted since
        call.fail(IggyError.STREAM_ID_NOT_FOUND)
    else:
        _show(call, stream)


def update_stream(call: "IggyCall", payload: memoryview) -> None:
    """Gives a stream another name. Its topics keep the names that other protocols' clients see."""
    request = UpdateStreamRequest.decode(payload, call.era.version)
    stream = stream_of(call, request.stream, IggyAction.MANAGE_STREAM)
    name = iggy_name(call, request.name, IggyError.INVALID_STREAM_NAME)
    call.session.broker.link.requests.iggy.rename_stream(stream, name, partial(changed_stream, call))


def delete_stream(call: "IggyCall", payload: memoryview) -> None:
    """Deletes a stream with its topics."""
    request = DeleteStreamRequest.decode(payload, call.era.version)
    stream = stream_of(call, request.stream, IggyAction.MANAGE_STREAM)
    call.session.broker.link.requests.iggy.delete_stream(stream, partial(changed_stream, call))


def purge_stream(call: "IggyCall", payload: memoryview) -> None:
    """Deletes all messages of a stream's topics; their offsets begin at 0 again."""
    request = PurgeStreamRequest.decode(payload, call.era.version)
    stream = stream_of(call, request.stream, IggyAction.MANAGE_STREAM)
    call.session.broker.link.requests.iggy.purge_stream(stream, partial(changed_stream, call))


def changed_stream(call: "IggyCall", outcome: IggyOutcome) -> None:
    """Answers a change of a stream."""
    if call.session.closed:
        return
    if outcome.error:
        call.fail(stream_fault(outcome.error))
    else:
        call.answer()


def stream_fault(error: ErrorCode) -> IggyFault:
    """What the controllers' refusal of a change of a stream is for Iggy's clients."""
    if error is ErrorCode.NUMBER_TAKEN:
        return IggyError.STREAM_ID_ALREADY_EXISTS
    if error is ErrorCode.INVALID_NAME:
        return IggyError.INVALID_STREAM_NAME
    return of_code(error)


def iggy_name(call: "IggyCall", name: str, error: IggyError) -> str:
    """A name for a stream or a topic. Servers of era S lowered it, and put a dot for white space. Raises
    IggyRefusal with `error` for one that is too short or too long, or not UTF-8."""
    if not call.era.has_login:
        name = _SPACES.sub(".", name.strip()).lower()
    if readable(name) != name or not 0 < len(name.encode()) <= MOST_NAME_BYTES:
        raise refusal(error)
    return name


def chosen_number(call: "IggyCall", wire: int, error: IggyError) -> int | None:
    """The number that a client chose for what it makes; None: it leaves that to us, which clients of eras S
    and A1 can't: for them 0 raises IggyRefusal with `error`."""
    era = call.era
    if era.version > B1.version:
        return None
    if wire:
        return wire - era.base
    if era.version < A2.version:
        raise refusal(error)
    return None


def answer_missing(call: "IggyCall", refused: IggyRefusal) -> None:
    """Answers a look-up of what is not there. Raises what is no such refusal, or is an error in the client's
    era."""
    if refused.error not in _MISSING or call.era.missing_is_error:
        raise refused
    call.answer()


def _show(call: "IggyCall", stream: StreamView) -> None:
    topics = shown_topics(call, stream)
    with_sizes(call, topics, partial(_show_with, call, stream, topics), of_one=True)


def _show_with(call: "IggyCall", stream: StreamView, topics: list[TopicView], sizes: Sizes) -> None:
    details = StreamDetails(
        stream=stream_record(call, stream, topics, sizes),
        topics=[topic_record(call, topic, sizes) for topic in topics],
    )
    call.answer(details.encode(call.era.version))
