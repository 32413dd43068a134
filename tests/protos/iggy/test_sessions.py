"""Whole sessions of each era, as clients write them: every frame is read, and written back as it was."""

from typing import Protocol, Self

import pytest

from tank_protos.generated.iggy import (
    ClientDetails,
    GroupDetails,
    PollMessagesRequest,
    StreamDetails,
    TopicDetails,
    UserDetails,
)
from tank_protos.generated.iggy.by_id import REQUESTS, RESPONSES
from tank_protos.iggy import classic, send, sent_messages, tolerant, vsr
from tank_protos.iggy.commands import IggyCode, is_framed
from tank_protos.iggy.era_detector import EraDetector, NeedMore
from tank_protos.iggy.eras import ERA_NAMES, Era, Framing
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.kinds import PollingKind
from tank_protos.iggy.polled_messages import PollAnswer, PollSource
from tank_protos.kafka import record_batch
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import WireError
from tests.support.iggy.script import CLIENT, ERAS, Exchange, Frame, is_rejected, load


class Shown(Protocol):
    """A message in an answer, which may have no number of its own."""

    @classmethod
    def decode(cls, payload: Buffer, version: int = 0) -> Self: ...

    def encode(self, version: int = 0) -> list[Buffer]: ...


DETAILS: dict[int, type[Shown]] = {
    IggyCode.GET_ME: ClientDetails,
    IggyCode.GET_CLIENT: ClientDetails,
    IggyCode.GET_USER: UserDetails,
    IggyCode.CREATE_USER: UserDetails,
    IggyCode.GET_STREAM: StreamDetails,
    IggyCode.CREATE_STREAM: StreamDetails,
    IggyCode.GET_TOPIC: TopicDetails,
    IggyCode.CREATE_TOPIC: TopicDetails,
    IggyCode.GET_CONSUMER_GROUP: GroupDetails,
    IggyCode.CREATE_CONSUMER_GROUP: GroupDetails,
}
"""What answers show of one thing; other answers have messages of their own."""

EXCHANGES = [(era, exchange) for era in ERAS for exchange in load(era)]
every = pytest.mark.parametrize(
    ("era", "exchange"), EXCHANGES, ids=[f"{era} {exchange.request.place}" for era, exchange in EXCHANGES]
)


def shown(message: object, path: str) -> str:
    """A value of a message, as a script writes it."""
    for part in path.split("."):
        message = message[int(part)] if isinstance(message, list) else getattr(message, part)
    return str(message).replace(" ", "")


def check(message: Shown, frame: Frame, era: Era) -> None:
    for path, value in frame.shows.items():
        assert shown(message, path) == value, path
    assert b"".join(message.encode(era.version)) == bytes(frame.payload)


def payload_of(exchange: Exchange, era: Era) -> bytes | None:
    """The payload of an answer; None: it is an error, or empty."""
    answer = exchange.answer
    if answer.code or not answer.payload:
        return None
    if era.framing is Framing.VSR and is_framed(exchange.request.operation):
        if is_rejected(answer):
            return None
        return answer.payload[4:] or None
    return answer.payload


@every
def test_a_request_is_read_and_written_back(era: str, exchange: Exchange) -> None:
    named, frame = ERA_NAMES[era], exchange.request
    if frame.code != IggyCode.SEND_MESSAGES:
        check(REQUESTS[frame.code].decode(frame.payload, named.version), frame, named)
        return
    sent = send.read(frame.payload, named)
    head = send.request(sent.stream, sent.topic, sent.partitioning, sent.messages_count or 0, named)
    assert head + bytes(sent.messages) == frame.payload
    batch = memoryview(sent_messages.record_batch(sent, named, 1))
    assert record_batch.check(batch).records_count == (sent.messages_count or (2 if era == "S" else 1))


@every
def test_an_answer_is_read_and_written_back(era: str, exchange: Exchange) -> None:
    named, code, answer = ERA_NAMES[era], exchange.request.code, exchange.answer
    payload = payload_of(exchange, named)
    if answer.code:
        assert answer.code in set(IggyError)
    if payload is None or code == IggyCode.POLL_MESSAGES:
        return
    message = DETAILS.get(code) or RESPONSES.get(code)
    assert message is not None
    found = message.decode(payload, named.version)
    whole = b"".join(found.encode(named.version))
    assert answer.payload.endswith(whole)
    for path, value in answer.shows.items():
        assert shown(found, path) == value, path


