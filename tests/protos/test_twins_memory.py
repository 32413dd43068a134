"""Memory of the compiled functions: buffers are given back, nothing is kept, input may change meanwhile."""

import gc
import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tank_protos import kernel
from tank_protos.bundle import Codec, as_batch, encode, encode_sparse, read_header
from tank_protos.bundle import cut as bundle_cut
from tank_protos.bundle.decoding import Message
from tank_protos.iggy import polled_messages, sent_messages
from tank_protos.iggy.eras import ERA_NAMES
from tank_protos.iggy.polled_messages import PollSource
from tank_protos.kafka import produce_run as kafka_run
from tank_protos.kafka import record_batch, records, transcode
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.records import KafkaRecord
from tank_protos.storage import produce_run
from tank_protos.wire.errors import OutOfRange, WireError
from tests.support.iggy.client_messages import ClientMessage
from tests.support.iggy.stored import NOW_MS, TOPIC_ID, request
from tests.support.iggy.stored import stored as stored_of_iggy

if kernel.NAME == "pure":
    pytest.skip("the compiled kernel is not built, or switched off", allow_module_level=True)

Call = Callable[[], object]
VALUES = [b"content %d" % number for number in range(40)]
KEYS = [b"key", None] * 20
STAMPS = list(range(40))
DENSE = encode(VALUES, timestamps=STAMPS, keys=KEYS, codec=Codec.NONE)
SPARSE = encode_sparse(range(5, 85, 2), VALUES, timestamps=7, keys=KEYS, codec=Codec.NONE)
RECORDS = [
    KafkaRecord(key, value, at, at, ((b"name", b"x"),) if at % 7 == 6 else ())
    for at, (key, value) in enumerate(zip(KEYS, VALUES, strict=True))
]
PLAIN_RECORDS = RECORDS[:6]
BATCH = record_batch.encode(RECORDS, base_timestamp_ms=7)
PLAIN_BATCH = record_batch.encode(PLAIN_RECORDS, base_timestamp_ms=7)
PREFIX = b"\3c++" + bytes(5) + b"\1" + b"\1a" + b"\1" + b"\3\0"


def compiled(name: str) -> Callable[..., Any]:
    [pair] = [pair for pair in kernel.PAIRS if pair.plain.__name__ == name]
    return pair.compiled


def readers(dense: bytearray, sparse: bytearray) -> list[Call]:
    """Calls that read these bytes, which are those of DENSE and SPARSE or spoiled ones."""
    start, header = read_header(DENSE).body_offset, read_header(SPARSE)
    ends = header.messages, header.first, header.last
    return [
        lambda: compiled("read_header")(dense),
        lambda: compiled("validate")(memoryview(dense)),
        lambda: compiled("parse_dense")(dense, start),
        lambda: compiled("parse_sparse")(sparse, header.body_offset, *ends),
    ]


def found_in(data: bytearray) -> object:
    run = compiled("ProduceRun")()
    with memoryview(data) as view:
        answers = run.find(data, view, 0, len(data), PREFIX, 100, 1 << 20)
        made = answers, run.records(0, 1, 0, 1 << 20, 100, 6, 4, 7, 1), run.slices(0, run.batches)
        for piece in made[2]:
            piece.release()
        run.clear()
    return made[:2]


def found_requests_in(data: bytearray) -> object:
    run = compiled("KafkaProduceRun")()
    try:
        found = run.find(memoryview(data), 0, len(data), 3, PREFIX, 100, 1 << 20, 2**62, 5, True, True, False)
        made = found, run.records(0, 1, 0, 1 << 20, 100, 6, 4, 7, 1), run.slices(0, run.batches)
        return made, run.answers(bytes(30), 12, 7), run.produced(0, found)
    finally:
        run.clear()


