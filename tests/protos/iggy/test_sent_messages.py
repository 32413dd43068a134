"""Sends of all eras: what becomes of their messages, and what is refused with which code."""

import struct
from dataclasses import replace

import pytest

from tank_protos import bundle
from tank_protos.generated.iggy import Identifier, SendMessagesResponse
from tank_protos.iggy import send, sent_messages
from tank_protos.iggy.eras import ERA_NAMES
from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.iggy.kinds import PartitioningKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.iggy.send import SendRequest
from tank_protos.kafka import record_batch
from tank_protos.kafka.records import RecordColumns
from tank_protos.wire.errors import OutOfRange, Truncated, WireError
from tests.support.iggy.client_messages import ClientMessage, sent
from tests.support.iggy.stored import NOW_MS, request

ERAS = list(ERA_NAMES)
OLD = ["S", "A1", "A2", "A3"]
HEADED = ["B1", "B2", "B3"]
NEW = [*HEADED, "V11"]
TEXT = (b"name", 2, b"value", 2)
RAW = (b"name", 2, b"value", 1)
PLAIN = ClientMessage(b"hello", origin_us=5_000_000)


def columns(batch: bytes | bytearray) -> RecordColumns:
    """The records of a batch that is sound."""
    header = record_batch.check(memoryview(batch), max_bytes=1 << 27)
    return record_batch.columns_of(batch, header, 1 << 27)


def made(messages: list[ClientMessage], era: str) -> RecordColumns:
    return columns(sent_messages.record_batch(request(messages, era), ERA_NAMES[era], NOW_MS))


def refusal(messages: list[ClientMessage], era: str) -> tuple[IggyError, int | None]:
    with pytest.raises(IggyRefusal) as refused:
        sent_messages.record_batch(request(messages, era), ERA_NAMES[era], NOW_MS)
    return refused.value.error, refused.value.index


@pytest.mark.parametrize("era", ERAS)
def test_a_plain_message_is_a_record_without_headers(era: str) -> None:
    found = made([PLAIN, replace(PLAIN, payload=b"x" * 70_000)], era)
    assert found.values == [b"hello", b"x" * 70_000]
    assert found.keys == [None, None]
    assert found.headers == {}
    assert found.offset_deltas == [0, 1]


@pytest.mark.parametrize("era", ERAS)
def test_headers_that_records_can_say_need_none_of_ours(era: str) -> None:
    found = made([PLAIN, replace(PLAIN, headers=(RAW, (b"b", 2, b"\0", 1)))], era)
    assert found.headers == {1: ((b"name", b"value"), (b"b", b"\0"))}


@pytest.mark.parametrize("era", ERAS)
def test_what_records_cannot_say_is_in_the_reserved_header(era: str) -> None:
    message = ClientMessage(b"a", id=258, headers=(TEXT, (b"n", 2, b"\7", 9)))
    found = made([message], era)
    kinds = bytes.fromhex("22 29")
    ours = b"\1" + (258).to_bytes(16, "little") + bytes(2) + kinds
    assert found.headers == {0: ((b"iggy", ours), (b"name", b"value"), (b"n", b"\7"))}


@pytest.mark.parametrize("era", ["B3", "V11"])
def test_a_keys_kind_is_kept(era: str) -> None:
    found = made([ClientMessage(b"a", headers=((b"\1\0", 10, b"v", 1),))], era)
    assert found.headers[0][0] == (b"iggy", b"\1" + bytes(18) + b"\xa1")


@pytest.mark.parametrize("era", NEW)
def test_microseconds_are_kept_beside_milliseconds(era: str) -> None:
    found = made([PLAIN, replace(PLAIN, origin_us=5_004_321)], era)
    assert found.timestamp_deltas == [0, 4]
    assert found.headers == {1: ((b"iggy", b"\1" + bytes(16) + struct.pack("<H", 321)),)}


@pytest.mark.parametrize("era", NEW)
def test_times_may_go_back(era: str) -> None:
    batch = sent_messages.record_batch(
        request([PLAIN, replace(PLAIN, origin_us=0), replace(PLAIN, origin_us=9_000_000)], era),
        ERA_NAMES[era],
        NOW_MS,
    )
    header = record_batch.read_header(batch)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (5000, 9000)
    assert columns(batch).timestamp_deltas == [0, -5000, 4000]


@pytest.mark.parametrize("era", OLD)
def test_messages_without_a_time_have_that_of_the_broker(era: str) -> None:
    batch = sent_messages.record_batch(request([PLAIN, PLAIN], era), ERA_NAMES[era], NOW_MS)
    assert record_batch.read_header(batch).max_timestamp_ms == NOW_MS
    assert columns(batch).timestamp_deltas == [0, 0]


@pytest.mark.parametrize("era", ERAS)
def test_a_users_own_header_of_the_reserved_name_stands_behind_ours(era: str) -> None:
    found = made([replace(PLAIN, headers=((b"iggy", 2, b"mine", 1),))], era)
    assert found.headers == {0: ((b"iggy", b"\1" + bytes(18) + b"\x21"), (b"iggy", b"mine"))}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("place", [0, 2])
