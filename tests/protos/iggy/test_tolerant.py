"""Requests that clients write in several ways, or wrongly."""

import struct

import pytest

from tank_protos.generated.iggy import (
    CreateTopicRequest,
    GetStreamRequest,
    Identifier,
    LoginSessionRequest,
    LoginSessionWithTokenRequest,
)
from tank_protos.iggy import tolerant
from tank_protos.iggy.eras import A2, B3, SEED
from tank_protos.wire.errors import TrailingBytes, Truncated, WireError

STREAM = bytes.fromhex("0104 01000000")


def create(name: bytes, *, expiry: int | None = 60) -> bytes:
    payload = STREAM + struct.pack("<II", 2, 3)
    payload += b"" if expiry is None else struct.pack("<I", expiry)
    return payload + bytes([len(name)]) + name


@pytest.mark.parametrize(
    ("payload", "expiry"),
    [
        (create(b"orders"), 60),
        (create(b"orders") + bytes(2), 60),
        (create(b"orders", expiry=None), 0),
        (create(b"a", expiry=None), 0),
        (create(b"a", expiry=0), 0),
    ],
    ids=["whole", "surplus", "without", "short without", "short whole"],
)
def test_the_seeds_topics_are_read_with_and_without_an_expiry(payload: bytes, expiry: int) -> None:
    found = tolerant.read_create_topic(payload, SEED)
    assert (found.stream, found.topic_id, found.partitions_count) == (Identifier(1, b"\1\0\0\0"), 2, 3)
    assert found.expiry_secs == expiry
    assert found.name in ("orders", "a")


@pytest.mark.parametrize("end", range(len(create(b"orders", expiry=None))))
def test_a_topic_of_the_seed_that_is_cut_is_refused(end: int) -> None:
    with pytest.raises(WireError):
        tolerant.read_create_topic(create(b"orders", expiry=None)[:end], SEED)


def test_topics_of_other_eras_end_where_their_payload_does() -> None:
    payload = b"".join(CreateTopicRequest(Identifier(2, b"s"), name="t").encode(A2.version))
    assert tolerant.read_create_topic(payload, A2).name == "t"
    with pytest.raises(TrailingBytes):
        tolerant.read_create_topic(payload + b"\0", A2)


def test_surplus_bytes_are_the_seeds_alone() -> None:
    assert tolerant.read_request(GetStreamRequest, STREAM + b"\0\0", SEED).stream.kind == 1
    with pytest.raises(TrailingBytes):
        tolerant.read_request(GetStreamRequest, STREAM + b"\0\0", B3)


def test_the_last_byte_of_a_topics_name_may_lack() -> None:
    cut = STREAM + b"\x02\x06order"
    found, may_lack = tolerant.read_get_topic(cut, SEED)
    assert (bytes(found.topic.value), may_lack) == (b"order", True)
    assert tolerant.read_get_topic(STREAM + b"\x02\x05order", SEED)[1]
    for wrong in (cut[:-1], STREAM + b"\x02", STREAM + b"\x01\x04\0\0\0", STREAM):
        with pytest.raises(Truncated):
            tolerant.read_get_topic(wrong, SEED)
    with pytest.raises(Truncated):
        tolerant.read_get_topic(cut, B3)
    assert not tolerant.read_get_topic(cut + b"s", B3)[1]


def test_a_login_may_say_nothing_of_its_library() -> None:
    short = b"\x04iggy\x04pass"
    assert tolerant.read_login(short) == tolerant.ClassicLogin("iggy", "pass", None)
    whole = short + b"\x05\0\0\x000.9.0" + bytes(4)
    assert tolerant.read_login(whole) == tolerant.ClassicLogin("iggy", "pass", "0.9.0")
    assert tolerant.read_login(short + bytes(8)).sdk_version == ""
    for wrong in (short[:-1], short + b"\0", whole[:-1], whole + b"\0", b""):
        with pytest.raises(WireError):
            tolerant.read_login(wrong)


def test_a_session_begins_by_password_or_by_token() -> None:
    by_password = LoginSessionRequest(0x2C00, "sdk", "1", "iggy", "pass", "")
    by_token = LoginSessionWithTokenRequest(0x2C00, "sdk", "1", "token", "context")
    assert tolerant.read_session_login(b"".join(by_password.encode(7))) == by_password
    assert tolerant.read_session_login(b"".join(by_token.encode(7))) == by_token
    with pytest.raises(WireError):
        tolerant.read_session_login(b"".join(by_token.encode(7)) + b"\0")
