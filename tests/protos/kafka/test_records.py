"""Records inside a batch: there and back, walked, cut, and lying about their lengths."""

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.kafka.errors import InvalidRecords, RecordsFault
from tank_protos.kafka.records import (
    Headers,
    KafkaRecord,
    encode,
    encode_columns,
    iterate,
    read_columns,
    walk,
)
from tests.support.examples import examples
from tests.support.values.kafka_records import records

ONE = KafkaRecord(b"k", b"v1", 0, 0, ((b"h", b"1"),))
NULLS = KafkaRecord(None, None, 1, 5)


def test_two_records_of_the_format() -> None:
    payload = bytes.fromhex("1a 00 00 00 02 6b 04 7631 02 02 68 02 31" + "0c 00 0a 02 01 01 00")
    assert encode([ONE, NULLS]) == payload
    assert list(iterate(payload, 2)) == [ONE, NULLS]
    walk(payload, 2, 1)


@given(records(dense=False))
def test_every_record_comes_back(made: list[KafkaRecord]) -> None:
    payload = encode(made)
    assert list(iterate(payload, len(made))) == made
    columns = read_columns(payload, len(made))
    rows = zip(columns.keys, columns.values, columns.offset_deltas, columns.timestamp_deltas, strict=True)
    assert [(*row, columns.headers.get(n, ())) for n, row in enumerate(rows)] == made
    walk(payload, len(made), made[-1].offset_delta, dense=False)


def test_columns_have_each_records_own_headers_where_neighbours_have_the_same() -> None:
    some, others = ((b"id", b"12345678"),), ((b"id", b"1234567"), (b"n", None))
    headers: list[Headers] = [some, some, (), some, others, others, some, ((b"id", b"12345679"),)]
    made = [KafkaRecord(b"k", b"v", n, 0, each) for n, each in enumerate(headers)]
    columns = read_columns(encode(made), len(made))
    assert [columns.headers.get(n, ()) for n in range(len(made))] == headers


@given(records())
def test_columns_are_written_as_records_are(made: list[KafkaRecord]) -> None:
    bare = [record._replace(headers=()) for record in made]
    keys, values, offsets, timestamps, _ = map(list, zip(*bare, strict=True))
    assert encode_columns(offsets, timestamps, keys, values) == encode(bare)


def test_more_records_than_are_read_at_once() -> None:
    made = [KafkaRecord(b"k", b"", n, -n, ((b"n", b"%d" % n),) if n % 7 == 0 else ()) for n in range(1000)]
    payload = encode(made)
    assert list(iterate(payload, 1000)) == made
    walk(payload, 1000, 999)


def test_attributes_of_a_record_mean_nothing() -> None:
    payload = bytearray(encode([ONE]))
    payload[1] = 0xFF
    assert list(iterate(bytes(payload), 1)) == [ONE]
    walk(bytes(payload), 1, 0)


@given(records())
@examples(30)
def test_cut_anywhere_it_is_refused(made: list[KafkaRecord]) -> None:
    payload = encode(made)
    for end in range(min(len(payload), 300)):
        refused(payload[:end], len(made))


@given(records(), st.binary(min_size=1, max_size=9))
def test_bytes_behind_the_last_record_are_refused(made: list[KafkaRecord], more: bytes) -> None:
    refused(encode(made) + more, len(made))


@given(records(), st.integers(-3, 3).filter(bool))
def test_another_count_is_refused(made: list[KafkaRecord], difference: int) -> None:
    refused(encode(made), len(made) + difference)


WRONG = {
    "a length of -1": ("01 00 00 00 01 01 00", 0),
    "a length of 0": ("00 00 00 00 01 01 00", 0),
    "a length that leads out": ("10 00 00 00 01 01 00", 0),
    "a length that is too short": ("0a 00 00 00 01 01 00", 0),
    "a length that is too long": ("0e 00 00 00 01 01 00 00", 0),
    "a length of five bytes that is no i32": ("ffffffff7f 00 00 00 01 01 00", 0),
    "a key of -2 bytes": ("0c 00 00 00 03 01 00", 0),
    "a key that leads out of its record": ("0c 00 00 00 10 01 00 0c 00 00 02 01 01 00", 0),
    "a value of -64 bytes": ("0c 00 00 00 01 7f 00", 0),
    "a value that leads out of the batch": ("0c 00 00 00 01 7e 00", 0),
    "-1 headers": ("0c 00 00 00 01 01 01", 0),
    "more headers than bytes": ("0c 00 00 00 01 01 7e", 0),
    "a header without a key": ("10 00 00 00 01 01 02 01 01", 0),
    "a header of -2 bytes": ("10 00 00 00 01 01 02 00 03", 0),
    "the second one is wrong": ("0c 00 00 00 01 01 00 0c 00 00 02 03 01 00", 1),
}