def test_a_message_that_is_not_possible_is_refused_with_its_place(era: str, place: int) -> None:
    def at(message: ClientMessage) -> list[ClientMessage]:
        return [PLAIN] * place + [message] + [PLAIN]

    long = (b"k", 2, bytes(250), 1)
    assert refusal(at(ClientMessage(b"")), era) == (IggyError.EMPTY_MESSAGE_PAYLOAD, place)
    assert refusal(at(ClientMessage(b"a", headers=(long,) * 400)), era) == (IggyError.TOO_BIG_HEADERS, place)
    for wrong, error in (
        ((b"", 2, b"v", 1), IggyError.INVALID_HEADER_KEY),
        ((b"k" * 256, 2, b"v", 1), IggyError.INVALID_HEADER_KEY),
        ((b"k", 2, b"", 1), IggyError.INVALID_HEADER_VALUE),
        ((b"k", 2, b"v" * 256, 1), IggyError.INVALID_HEADER_VALUE),
        ((b"k", 2, b"v", 16), IggyError.INVALID_HEADER_KIND),
    ):
        assert refusal(at(ClientMessage(b"a", headers=(RAW, wrong))), era) == (error, place)


@pytest.mark.parametrize("era", ERAS)
def test_a_payload_that_says_it_is_too_big_is_refused_before_it_is_read(era: str) -> None:
    asked = request([PLAIN], era)
    area = bytearray(asked.messages)
    at = {"V11": 256 + 36, "B3": 16 + 52, "B2": 16 + 52, "B1": 16 + 52}.get(era, 20)
    struct.pack_into("<I", area, at, 64_000_001)
    with pytest.raises(IggyRefusal) as refused:
        sent_messages.record_batch(asked._replace(messages=memoryview(area)), ERA_NAMES[era], 0)
    assert refused.value.error is IggyError.TOO_BIG_MESSAGE_PAYLOAD


@pytest.mark.parametrize("era", ERAS)
def test_messages_that_are_cut_are_refused(era: str) -> None:
    asked = request([PLAIN, replace(PLAIN, headers=(TEXT,))], era)
    whole = set()
    for end in range(len(asked.messages)):
        try:
            sent_messages.record_batch(asked._replace(messages=asked.messages[:end]), ERA_NAMES[era], 0)
            whole.add(end)
        except WireError:
            continue
    # In the first eras a send may end behind any message.
    assert whole == ({len(sent([PLAIN], era))} if era in OLD else set())


@pytest.mark.parametrize("era", ERAS)
def test_bytes_behind_the_messages_are_refused(era: str) -> None:
    asked = request([PLAIN], era)
    longer = memoryview(bytes(asked.messages) + b"\1")
    with pytest.raises(WireError):
        sent_messages.record_batch(asked._replace(messages=longer), ERA_NAMES[era], 0)


@pytest.mark.parametrize("era", ERAS)
def test_every_byte_that_lies_is_taken_or_refused(era: str) -> None:
    asked = request([ClientMessage(b"a", id=7, headers=(TEXT,)), PLAIN], era)
    taken = refused = 0
    for at in range(len(asked.messages)):
        for value in (0, 1, 127, 255):
            area = bytearray(asked.messages)
            area[at] = value
            try:
                made_of = sent_messages.record_batch(
                    asked._replace(messages=memoryview(area)), ERA_NAMES[era], NOW_MS
                )
            except WireError:
                refused += 1
                continue
            columns(made_of)
            taken += 1
    assert taken
    assert refused


@pytest.mark.parametrize("era", HEADED)
def test_an_index_must_say_where_its_message_ends(era: str) -> None:
    asked = request([PLAIN, PLAIN], era)
    area = bytearray(asked.messages)
    struct.pack_into("<I", area, 4, 1)
    with pytest.raises(IggyRefusal) as refused:
        sent_messages.record_batch(asked._replace(messages=memoryview(area)), ERA_NAMES[era], 0)
    assert (refused.value.error, refused.value.index) == (IggyError.INVALID_MESSAGES_BYTES, 0)
    with pytest.raises(IggyRefusal) as refused:
        sent_messages.record_batch(asked._replace(messages_count=1000), ERA_NAMES[era], 0)
    assert refused.value.error is IggyError.MISSING_INDEX


@pytest.mark.parametrize(
    ("at", "form", "value", "error"),
    [
        (32, "<Q", 255, IggyError.INVALID_MESSAGES_BYTES),
        (32, "<Q", 2**64 - 1, IggyError.INVALID_MESSAGES_BYTES),
        (48, "<I", 1, IggyError.INVALID_MESSAGES_COUNT),
        (40, "<Q", 1, IggyError.INVALID_BATCH_CHECKSUM),
        (256, "<Q", 1, IggyError.INVALID_BATCH_CHECKSUM),
        (256 + 40, "<Q", 1, IggyError.INVALID_RESERVED_FIELD),
    ],
)
def test_a_batch_that_contradicts_itself_is_refused(at: int, form: str, value: int, error: IggyError) -> None:
    asked = request([PLAIN, PLAIN], "V11")
    area = bytearray(asked.messages)
    struct.pack_into(form, area, at, value)
    with pytest.raises(IggyRefusal) as refused:
        sent_messages.record_batch(asked._replace(messages=memoryview(area)), ERA_NAMES["V11"], 0)
    assert refused.value.error is error


