"""Both framings, byte by byte."""

import struct

import pytest

from tank_protos.iggy import classic, vsr
from tank_protos.iggy.commands import (
    CODES,
    OPERATIONS,
    IggyCode,
    VsrOperation,
    is_framed,
    is_replicated,
    operation_of,
)
from tank_protos.wire.errors import OutOfRange, Truncated

CLIENT = bytes(range(16))
CHECKSUM = bytes(range(100, 116))


def test_a_classic_request_is_a_length_a_code_and_a_payload() -> None:
    frame = classic.request(302, [b"ab", b"c"])
    assert frame == bytes.fromhex("07000000 2e010000 616263")
    assert classic.request_bytes(frame[:4]) == len(frame)
    assert [classic.request_bytes(frame[:end]) for end in range(4)] == [None] * 4
    request = classic.read_request(frame)
    assert (request.code, bytes(request.payload)) == (302, b"abc")


@pytest.mark.parametrize("length", [0, 1, 3, 128 * 2**20 - 3, 2**32 - 1])
def test_a_classic_length_that_lies_is_refused(length: int) -> None:
    with pytest.raises(OutOfRange):
        classic.request_bytes(struct.pack("<I", length))


def test_a_classic_request_is_whole_or_none() -> None:
    frame = classic.request(1, [])
    for wrong in [frame[:end] for end in range(len(frame))] + [frame + b"\0"]:
        with pytest.raises((Truncated, OutOfRange)):
            classic.read_request(wrong)


def test_a_classic_answer_is_one_buffer() -> None:
    assert classic.response([b"ab", memoryview(b"c")]) == bytes.fromhex("00000000 03000000 616263")
    assert classic.response([]) == bytes(8)
    assert classic.error_response(2010) == bytes.fromhex("da070000 00000000")
    read = classic.read_response(classic.response([b"abc"]))
    assert (read.status, bytes(read.payload)) == (0, b"abc")
    assert classic.read_response(classic.error_response(41)).status == 41
    with pytest.raises(Truncated):
        classic.read_response(classic.response([b"abc"])[:-1])


def test_a_vsr_request_has_its_fields_where_the_protocol_has_them() -> None:
    frame = vsr.request(CLIENT, 132, b"body", number=7, session=9, checksum=CHECKSUM)
    assert len(frame) == 260
    assert not any(frame[:48])
    assert struct.unpack_from("<I", frame, 48) == (260,)
    assert frame[60] == 5
    assert frame[128:144] == CLIENT
    assert frame[144:160] == CHECKSUM
    assert struct.unpack_from("<QQB7xQII", frame, 160) == (0, 7, 132, 9, 0, 0)
    read = vsr.read_request(frame)
    assert read == vsr.VsrRequest(CLIENT, CHECKSUM, 0, 7, 132, 9, 302, memoryview(b"body"))


def test_a_vsr_read_says_its_command_itself() -> None:
    frame = vsr.request(CLIENT, VsrOperation.READ, b"", code=201)
    assert struct.unpack_from("<I", frame, 196) == (201,)
    assert vsr.read_request(frame).code == 201


def test_an_unknown_operation_has_no_command() -> None:
    assert vsr.read_request(vsr.request(CLIENT, 64, b"", code=201)).code == 0


def test_a_vsr_reply_echoes_its_request() -> None:
    asked = vsr.read_request(vsr.request(CLIENT, 132, b"", number=7, session=9, checksum=CHECKSUM))
    frame = vsr.reply(asked, [b"bo", b"dy"], commit=55, status=0, timestamp_us=66)
    assert struct.unpack_from("<I", frame, 48) == (260,)
    assert frame[60] == 8
    assert (frame[128:144], frame[160:176]) == (CHECKSUM, CLIENT)
    assert struct.unpack_from("<QQQQB7xI", frame, 176) == (55, 55, 66, 7, 132, 0)
    assert frame[256:] == b"body"
    read = vsr.read_reply(frame)
    assert read == vsr.VsrReply(CHECKSUM, CLIENT, 55, 66, 7, 132, 0, memoryview(b"body"))
    assert vsr.read_reply(vsr.reply(asked, [], commit=1, status=41)).status == 41


def test_an_eviction_says_why_and_what_we_speak() -> None:
    frame = vsr.eviction(CLIENT, vsr.EvictionReason.INCOMPATIBLE_PROTOCOL)
    assert len(frame) == 256
    assert frame[60] == 13
    assert frame[255] == 14
    assert struct.unpack_from("<II", frame, 144) == (0x2FFF, 0x2C00)
    assert vsr.read_eviction(frame) == vsr.VsrEviction(CLIENT, vsr.PROTOCOL_MAX, vsr.PROTOCOL, 14)


@pytest.mark.parametrize("size", [0, 1, 255, 128 * 2**20 + 1, 2**32 - 1])
def test_a_vsr_size_that_lies_is_refused(size: int) -> None:
    with pytest.raises(OutOfRange):
        vsr.frame_bytes(bytes(48) + struct.pack("<I", size))


def test_a_vsr_frame_is_whole_or_none() -> None:
    frame = vsr.request(CLIENT, 160, b"abc")
    assert [vsr.frame_bytes(frame[:end]) for end in range(52)] == [None] * 52
    assert vsr.frame_bytes(frame[:52]) == len(frame)
    for wrong in [frame[:end] for end in range(0, len(frame), 7)] + [frame + b"\0"]:
        with pytest.raises((Truncated, OutOfRange)):
            vsr.read_request(wrong)


def test_a_frame_of_another_kind_is_refused() -> None:
    with pytest.raises(OutOfRange, match="EVICTION"):
        vsr.read_eviction(vsr.request(CLIENT, 160, b""))
    with pytest.raises(OutOfRange, match="REQUEST"):
        vsr.read_request(vsr.eviction(CLIENT, vsr.EvictionReason.NO_SESSION))


def test_framed_bodies_begin_with_success_or_rejection() -> None:
    assert b"".join(vsr.framed([b"ab"])) == bytes(4) + b"ab"
    assert vsr.rejected(1012) == struct.pack("<III", 1, 0, 1012)


def test_every_operation_has_its_command() -> None:
    assert CODES[VsrOperation.CREATE_STREAM] is IggyCode.CREATE_STREAM
    assert set(VsrOperation) - set(CODES) == {VsrOperation.READ}
    assert operation_of(202) is VsrOperation.CREATE_STREAM
    assert operation_of(45) is VsrOperation.REGISTER
    assert operation_of(100) is VsrOperation.READ
    assert operation_of(99_999) is VsrOperation.READ
    assert len(OPERATIONS) == len(CODES) + 1


def test_operations_are_framed_and_counted_as_clients_expect() -> None:
    framed = {operation for operation in VsrOperation if is_framed(operation)}
    assert framed == set(VsrOperation) - {
        VsrOperation.READ,
        VsrOperation.LOGOUT,
        VsrOperation.SEND_MESSAGES,
    }
    assert {int(operation) for operation in VsrOperation if not is_replicated(operation)} == {1, 2, 3}