@pytest.mark.parametrize("era", ERAS)
def test_the_first_requests_of_a_session_say_its_era(era: str) -> None:
    detector = EraDetector()
    is_vsr = ERA_NAMES[era].framing is Framing.VSR
    found: Era | NeedMore = NeedMore.HEAD
    for exchange in load(era):
        asked = exchange.request
        frame = asked.vsr_request() if is_vsr else asked.classic_request()
        found = detector.feed(frame[:4], frame)
        if found is not NeedMore.LOGIN and asked.code == IggyCode.CREATE_TOPIC:
            found = detector.narrow(asked.payload)
    assert found is ERA_NAMES[era]


@every
def test_a_frame_is_cut_out_of_a_stream(era: str, exchange: Exchange) -> None:
    asked = exchange.request
    if ERA_NAMES[era].framing is Framing.VSR:
        frame = asked.vsr_request()
        assert vsr.frame_bytes(frame + b"next") == len(frame)
        request = vsr.read_request(frame)
        if asked.code != IggyCode.LOGIN_SESSION_WITH_TOKEN:
            assert request.code == asked.code
        assert (request.number, request.session, request.client) == (asked.number, asked.session, CLIENT)
        assert (
            vsr.request(
                CLIENT,
                asked.operation,
                asked.payload,
                code=asked.code if asked.operation == 2 else 0,
                number=asked.number,
                session=asked.session,
            )
            == frame
        )
    else:
        frame = asked.classic_request()
        assert classic.request_bytes(frame + b"next") == len(frame)
        assert classic.read_request(frame) == classic.ClassicRequest(asked.code, memoryview(asked.payload))
        assert classic.request(asked.code, [asked.payload]) == frame


@every
def test_a_request_cut_anywhere_is_another_one_or_refused(era: str, exchange: Exchange) -> None:
    named, frame = ERA_NAMES[era], exchange.request
    if frame.code == IggyCode.SEND_MESSAGES:
        return
    codec = REQUESTS[frame.code]
    for end in range(len(frame.payload)):
        cut = frame.payload[:end]
        try:
            found = codec.decode(cut, named.version)
        except WireError:
            continue
        # Only options reach to the end.
        assert hasattr(found, "options")
        assert b"".join(found.encode(named.version)) == cut


@every
def test_a_surplus_byte_is_refused_but_for_the_seed(era: str, exchange: Exchange) -> None:
    named, frame = ERA_NAMES[era], exchange.request
    if frame.code == IggyCode.SEND_MESSAGES or (
        named.framing is Framing.VSR and frame.code in range(200, 400) and frame.code % 100 in (2, 4)
    ):
        return
    codec = REQUESTS[frame.code]
    with pytest.raises(WireError):
        codec.decode(frame.payload + b"\0", named.version)
    if era == "S":
        assert b"".join(
            tolerant.read_request(codec, frame.payload + b"\0", named).encode(named.version)
        ) == bytes(frame.payload)


POLLS = [
    (era, exchange)
    for era, exchange in EXCHANGES
    if exchange.request.code == IggyCode.POLL_MESSAGES and not exchange.answer.code
]


@pytest.mark.parametrize(("era", "exchange"), POLLS)
def test_a_poll_is_answered_as_the_script_says(era: str, exchange: Exchange) -> None:
    """From what the script's own sends stored, with ids that were derived."""
    named, asked = (
        ERA_NAMES[era],
        PollMessagesRequest.decode(exchange.request.payload, ERA_NAMES[era].version),
    )
    sources, first = [], 1
    for other in load(era):
        if other.request.code == IggyCode.SEND_MESSAGES and not other.answer.code:
            batch = bytearray(sent_messages.record_batch(send.read(other.request.payload, named), named, 5))
            record_batch.patch(memoryview(batch), first - 1, 0)
            sources.append(PollSource(bytes(batch), 5, first))
            first += record_batch.read_header(batch).records_count
    wanted = int.from_bytes(exchange.answer.payload[12:16], "little")
    lowest = {PollingKind.LAST: first - 1 - asked.count}.get(PollingKind(asked.strategy), asked.value)
    answer = PollAnswer(named, 77, asked.partition - named.base, first - 2)
    for source in sources if wanted else []:
        answer.add(source, lowest, asked.count - answer.messages)
    assert answer.messages == wanted
    assert exchange.answer.matches(b"".join(answer.payload()))
