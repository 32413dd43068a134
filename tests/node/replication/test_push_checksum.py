"""The checksum of a stretch's head: what is changed on its way is noticed, and nothing of it is taken."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.replication.push_frame import PushFrame, read_all, read_one
from tank_node.segment.segment import FileRange as FileStretch
from tank_protos.storage.stretch import HEAD_BYTES, BadHead, Stretch
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import HEADER_BYTES
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.leader_line import all_of, following, leader_log, opened, push_of, the_answer

U64, U32, U16 = (st.integers(0, 2**bits - 1) for bits in (64, 32, 16))
HEADS = st.tuples(U64, U32, U32, U64, U64)


def payload_of(*entries: tuple[int, int, tuple[int, int, int, int, int]], producers: bytes = b"") -> bytes:
    """Of a push without batches, as a leader writes it."""
    frame = PushFrame()
    for number, start, head in entries:
        frame.add(b"gold", number, start, head, None, producers)
    parts = frame.finish(42)
    assert not any(isinstance(part, FileStretch) for part in parts)
    return b"".join(part for part in parts if isinstance(part, bytes))[HEADER_BYTES:]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with following(tmp_path / "data") as node:
        yield node


@given(U16, U64, HEADS, st.binary(max_size=300))
def test_what_a_leader_writes_is_read_by_both_ways(
    number: int, start: int, head: tuple[int, int, int, int, int], producers: bytes
) -> None:
    payload = memoryview(payload_of((number, start, head), producers=producers))
    one = read_one(payload)
    assert one is not None
    assert (one.request_id, one.number, one.start) == (42, number, start)
    assert (tuple(one.stretch[:5]), bytes(one.stretch.producers)) == (head, producers)
    assert read_all(payload) == (42, [(number, start, one.stretch)])


def test_the_codec_of_one_stretch_writes_the_same() -> None:
    stretch = Stretch(9, 3, 2, 7, 1, b"", b"")
    written = b"".join(stretch.encode(5, 8))
    assert payload_of((5, 8, (9, 3, 2, 7, 1))).endswith(written)
    assert written.hex() == (
        "0900000000000000030000000200000007000000000000000100000000000000000000003537c228"
    )


def test_a_changed_bit_of_a_partitions_number_its_length_its_start_or_its_head_is_noticed() -> None:
    payload = payload_of((5, 8, (9, 3, 2, 7, 1)))
    name = payload.index(b"gold")
    for bit in range((name + 5) * 8, len(payload) * 8):
        changed = bytearray(payload)
        changed[bit // 8] ^= 1 << bit % 8
        for read in (read_one, read_all):
            try:
                found = read(memoryview(changed))
            except WireError:
                continue
            assert found is None, f"bit {bit} was not missed: it is left to the generated codec"


def test_a_push_that_was_changed_ends_the_connection_and_nothing_of_it_is_taken(node: BenchNode) -> None:
    line, theirs = opened(node), leader_log()
    start, stretch = all_of(theirs)
    good = push_of(1, (start, stretch))
    log = node.broker.topics["a"].partitions[0].log
    bad = stretch._replace(log_start=2**40)
    mixed = push_of(1, (start, stretch), (start, stretch))
    topic = mixed.topics[0]  # type: ignore[attr-defined]
    kept = topic.partitions[1].bundle
    topic.partitions[1].bundle = b"".join(bad.encode())[:HEAD_BYTES] + kept[HEAD_BYTES:]
    with pytest.raises(BadHead, match="it was changed on the way") as raised:
        line.send(mixed)
    assert raised.value.reason == "push_head_checksum"
    assert log.last == 0, "not even of the good one before it"
    assert the_answer(opened(node).send(good)).matched == 3


def test_batches_follow_the_head() -> None:
    stretch = all_of(leader_log())[1]
    content = b"".join(stretch.encode(0, 1))
    assert content[HEAD_BYTES + 4 :] == bytes(stretch.records) + bytes(stretch.batches)
