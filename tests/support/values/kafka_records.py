"""Hypothesis strategies for records and batches of Kafka's formats, and short ways to make some."""

from __future__ import annotations

from itertools import accumulate
from struct import Struct

from fastcrc.crc32 import iscsi as crc32c
from hypothesis import strategies as st

from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.records import KafkaRecord, iterate
from tests.support.values.bundle_shapes import several

STAMP_MS = 1_795_212_193_980
SMALL = st.binary(max_size=6) | st.sampled_from([b"", b"x" * 63, b"y" * 64, b"z" * 300])
HEADERS = st.lists(st.tuples(SMALL, st.none() | SMALL), max_size=3).map(tuple)
DELTAS = st.integers(-(2**40), 2**40) | st.integers(-70, 70)


@st.composite
def records(draw: st.DrawFn, dense: bool = True) -> list[KafkaRecord]:
    """1 to 12 records with everything that a record can have; dense: their offsets follow one another."""
    count = draw(st.integers(1, 12))
    keys, values = several(draw, st.none() | SMALL, count), several(draw, st.none() | SMALL, count)
    deltas, headers = several(draw, DELTAS, count), several(draw, HEADERS, count)
    steps = [1] * count if dense else several(draw, st.integers(1, 3) | st.just(40_000), count)
    offsets = (offset - 1 for offset in accumulate(steps))
    return list(map(KafkaRecord, keys, values, offsets, deltas, headers))


def read(batch: bytes) -> list[KafkaRecord]:
    """The records of a good batch."""
    header = record_batch.verify(memoryview(batch))
    return list(iterate(record_batch.payload_of(batch, header), header.records_count))


def values_batch(*values: bytes | None, codec: KafkaCodec = KafkaCodec.NONE) -> bytes:
    """A producer's batch of these values, with the keys k0, k1 and so on, a millisecond apart."""
    made = [KafkaRecord(b"k%d" % index, value, index, index) for index, value in enumerate(values)]
    return record_batch.encode(made, base_timestamp_ms=STAMP_MS, codec=codec)


def with_count(batch: bytes, count: int) -> bytes:
    """The batch with another number of records in its header."""
    return changed(changed(batch, 57, ">i", count), 23, ">i", count - 1)


def changed(batch: bytes, at: int, layout: str, value: int) -> bytes:
    """The batch with another value in a field of its header, and the checksum that it has then."""
    copy = bytearray(batch)
    Struct(layout).pack_into(copy, at, value)
    copy[17:21] = crc32c(copy[21:]).to_bytes(4, "big")
    return bytes(copy)