LEADING_OUT = ("a length of -1", "a length of 0", "a length that leads out")


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_record_is_named(case: str) -> None:
    form, index = WRONG[case]
    payload = bytes.fromhex(form)
    for error in refused(payload, index + 1):
        assert error.index == index
        assert ("leads out of its batch" in str(error)) == (case in LEADING_OUT)
        assert error.fault is RecordsFault.INVALID_RECORD


def test_the_wrong_one_of_many_is_named() -> None:
    made = [KafkaRecord(None, b"x", n, 0) for n in range(700)]
    payload = bytearray(encode(made))
    at = len(encode(made[:600])) + len(encode([made[600]])) - 3
    assert payload[at] == 2
    payload[at] = 3
    for error in refused(bytes(payload), 700):
        assert error.index == 600


def test_a_producers_offsets_follow_one_another() -> None:
    for deltas in ([1], [0, 0], [0, 2], [1, 0], [-1, 0]):
        payload = encode([KafkaRecord(b"k", b"v", delta, 0) for delta in deltas])
        with pytest.raises(InvalidRecords, match="offset delta"):
            walk(payload, len(deltas), 5)


def test_a_compacted_batchs_offsets_rise_to_its_last() -> None:
    def judged(*deltas: int) -> None:
        walk(encode([KafkaRecord(None, b"v", d, 0) for d in deltas]), len(deltas), 9, dense=False)

    judged(0, 3, 9)
    judged(9)
    judged()
    for deltas in ([0, 0], [3, 2], [-1], [10]):
        with pytest.raises(InvalidRecords, match="offset delta"):
            judged(*deltas)


def test_a_compacted_topic_wants_keys() -> None:
    payload = encode([KafkaRecord(b"", b"v", 0, 0), KafkaRecord(None, b"v", 1, 0)])
    walk(payload, 2, 1)
    with pytest.raises(InvalidRecords, match="no key") as error:
        walk(payload, 2, 1, keyed=True)
    assert error.value.index == 1


@given(records(), st.data())
@examples(200)
def test_what_a_walk_takes_can_be_read_and_nothing_else(made: list[KafkaRecord], data: st.DataObject) -> None:
    payload = bytearray(encode(made))
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, min(len(payload), 60) - 1))
        payload[at] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 127, 128]))
    try:
        found = list(iterate(bytes(payload), len(made)))
    except InvalidRecords:
        with pytest.raises(InvalidRecords):
            walk(bytes(payload), len(made), 2**31)
        return
    dense = [record.offset_delta for record in found] == list(range(len(made)))
    try:
        walk(bytes(payload), len(made), 2**31)
    except InvalidRecords:
        assert not dense
    else:
        assert dense
        assert list(iterate(encode(found), len(made))) == found


@given(st.binary(max_size=60), st.integers(-1, 8))
@examples(200)
def test_garbage_raises_nothing_but_invalid_records(garbage: bytes, count: int) -> None:
    for data in (garbage, b"\x20\x00" + garbage):
        with suppress(InvalidRecords):
            list(iterate(data, count))
        with suppress(InvalidRecords):
            walk(data, count, 7)


LIES = {
    "2^31 records": ("0c 00 00 00 01 01 00", 2**31 - 1),
    "a value of 2^30 bytes": ("12 00 00 00 01 80808080 08 00", 1),
    "2^30 headers": ("12 00 00 00 01 01 8080808008", 1),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_takes_no_memory(lie: str) -> None:
    form, count = LIES[lie]
    tracemalloc.start()
    try:
        for error in refused(bytes.fromhex(form), count):
            assert count == 1 or f"{count} records in 7 bytes" in str(error)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def refused(payload: bytes, count: int) -> list[InvalidRecords]:
    """Why each of the readers refuses it: all do."""
    errors = []
    for action in (
        lambda: read_columns(payload, count),
        lambda: list(iterate(payload, count)),
        lambda: walk(payload, count, 2**31 - 1, dense=False),
    ):
        with pytest.raises(InvalidRecords) as error:
            action()
        errors.append(error.value)
    return errors