def converted(batch: bytes) -> list[Call]:
    """Calls that convert a record batch, and walk its records."""
    header = record_batch.verify(memoryview(batch))
    payload = record_batch.payload_of(batch, header)
    count = header.records_count
    assert records
    assert transcode
    view, written = memoryview(batch), memoryview(bytearray(batch))
    return [
        lambda: compiled("check")(view),
        lambda: compiled("check")(view, max_bytes=len(batch) - 1),
        lambda: compiled("check")(view[:-1]),
        lambda: compiled("verify")(view),
        lambda: compiled("verify")(view[:40]),
        lambda: compiled("patch")(written, 2**40, 7),
        lambda: compiled("walk")(payload, count, count - 1),
        lambda: compiled("walk")(payload, count + 1, count - 1),
        lambda: compiled("read_columns")(payload, count),
        lambda: compiled("read_columns")(payload, count + 1),
        lambda: compiled("produced_to_tank")(batch, header, append_ms=5, compacted=False, lenient=False),
        lambda: compiled("produced_to_tank")(batch, header, append_ms=5, compacted=False, lenient=True),
        lambda: compiled("stored_to_tank")(batch, header, append_ms=5, sparse=False),
        lambda: compiled("stored_to_tank")(batch, header, append_ms=5, sparse=True),
    ]


def stored(batch: bytes) -> list[Call]:
    """Calls that convert a bundle with its length before it."""
    return [
        lambda: compiled("produced_to_kafka")(batch, compacted=False),
        lambda: compiled("stored_to_kafka")(batch, 1, leader_epoch=3, compacted=True),
    ]


def of_iggy(era: str) -> list[Call]:
    """Calls that store a send, and answer a poll, good ones and bad ones."""
    messages = [ClientMessage(b"x" * 40, 7, 1_000_001, ((b"k", 2, b"v", 3),))] * 30
    sent, batch, named = request(messages, era), stored_of_iggy(messages, era).data, ERA_NAMES[era]
    assert polled_messages
    assert sent_messages
    sources = (
        PollSource(batch, NOW_MS, 1),
        PollSource(batch[:-1], NOW_MS, 1),
        PollSource(record_batch.encode(RECORDS, base_timestamp_ms=7, codec=KafkaCodec.GZIP), NOW_MS, 1),
        PollSource(as_batch(SPARSE), NOW_MS, 1, is_bundle=True),
        PollSource(as_batch(encode(VALUES, timestamps=5, codec=Codec.SNAPPY)), NOW_MS, 1, is_bundle=True),
    )
    return [
        lambda: compiled("record_batch")(sent, named, NOW_MS),
        lambda: compiled("record_batch")(sent._replace(messages=sent.messages[:-1]), named, NOW_MS),
        *(
            partial(compiled("messages_of"), source, named, TOPIC_ID, 0, lowest, 20)
            for source in sources
            for lowest in (0, 5)
        ),
    ]


def calls() -> list[Call]:
    """Each compiled function, over good input and bad."""
    batch = as_batch(encode([b"x" * 40], timestamps=5))
    payload = b"\2\0\1\0\0\0" + PREFIX + batch
    frames = bytearray((b"\1" + len(payload).to_bytes(4, "little") + payload) * 9)
    body = b"\0\0\0\3" + bytes(4) + PREFIX + len(BATCH).to_bytes(4, "big") + BATCH
    requests = bytearray((len(body).to_bytes(4, "big") + body) * 80)
    cut, fill = compiled("encode"), compiled("fill")
    rows = (STAMPS, KEYS, VALUES)
    assert produce_run
    assert bundle_cut
    assert kafka_run
    return [
        *readers(bytearray(DENSE), bytearray(SPARSE)),
        *readers(bytearray(DENSE[:-1]), bytearray(SPARSE[:-1])),
        *readers(bytearray(b"\xff" * 50), bytearray(b"\xff" * 50)),
        lambda: compiled("validate")(memoryview(batch)),
        lambda: compiled("tuples")(Message, range(1, 41), *rows),
        lambda: compiled("tuples")(Message, [2**70] * 40, *rows),
        lambda: cut(VALUES, timestamps=STAMPS, keys=KEYS),
        lambda: cut(tuple(VALUES), timestamps=5, codec=Codec.NONE),
        lambda: cut(VALUES, timestamps=-1),
        lambda: cut(VALUES, timestamps=[2**64] * 40),
        lambda: cut(VALUES, timestamps=5, keys=[b"k" * 256] * 40),
        lambda: compiled("encode_sparse")(range(5, 45), VALUES, timestamps=5, keys=KEYS),
        lambda: compiled("encode_sparse")([5] * 40, VALUES, timestamps=5),
        lambda: fill(VALUES, KEYS, 0, 100, 200),
        lambda: found_in(frames),
        lambda: found_requests_in(requests),
        *converted(BATCH),
        *converted(PLAIN_BATCH),
        *stored(as_batch(DENSE)),
        *stored(as_batch(SPARSE)),
        *stored(as_batch(encode(VALUES * 20, timestamps=5, codec=Codec.SNAPPY))),
        *stored(as_batch(DENSE[:-1])),
        *of_iggy("S"),
        *of_iggy("B1"),
        *of_iggy("B3"),
        *of_iggy("V11"),
    ]


