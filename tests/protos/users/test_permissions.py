"""Iggy's document of a user's rights."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.users.permissions import (
    ALL_RIGHTS,
    MAX_BYTES,
    GlobalRight,
    Permissions,
    PermissionsError,
    StreamPermissions,
    StreamRight,
    TopicPermissions,
    TopicRight,
    decode,
)
from tests.protos.users.permissions_for_tests import READER, documents

READERS_BYTES = bytes.fromhex(
    "00 01 00 00 00 00 00 00 00 00"  # ten rights of the server
    "01"
    "07 00 00 00  00 01 00 00 00 00  00"  # stream 7, no topics
    "01"  # another stream follows
    "03 00 00 00  00 00 00 00 00 00  01"
    "09 00 00 00  00 00 00 01  01"  # topic 9, and another
    "02 00 00 00  01 01 00 00  00"
    "00"
)


def test_a_document_is_read_as_the_wire_has_it() -> None:
    assert decode(READERS_BYTES) == READER
    assert READER.encode() == READERS_BYTES
    assert list(READER.places()) == [(7, None), (3, None), (3, 9), (3, 2)]


@given(documents, st.sampled_from([0, 1]))
def test_a_document_comes_back_byte_for_byte(document: Permissions, base: int) -> None:
    encoded = document.encode(base)
    assert decode(encoded, base) == document
    assert decode(memoryview(encoded), base).encode(base) == encoded


def test_clients_that_count_from_1_see_other_numbers_of_the_same_streams() -> None:
    assert decode(READERS_BYTES, 1).streams is not None
    assert [stream.stream for stream in decode(READERS_BYTES, 1).streams or ()] == [6, 2]
    assert decode(READER.encode(1), 1) == READER
    with pytest.raises(PermissionsError, match="can't be"):
        decode(Permissions(GlobalRight(0), (StreamPermissions(0, StreamRight(0)),)).encode(0), 1)


def test_a_number_that_only_one_era_could_write_is_refused() -> None:
    with pytest.raises(PermissionsError, match="can't be"):
        decode(bytes(10) + b"\1" + b"\xff" * 4 + bytes(8))


@pytest.mark.parametrize("cut", range(len(READERS_BYTES)))
def test_a_document_that_ends_too_early_is_refused(cut: int) -> None:
    if cut == 11:
        return  # ten rights, and an empty list of streams: that is one
    with pytest.raises(PermissionsError):
        decode(READERS_BYTES[:cut])


def test_bytes_behind_a_document_are_refused() -> None:
    with pytest.raises(PermissionsError, match="1 bytes follow"):
        decode(READERS_BYTES + b"\0")


@pytest.mark.parametrize("at", [0, 9, 10, 15, 21, 22, 33, 38, 42])
def test_a_right_or_a_mark_is_0_or_1(at: int) -> None:
    wrong = bytearray(READERS_BYTES)
    wrong[at] = 2
    with pytest.raises(PermissionsError, match="0 or 1, not 2"):
        decode(wrong)


@given(st.binary(max_size=120))
def test_any_bytes_are_a_document_or_a_typed_error(data: bytes) -> None:
    try:
        document = decode(data)
    except PermissionsError:
        return
    assert document.encode() == data


def test_what_is_named_twice_is_refused() -> None:
    stream = StreamPermissions(1, StreamRight.READ_STREAM)
    with pytest.raises(PermissionsError, match="a stream is in the permissions twice"):
        decode(Permissions(GlobalRight(0), (stream, stream)).encode())
    topic = TopicPermissions(1, TopicRight.READ_TOPIC)
    twice = StreamPermissions(1, StreamRight(0), (topic, topic))
    with pytest.raises(PermissionsError, match="a topic is in the permissions of its stream twice"):
        decode(Permissions(GlobalRight(0), (twice,)).encode())


def test_empty_lists_are_kept_as_such() -> None:
    for streams in [(), (StreamPermissions(1, StreamRight(0), ()),)]:
        document = Permissions(GlobalRight(0), streams)
        assert decode(document.encode()) == document


def test_a_document_is_bounded() -> None:
    many = tuple(StreamPermissions(number, StreamRight(0)) for number in range((MAX_BYTES - 11) // 12))
    largest = Permissions(GlobalRight(0), many).encode()
    assert MAX_BYTES - 12 <= len(largest) <= MAX_BYTES
    decode(largest)
    with pytest.raises(PermissionsError, match="at most 65536 bytes"):
        decode(largest + bytes(12))


def test_root_may_do_everything() -> None:
    assert ALL_RIGHTS.encode() == b"\1" * 10 + b"\0"