def test_a_batch_without_a_checksum_is_taken() -> None:
    asked = request([PLAIN], "V11")
    area = sent([PLAIN], "V11", is_sealed=False)
    assert area[40:48] == bytes(8)
    assert sent_messages.record_batch(asked._replace(messages=memoryview(area)), ERA_NAMES["V11"], 0)


@pytest.mark.parametrize("era", ERAS)
def test_a_send_of_nothing_is_refused(era: str) -> None:
    named = ERA_NAMES[era]
    chosen = Partitioning()
    with pytest.raises(IggyRefusal) as refused:
        asked = send.read(send.request(Identifier(2, b"s"), Identifier(2, b"t"), chosen, 0, named), named)
        sent_messages.record_batch(asked, named, 0)
    assert refused.value.error is IggyError.INVALID_MESSAGES_COUNT


@pytest.mark.parametrize("era", NEW)
def test_more_than_a_million_messages_are_refused_by_their_count(era: str) -> None:
    named = ERA_NAMES[era]
    payload = send.request(Identifier(2, b"s"), Identifier(2, b"t"), Partitioning(), 1_000_001, named)
    with pytest.raises(IggyRefusal) as refused:
        send.read(payload, named)
    assert refused.value.error is IggyError.TOO_MANY_MESSAGES


@pytest.mark.parametrize("era", ERAS)
def test_the_parts_of_a_send_come_back(era: str) -> None:
    named = ERA_NAMES[era]
    chosen = Partitioning(PartitioningKind.KEY, key=b"k" * 255)
    head = send.request(Identifier(1, b"\1\0\0\0"), Identifier(2, b"t"), chosen, 3, named)
    found = send.read(head + b"rest", named)
    assert found == SendRequest(
        Identifier(1, b"\1\0\0\0"),
        Identifier(2, b"t"),
        chosen,
        None if era in OLD else 3,
        memoryview(b"rest"),
    )
    for end in range(len(head)):
        with pytest.raises(Truncated):
            send.read(head[:end], named)


@pytest.mark.parametrize("era", NEW)
def test_the_size_before_a_sends_parts_must_be_right(era: str) -> None:
    named = ERA_NAMES[era]
    payload = bytearray(send.request(Identifier(2, b"s"), Identifier(2, b"t"), Partitioning(), 1, named))
    payload[0] += 1
    with pytest.raises(OutOfRange):
        send.read(payload, named)


@pytest.mark.parametrize("era", NEW)
def test_a_send_begins_with_two_names_and_a_key_at_most(era: str) -> None:
    """What says that it is longer is wrong, and is neither copied nor compared."""
    named, name = ERA_NAMES[era], Identifier(2, b"n" * 255)
    chosen = Partitioning(PartitioningKind.KEY, key=b"k" * 255)
    whole = send.request(name, name, chosen, 1, named)
    head = send.head_bytes(memoryview(whole + bytes(99)), named)
    assert head == len(whole) - 4
    assert bytes(send.read_again(memoryview(whole + b"rest"), head, chosen).messages) == b"rest"
    for size in (4, head + 1, 5_000, 5_001, 2**32 - 1):
        lie = size.to_bytes(4, "little") + bytes(4_996)
        assert send.head_bytes(memoryview(lie), named) == 0


def test_a_sends_answer_says_the_place_in_v11_alone() -> None:
    assert [send.answer(1, 2, 3, 4, ERA_NAMES[era]) for era in ERAS[:-1]] == [[]] * 7
    answer = b"".join(send.answer(1, 2, 3, 4, ERA_NAMES["V11"]))
    assert answer == struct.pack("<IIIIQ", 1, 1, 2, 3, 4)
    assert SendMessagesResponse.decode(answer, 7).placed[0].base_offset == 4


@pytest.mark.parametrize("era", ERAS)
def test_a_topic_of_bundles_keeps_payloads_and_milliseconds(era: str) -> None:
    messages = [PLAIN, ClientMessage(b"b", id=9, origin_us=6_001_999)]
    batch = sent_messages.tank_batch(request(messages, era), ERA_NAMES[era], NOW_MS)
    found = bundle.decode_columns(batch, 1)
    assert found.values == [b"hello", b"b"]
    assert found.keys is None
    assert found.timestamps == ([NOW_MS] * 2 if era in OLD else [5000, 6001])


@pytest.mark.parametrize("era", ERAS)
def test_a_topic_of_bundles_keeps_no_headers(era: str) -> None:
    messages = [PLAIN, replace(PLAIN, headers=(TEXT,))]
    with pytest.raises(IggyRefusal, match="keeps no headers") as refused:
        sent_messages.tank_batch(request(messages, era), ERA_NAMES[era], NOW_MS)
    assert (refused.value.error, refused.value.index) == (IggyError.INVALID_HEADER_KEY, 1)
