"""Frames: `u8 id, u32 length, payload`."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.generated.tank import PushAnswer, PushedPartition
from tank_protos.wire.errors import OutOfRange
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES, MAX_FRAME_BYTES, FrameReader, frame, frame_of

FRAMES = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=6)


def test_a_frame_is_id_length_payload() -> None:
    assert b"".join(frame(3, [])) == bytes.fromhex("0300000000")
    assert b"".join(frame(2, [b"ab", memoryview(b"c")])) == bytes.fromhex("0203000000616263")


def test_the_frame_of_a_message_is_one_piece() -> None:
    message = PushAnswer(7, partitions=[PushedPartition(1, 2, 0, 3, 4, 5, 6)])
    made = frame_of(message)
    assert type(made) is bytes
    assert made == b"".join(frame(PushAnswer.ID, message.encode()))
    assert FRAME_HEAD.size == HEADER_BYTES


def test_payloads_are_passed_on_and_not_copied() -> None:
    payload = bytearray(10)
    assert frame(1, [payload])[1] is payload


@given(FRAMES, st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_however_the_stream_is_cut_the_frames_come_out(
    frames: list[tuple[int, bytes]], sizes: list[int]
) -> None:
    stream = b"".join(b"".join(frame(message_id, [payload])) for message_id, payload in frames)
    reader = FrameReader()
    out = []
    at = turn = 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        out += [(message_id, bytes(payload)) for message_id, payload in reader.feed(stream[at : at + size])]
        at += size
        turn += 1
    assert out == frames
    assert reader.pending_bytes == 0


@given(FRAMES.filter(bool))
def test_a_frame_that_is_not_complete_waits(frames: list[tuple[int, bytes]]) -> None:
    stream = b"".join(b"".join(frame(message_id, [payload])) for message_id, payload in frames)
    for end in range(len(stream)):
        reader = FrameReader()
        done = reader.feed(stream[:end])
        rest = reader.feed(stream[end:])
        assert [(message_id, bytes(payload)) for message_id, payload in done + rest] == frames


def test_payloads_stay_as_they_were_when_the_caller_reuses_his_buffer() -> None:
    buffer = bytearray(b"".join(frame(9, [b"first"])))
    [(_, payload)] = FrameReader().feed(buffer)
    buffer[:] = bytes(len(buffer))
    assert bytes(payload) == b"first"
    assert payload.readonly


def test_an_announcement_over_the_limit_is_refused_at_once_and_for_good() -> None:
    reader = FrameReader(max_frame_bytes=8)
    good = b"".join(frame(1, [b"12345678"]))
    assert [bytes(payload) for _, payload in reader.feed(good + bytes.fromhex("0109000000"))] == [b"12345678"]
    for _ in range(2):
        with pytest.raises(OutOfRange, match="limit is 8"):
            reader.feed(good)


def test_a_large_announcement_takes_no_memory() -> None:
    reader = FrameReader()
    tracemalloc.start()
    try:
        assert reader.feed(bytes([1]) + MAX_FRAME_BYTES.to_bytes(4, "little") + b"a few bytes") == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000
    assert reader.pending_bytes == HEADER_BYTES + 11


def test_one_that_could_not_be_received_is_not_made() -> None:
    class Large(bytes):
        def __len__(self) -> int:
            return MAX_FRAME_BYTES + 1

    with pytest.raises(OutOfRange, match="send less at once"):
        frame(1, [Large()])
    with pytest.raises(OutOfRange, match="u8"):
        frame(256, [])
