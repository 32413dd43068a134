"""What brokers say to each other: stretches of a log byte by byte, and the document's examples."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProduceBaseTopic,
    ProduceWithBaseSeqNumRequest,
    PushAnswer,
    PushedPartition,
    ReplicaIdRequest,
)
from tank_protos.storage import stretch
from tank_protos.storage.index_record import RECORD_BYTES
from tank_protos.storage.stretch import CHECKSUM_BYTES, HEAD_BYTES, PUSH_VERSION, Stretch
from tank_protos.wire.errors import OutOfRange, Truncated, WireError
from tank_protos.wire.framing import FrameReader, frame

DOCUMENT = (Path(__file__).parents[3] / "docs" / "protocol" / "peers.md").read_text()
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)


@st.composite
def stretches(draw: st.DrawFn) -> Stretch:
    records = draw(st.integers(0, 3)) * RECORD_BYTES
    batches = draw(st.binary(max_size=40)) if records else b""
    numbers = draw(U64), draw(U32), draw(U32), draw(U64), draw(U64)
    content = draw(st.binary(min_size=records, max_size=records)), batches
    return Stretch(*numbers, *content, draw(st.one_of(st.just(b""), st.binary(max_size=20))))


def encoded(value: Stretch) -> bytes:
    return b"".join(value.encode())


@given(stretches())
def test_a_stretch_round_trips(value: Stretch) -> None:
    assert stretch.decode(memoryview(encoded(value))) == value


@given(stretches(), st.data())
def test_a_stretch_that_ends_before_its_records_is_refused(value: Stretch, data: st.DataObject) -> None:
    whole = encoded(value)
    end = data.draw(st.integers(0, len(whole) - len(value.batches) - 1))
    with pytest.raises(Truncated):
        stretch.decode(memoryview(whole)[:end])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_stretch_or_a_typed_error(payload: bytes) -> None:
    try:
        value = stretch.decode(memoryview(payload))
    except WireError:
        return
    assert encoded(value) == payload


def test_a_stretch_lies_byte_by_byte_where_the_table_says() -> None:
    value = Stretch(0x0102030405060708, 0x11121314, 0x21222324, 0x31, 0x41, b"r" * RECORD_BYTES, b"batches")
    head = bytes.fromhex("0807060504030201 14131211 24232221 3100000000000000 4100000000000000 01000000")
    written = encoded(value)
    assert written[:HEAD_BYTES] == head
    assert written[HEAD_BYTES + CHECKSUM_BYTES :] == b"r" * RECORD_BYTES + b"batches"


def test_the_memory_of_producers_lies_between_the_head_and_the_records() -> None:
    value = Stretch(1, 2, 3, 4, 5, b"r" * RECORD_BYTES, b"batches", b"who")
    whole = encoded(value)
    assert whole[HEAD_BYTES - 4 : HEAD_BYTES] == bytes.fromhex("01000080")
    at = HEAD_BYTES + CHECKSUM_BYTES
    assert whole[at:] == bytes.fromhex("03000000") + b"who" + value.records + b"batches"
    alone = value._replace(records=b"", batches=b"")
    assert stretch.decode(memoryview(encoded(alone))) == alone
    with pytest.raises(OutOfRange):
        stretch.decode(memoryview(encoded(alone) + b"x"))
    none = whole[:at] + bytes(4) + whole[at + 7 :]
    with pytest.raises(OutOfRange, match="has an empty one"):
        stretch.decode(memoryview(none))


def test_records_and_batches_are_slices_not_copies() -> None:
    payload = bytearray(encoded(Stretch(1, 2, 3, 4, 5, b"r" * RECORD_BYTES, b"b" * 10)))
    value = stretch.decode(memoryview(payload))
    payload[-1:] = b"x"
    assert bytes(value.batches) == b"b" * 9 + b"x"
    assert isinstance(value.records, memoryview)


def test_bytes_without_records_are_refused() -> None:
    with pytest.raises(OutOfRange):
        stretch.decode(memoryview(encoded(Stretch(1, 2, 3, 4, 5, b"", b"")) + b"x"))
    with pytest.raises(OutOfRange):
        Stretch(1, 2, 3, 4, 5, b"r" * 65, b"").encode()


def test_an_old_brokers_bare_id_is_no_replica_id() -> None:
    with pytest.raises(Truncated):
        ReplicaIdRequest.decode(bytes.fromhex("0700"))


def test_a_replica_id_lies_byte_by_byte_where_the_design_says() -> None:
    message = ReplicaIdRequest(7, "c1", 0x0102030405060708, 9, 1, bytes(range(16)))
    payload = bytes.fromhex("0700 02 6331 0807060504030201 0900 01 000102030405060708090a0b0c0d0e0f")
    assert b"".join(message.encode()) == payload
    assert ReplicaIdRequest.decode(payload) == message


def example(name: str) -> memoryview:
    """The payload of a fenced block of the document."""
    [block] = re.findall(rf"^```{name}\n(.*?)^```", DOCUMENT, re.M | re.S)
    content = bytes.fromhex("".join(line.split("  ")[0] for line in block.splitlines()))
    [(_, payload)] = FrameReader().feed(content)
    assert len(payload) + 5 == len(content)
    return payload


def test_the_documents_push_is_what_its_text_says() -> None:
    request = ProduceWithBaseSeqNumRequest.decode(example("push"))
    [topic] = request.topics
    [entry] = topic.partitions
    assert (request.client_version, request.request_id, topic.name) == (PUSH_VERSION, 42, "gold")
    assert isinstance(entry.bundle, memoryview)
    assert entry.base_seq_num == 8
    length = len(entry.bundle)
    stretch.check_head(stretch.covered(0, length, 8, entry.bundle[:HEAD_BYTES]), entry.bundle)
    assert stretch.decode(entry.bundle) == Stretch(9, 3, 2, 7, 1, b"", b"")


def test_the_documents_answer_is_what_its_text_says() -> None:
    answer = PushAnswer.decode(example("answer"))
    assert answer == PushAnswer(42, 0, [PushedPartition(9, 0, 0, 7, 7, 7, 2)])


def test_an_unasked_answer_names_the_push_that_it_covers() -> None:
    answer = PushAnswer(0, 41, [PushedPartition(9, 0, 0, 7, 7, 7, 2)])
    assert b"".join(answer.encode())[:10] == bytes.fromhex("00000000 29000000 0100")
    asked = PushAnswer(42, 0, [])
    assert b"".join(asked.encode()) == bytes.fromhex("2a000000 0000")


def test_a_push_keeps_its_stretches_apart() -> None:
    first, second = Stretch(1, 2, 3, 4, 5, b"r" * 64, b"b"), Stretch(2, 1, 1, 0, 1, b"", b"")
    entries = []
    for number, value in enumerate((first, second)):
        content = encoded(value)
        entries.append(ProduceBasePartition(number, len(content), 10, content))
    request = ProduceWithBaseSeqNumRequest(PUSH_VERSION, 1, "", 0, 0, [ProduceBaseTopic("t", entries)])
    [(_, payload)] = FrameReader().feed(b"".join(frame(5, request.encode())))
    found = ProduceWithBaseSeqNumRequest.decode(payload).topics[0].partitions
    assert [stretch.decode(memoryview(entry.bundle)) for entry in found] == [first, second]
