"""The bytes of a push and of its answer as they are read and written by hand: what the generated codec says,
for the form that nearly all have; every other form is left to that codec."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.replication.push_frame import OnePush, answer_to, read_answer, read_one
from tank_protos.feature_levels import PUSH_VERSIONS
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProduceBaseTopic,
    ProduceWithBaseSeqNumRequest,
    PushAnswer,
    PushedPartition,
)
from tank_protos.storage.index_record import RECORD_BYTES
from tank_protos.storage.stretch import (
    HEAD_BYTES,
    PUSH_VERSION,
    Stretch,
    check_head,
    covered,
    decode,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import frame

U64, U32 = st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)
PUSHED = st.builds(PushedPartition, U64, st.integers(0, 2**16 - 1), st.integers(0, 255), U64, U64, U64, U32)


def entry(number: int = 3, start: int = 70, batches: bytes = b"a batch") -> ProduceBasePartition:
    stretch = Stretch(9, 5, 4, 60, 1, b"r" * RECORD_BYTES if batches else b"", batches)
    content = b"".join(stretch.encode(number, start))
    return ProduceBasePartition(number, len(content), start, content)


def push(*topics: ProduceBaseTopic, **changes: object) -> bytes:
    request = ProduceWithBaseSeqNumRequest(PUSH_VERSION, 8, "", 0, 0, list(topics))
    for name, value in changes.items():
        setattr(request, name, value)
    return b"".join(request.encode())


def generated(payload: bytes) -> OnePush | None:
    """What the generated codec finds; None: not one partition, or no push."""
    try:
        request = ProduceWithBaseSeqNumRequest.decode(payload)
    except WireError:
        return None
    entries = [one for topic in request.topics for one in topic.partitions]
    if len(entries) != 1 or len(request.topics) != 1 or request.client_version not in PUSH_VERSIONS:
        return None
    try:
        given = memoryview(entries[0].bundle)
        number, start = entries[0].partition, entries[0].base_seq_num
        check_head(covered(number, len(given), start, given[:HEAD_BYTES]), given)
        content = decode(given)
    except WireError:
        return None
    return OnePush(request.request_id, entries[0].partition, entries[0].base_seq_num, content)


def found(payload: bytes) -> OnePush | None:
    try:
        return read_one(memoryview(payload))
    except WireError:
        return None


@pytest.mark.parametrize("name", ["a", "", "a topic with a long name " * 10, "t\udcffpic"])
@pytest.mark.parametrize("batches", [b"", b"x", b"b" * 200_000])
def test_a_push_that_names_one_partition_is_what_the_generated_decoder_finds(
    name: str, batches: bytes
) -> None:
    payload = push(ProduceBaseTopic(name, [entry(batches=batches)]))
    assert found(payload) == generated(payload) is not None


@pytest.mark.parametrize(
    "payload",
    [
        push(),
        push(ProduceBaseTopic("a", [])),
        push(ProduceBaseTopic("a", [entry(1), entry(2)])),
        push(ProduceBaseTopic("a", [entry(1)]), ProduceBaseTopic("b", [entry(1)])),
        push(ProduceBaseTopic("a", [entry(1)]), client_version=3),
        push(ProduceBaseTopic("a", [entry(1)]), client_id="somebody"),
        push(ProduceBaseTopic("a", [entry(1)]), request_id=0),
        push(ProduceBaseTopic("a", [entry(1)])) + b"\0",
    ],
    ids=["none", "no partition", "two", "two topics", "a client", "a client's id", "no id", "trailing"],
)
def test_anything_else_is_left_to_the_generated_decoder(payload: bytes) -> None:
    assert read_one(memoryview(payload)) is None


def test_it_ends_nowhere_else_and_each_byte_of_it_counts() -> None:
    """Cut anywhere, or with any byte changed, it is what the generated decoder finds, or left to that."""
    payload = push(ProduceBaseTopic("ab", [entry(batches=b"x" * 300)]))
    assert all(found(payload[:length]) is None for length in range(len(payload)))
    for at in range(len(payload)):
        for value in (0, 1, 2, 127, 128, 255):
            changed = payload[:at] + bytes([value]) + payload[at + 1 :]
            assert found(changed) in (None, generated(changed))


@given(st.integers(1, 2**32 - 1), st.lists(PUSHED, max_size=3))
def test_an_answer_is_the_generated_encoders_and_read_as_its_decoder_does(
    request_id: int, answers: list[PushedPartition]
) -> None:
    answer = PushAnswer(request_id, 0, answers)
    encoded = answer.encode()
    assert answer_to(request_id, answers) == b"".join(frame(PushAnswer.ID, encoded))
    assert read_answer(memoryview(b"".join(encoded))) == answer


@given(U32, st.lists(PUSHED, max_size=2))
def test_what_nobody_asked_for_is_read_as_the_generated_decoder_does(
    covers: int, answers: list[PushedPartition]
) -> None:
    answer = PushAnswer(0, covers, answers)
    assert read_answer(memoryview(b"".join(answer.encode()))) == answer


@given(st.binary(max_size=60) | st.binary(min_size=45, max_size=45))
def test_any_bytes_are_read_or_refused_as_by_the_generated_decoder(payload: bytes) -> None:
    try:
        wanted = PushAnswer.decode(payload)
    except WireError as refused:
        with pytest.raises(type(refused)):
            read_answer(memoryview(payload))
        return
    assert read_answer(memoryview(payload)) == wanted
