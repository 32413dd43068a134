"""Polls of all eras: what a client gets of batches that clients of all protocols stored."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.bundle import Codec, as_batch, encode_sparse
from tank_protos.iggy import stored_header
from tank_protos.iggy.eras import ERA_NAMES, V11
from tank_protos.iggy.polled_messages import NO_ASSIGNMENT, PollAnswer, PollSource
from tank_protos.kafka import control_batch, record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.records import KafkaRecord
from tank_protos.wire.errors import InvalidBundle
from tests.support.iggy.client_messages import ClientMessage, Header, ReceivedMessage
from tests.support.iggy.stored import NOW_MS, TOPIC_ID, polled, stored, stored_bundle

ERAS = list(ERA_NAMES)
OLD = ("S", "A1", "A2", "A3")
KEY_KINDS = ("B3", "V11")

by_era = pytest.mark.parametrize("era", ERAS)
both = st.sampled_from(ERAS)

HEADER = st.tuples(
    st.text(min_size=1, max_size=20).map(str.encode),
    st.just(2),
    st.binary(min_size=1, max_size=255),
    st.integers(1, 15),
)
MESSAGE = st.builds(
    ClientMessage,
    payload=st.binary(min_size=1, max_size=200),
    id=st.one_of(st.just(0), st.integers(1, 2**128 - 1)),
    origin_us=st.integers(1_700_000_000_000_000, 1_700_000_000_000_000 + 2**32 - 1),
    headers=st.lists(HEADER, max_size=3).map(tuple),
)


def derived(offset: int) -> int:
    """The id of a message that got none."""
    return (TOPIC_ID << 64) + offset + 1


def expected(messages: list[ClientMessage], first: int, sender: str, reader: str) -> list[ReceivedMessage]:
    """What the reader gets of what the sender sent."""
    found = []
    for place, message in enumerate(messages):
        origin_us = NOW_MS * 1000 if sender in OLD else message.origin_us
        found.append(
            ReceivedMessage(
                first - 1 + place,
                message.id or derived(first - 1 + place),
                NOW_MS * 1000,
                message.payload,
                None if reader in OLD else origin_us,
                message.headers,
            )
        )
    return found


@given(st.lists(MESSAGE, min_size=1, max_size=4), st.integers(1, 2**40), both, both)
def test_every_era_reads_what_every_era_sent(
    messages: list[ClientMessage], first: int, sender: str, reader: str
) -> None:
    found = polled([stored(messages, sender, first=first)], reader)
    assert found.messages == expected(messages, first, sender, reader)


@given(st.lists(MESSAGE, min_size=1, max_size=4), both, both, st.integers(0, 5), st.integers(0, 5))
def test_a_poll_begins_and_ends_inside_batches(
    messages: list[ClientMessage], sender: str, reader: str, lowest: int, most: int
) -> None:
    count = len(messages)
    sources = [stored(messages, sender), stored(messages, sender, first=count + 1)]
    every = expected(messages, 1, sender, reader) + expected(messages, count + 1, sender, reader)
    assert polled(sources, reader, lowest=lowest, most=most).messages == every[lowest:][:most]


@given(
    st.lists(st.binary(min_size=1, max_size=99), min_size=1, max_size=4), st.integers(1, 2**40), both, both
)
def test_a_topic_of_bundles_is_read_with_derived_ids(
    payloads: list[bytes], first: int, sender: str, reader: str
) -> None:
    messages = [ClientMessage(payload, id=5, origin_us=3_000_999) for payload in payloads]
    found = polled([stored_bundle(messages, sender, first=first)], reader).messages
    origin_us = NOW_MS * 1000 if sender in OLD else 3_000_000
    assert found == [
        ReceivedMessage(
            first - 1 + place,
            derived(first - 1 + place),
            NOW_MS * 1000,
            payload,
            None if reader in OLD else origin_us,
        )
        for place, payload in enumerate(payloads)
    ]


@by_era
@pytest.mark.parametrize("gap", [2**32 - 1, 2**32])
def test_numbers_of_one_bundle_that_are_far_apart(era: str, gap: int) -> None:
    """A batch of V11 says the distance to its first message in 32 bits; behind that another one begins."""
    made = encode_sparse([7, 7 + gap], [b"a", b"b"], timestamps=5, codec=Codec.NONE)
    found = polled([PollSource(as_batch(made), NOW_MS, 7, is_bundle=True)], era)
    assert [(message.offset, message.payload) for message in found.messages] == [(6, b"a"), (6 + gap, b"b")]
    if era == "V11":
        assert found.batches == (1 if gap < 2**32 else 2)


@by_era
def test_an_empty_answer_is_a_place_and_no_messages(era: str) -> None:
    assert polled([], era).messages == []
    answer = PollAnswer(ERA_NAMES[era], TOPIC_ID, 0, 0)
    assert b"".join(answer.payload()) == struct.pack("<IQI", ERA_NAMES[era].base, 0, 0)


def test_a_member_is_told_to_ask_for_its_assignment() -> None:
    payload = b"".join(PollAnswer(V11, TOPIC_ID, NO_ASSIGNMENT, 0).payload())
    assert payload == b"\xff" * 4 + bytes(12)


def kafka(
    *records: KafkaRecord, codec: KafkaCodec = KafkaCodec.NONE, append_ms: int | None = None
) -> PollSource:
    """A batch of a Kafka client's at offset 10."""
    made = record_batch.encode(
        records, base_timestamp_ms=5000, base_offset=10, codec=codec, append_ms=append_ms
    )
    return PollSource(made, NOW_MS, 11)