def quietly(call: Call) -> None:
    with suppress(WireError, MemoryError):
        call()


@pytest.mark.parametrize("spoil", [lambda data: data, lambda data: data[:-1], lambda data: b"\xff" * 50])
def test_a_buffer_is_given_back_whatever_it_holds(spoil: Callable[[bytes], bytes]) -> None:
    """A bytearray cannot grow as long as somebody holds it."""
    dense, sparse = bytearray(spoil(DENSE)), bytearray(spoil(SPARSE))
    for call in readers(dense, sparse):
        quietly(call)
        dense += b"!"
        sparse += b"!"
        del dense[-1], sparse[-1]


@pytest.mark.parametrize("place", range(len(calls())))
def test_nothing_is_kept_of_what_was_read_or_written(place: int) -> None:
    call = calls()[place]
    for _ in range(50):
        quietly(call)
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(500):
        quietly(call)
    gc.collect()
    assert sys.getallocatedblocks() - before < 50, "one block a call would be 500"


@pytest.mark.parametrize("place", range(len(calls())))
def test_a_lack_of_memory_ends_the_call_and_nothing_else(place: int) -> None:
    """At each of the first allocations in turn; what the interpreter says then is its own affair.

    Not where the input is refused: Cython notes a line in the error's traceback, and without memory for it
    Python 3.13 crashes.
    """
    try:
        testcapi = importlib.import_module("_testcapi")
    except ImportError:
        pytest.skip("this Python cannot pretend to have no memory")
    call = calls()[place]
    try:
        call()
    except WireError:
        return
    for allocation in range(1, 60):
        try:
            testcapi.set_nomemory(allocation, allocation + 1)
            call()
        except (MemoryError, SystemError):
            pass
        finally:
            testcapi.remove_mem_hooks()
    call()


def test_a_codec_that_changes_the_columns_when_it_is_asked() -> None:
    values = [b"x" * 100] * 1000

    class Emptying:
        def __bool__(self) -> bool:
            values.clear()
            return False

        __ne__ = __bool__  # type: ignore[assignment]

    with pytest.raises(OutOfRange, match="at least one message"):
        compiled("encode")(values, timestamps=5, codec=Emptying())


class Finalized:
    """Runs something when the collector finds it."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.action = action
        self.itself = self

    def __del__(self) -> None:
        self.action()


def with_a_collection(action: Callable[[], object], call: Call) -> object:
    """Calls it so that the first object which the collector knows brings a collection, and the action with
    it: on CPython 3.11; later ones wait until Python code runs."""
    spare = [[] for _ in range(300)]  # type: ignore[var-annotated]  # lists are made anew, not used again
    before = gc.get_threshold()
    gc.collect()
    Finalized(action)
    gc.set_threshold(1)
    try:
        return call()
    finally:
        gc.set_threshold(*before)
        assert len(spare) == 300


def test_bytes_that_change_while_they_are_read() -> None:
    """The same lengths, and a timestamp for each message where only the first had one."""
    before = encode([b"\0" * 7 + b"\1x"] * 50, timestamps=0, codec=Codec.NONE)
    start = read_header(before).body_offset
    after = bytearray(before)
    for place in range(start + 19, len(before), 11):
        assert before[place] == 2
        after[place] = 0
    data = bytearray(before)

    def change() -> None:
        data[:] = after

    plain = next(pair.plain for pair in kernel.PAIRS if pair.plain.__name__ == "parse_dense")
    parse_dense = compiled("parse_dense")
    found = with_a_collection(change, lambda: parse_dense(data, start))
    assert found in (plain(before, start), plain(after, start))


def test_columns_that_become_shorter_while_others_are_looked_at() -> None:
    values, stamps = [b"x" * 50] * 3000, (5,) * 3000
    encode_columns, encoded = compiled("encode"), None
    try:
        encoded = with_a_collection(values.clear, lambda: encode_columns(values, timestamps=stamps, codec=0))
    except OutOfRange:
        assert not values
    assert encoded is None or encoded == encode([b"x" * 50] * 3000, timestamps=5, codec=Codec.NONE)