@by_era
@pytest.mark.parametrize("codec", KafkaCodec)
def test_a_batch_of_kafkas_clients_is_read_however_it_is_compressed(era: str, codec: KafkaCodec) -> None:
    records = [
        KafkaRecord(b"key", b"one", 0, 0, ((b"h", b"1"),)),
        KafkaRecord(None, b"two" * 99, 1, -7, ()),
        KafkaRecord(None, None, 2, 9),
        KafkaRecord(None, b"", 3, 9),
    ]
    found = polled([kafka(*records, codec=codec)], era).messages
    assert [message.payload for message in found] == [b"one", b"two" * 99, b"", b""]
    assert [message.offset for message in found] == [10, 11, 12, 13]
    assert [message.id for message in found] == [derived(offset) for offset in range(10, 14)]
    assert [message.headers for message in found] == [((b"h", 2, b"1", 1),), (), (), ()]
    if era not in OLD:
        assert [message.origin_us for message in found] == [5_000_000, 4_993_000, 5_009_000, 5_009_000]
    assert {message.timestamp_us for message in found} == {NOW_MS * 1000}


@pytest.mark.parametrize("era", ERAS[4:])
def test_records_without_a_time_or_with_the_brokers_have_that(era: str) -> None:
    none = record_batch.encode([KafkaRecord(None, b"a", 0, 0)], base_timestamp_ms=-1)
    [message] = polled([PollSource(none, NOW_MS, 1)], era).messages
    assert message.origin_us == NOW_MS * 1000
    [message] = polled([kafka(KafkaRecord(None, b"a", 0, 0), append_ms=8000)], era).messages
    assert message.origin_us == 8_000_000


@by_era
def test_what_compaction_left_keeps_its_offsets(era: str) -> None:
    left = [KafkaRecord(None, b"a", 2, 0), KafkaRecord(None, b"b", 7, 0)]
    found = polled([kafka(*left)], era).messages
    assert [message.offset for message in found] == [12, 17]
    assert [message.offset for message in polled([kafka(*left)], era, lowest=13).messages] == [17]


@by_era
def test_headers_that_a_client_cannot_read_are_left_out_and_counted(era: str) -> None:
    headers = (
        (b"null", None),
        (b"empty", b""),
        (b"", b"no name"),
        (b"k" * 256, b"v"),
        (b"k", b"v" * 256),
        (b"\xff", b"no text"),
        (b"good", b"v"),
    )
    answer = PollAnswer(ERA_NAMES[era], TOPIC_ID, 0, 0)
    source = kafka(KafkaRecord(None, b"a", 0, 0, headers), KafkaRecord(None, b"b", 1, 0, headers))
    answer.add(source, 0, 10)
    assert answer.lost_headers == 12
    assert [message.headers for message in polled([source], era).messages] == [((b"good", 2, b"v", 1),)] * 2


@by_era
def test_headers_above_what_iggy_takes_are_left_out(era: str) -> None:
    headers = ((b"k" * 90, b"v" * 100),) * 600
    [message] = polled([kafka(KafkaRecord(None, b"a", 0, 0, headers))], era).messages
    assert len(message.headers) == 100_000 // (190 + (10 if era in KEY_KINDS else 9))


@by_era
def test_a_key_that_is_no_text_reaches_those_who_know_its_kind(era: str) -> None:
    header: Header = (b"\xff\xfe", 10, b"v", 3)
    [message] = polled([stored([ClientMessage(b"a", headers=(header,))], "B3")], era).messages
    assert message.headers == ((header,) if era in KEY_KINDS else ())


@by_era
@pytest.mark.parametrize(
    "value",
    [None, b"", b"mine", b"\2" + bytes(18), b"\1" + bytes(16) + b"\xe8\3", b"\1" + bytes(18) + b"\x01"],
)
def test_a_header_that_only_looks_like_ours_is_the_users(era: str, value: bytes | None) -> None:
    [message] = polled([kafka(KafkaRecord(None, b"a", 0, 0, ((b"iggy", value),)))], era).messages
    assert message.id == derived(10)
    assert message.headers == (((b"iggy", 2, value, 1),) if value else ())


@by_era
@pytest.mark.parametrize("sender", ERAS)
def test_a_users_header_of_the_reserved_name_comes_back(era: str, sender: str) -> None:
    looks_like_ours = stored_header.pack((7).to_bytes(16, "little"), 5, b"\x21")
    mine: tuple[Header, ...] = ((b"iggy", 2, looks_like_ours, 1), (b"iggy", 2, b"x", 1))
    [message] = polled([stored([ClientMessage(b"a", headers=mine)], sender)], era).messages
    assert (message.id, message.headers) == (derived(0), mine)


@by_era
def test_markers_of_transactions_are_no_messages(era: str) -> None:
    end = control_batch.TransactionEnd(control_batch.ControlType.COMMIT, 1, 0, 0)
    marker = control_batch.encode(end, NOW_MS, base_offset=5)
    assert polled([PollSource(marker, NOW_MS, 6)], era).messages == []


def test_v11_has_a_batch_for_each_stored_batch() -> None:
    messages = [ClientMessage(b"a"), ClientMessage(b"b")]
    assert polled([stored(messages, "V11"), stored(messages, "B3", first=3)], "V11").batches == 2


def test_times_too_far_apart_for_one_batch_of_v11_take_several() -> None:
    hours = [0, 1, 3, 2, 0]
    records = [KafkaRecord(None, b"%d" % place, place, hour * 3_600_000) for place, hour in enumerate(hours)]
    found = polled([kafka(*records)], "V11")
    assert [message.origin_us for message in found.messages] == [
        5_000_000 + hour * 3_600_000_000 for hour in hours
    ]
    assert [message.offset for message in found.messages] == [10, 11, 12, 13, 14]
    assert found.batches == 3


@pytest.mark.parametrize("era", ERAS)
def test_a_time_beyond_64_bits_of_microseconds_is_the_last_one(era: str) -> None:
    late = record_batch.encode([KafkaRecord(None, b"a", 0, 0)], base_timestamp_ms=2**63 - 1)
    [message] = polled([PollSource(late, NOW_MS, 1)], era).messages
    assert message.origin_us in (None, 2**64 - 1)


@by_era
def test_a_damaged_batch_is_an_error_and_adds_nothing(era: str) -> None:
    answer = PollAnswer(ERA_NAMES[era], TOPIC_ID, 0, 0)
    with pytest.raises(InvalidRecords):
        answer.add(PollSource(kafka(KafkaRecord(None, b"abc", 0, 0)).data[:-2], NOW_MS, 1), 0, 9)
    before_the_first = record_batch.encode(
        [KafkaRecord(None, b"a", 0, 0)], base_timestamp_ms=1, base_offset=-1
    )
    with pytest.raises(InvalidRecords, match="offset -1"):
        answer.add(PollSource(before_the_first, NOW_MS, 1), 0, 9)
    with pytest.raises(InvalidBundle):
        answer.add(PollSource(b"\x05\0\0\0\0\0", NOW_MS, 1, is_bundle=True), 0, 9)
    assert (answer.messages, len(answer.payload())) == (0, 1)
