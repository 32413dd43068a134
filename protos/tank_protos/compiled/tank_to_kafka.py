"""The compiled twins of `tank_protos.kafka.transcode` that make record batches of bundles.

They take bundles in which every message fits as it is. All others, good or bad, are left to the plain
functions. Messages are walked twice: the size of the result is found first, then it is written into bytes of
that size. Between the two walks no code runs that could change the bytes to read: only `bytes` are made.
"""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.tank_protos.compiled.bundle_walk import (
    SAME_TIMESTAMP,
    Found,
    Header,
    has_delta,
    number_of,
    read_bundle_header,
    read_varint,
)
from cython.cimports.tank_protos.compiled.bundle_walk import Message as BundleMessage
from cython.cimports.tank_protos.compiled.bundle_walk import read_message as read_bundle_message
from cython.cimports.tank_protos.compiled.crc32c_header import crc32c
from cython.cimports.tank_protos.compiled.record_walk import (
    write_zigzag,
    zigzag_bytes,
)

from tank_protos.bundle import read_header
from tank_protos.bundle.decoding import unpacked
from tank_protos.kafka.codecs import KafkaCodec, pack
from tank_protos.kafka.limits import MAX_CONVERTED_RECORDS, MAX_UNPACKED_BYTES
from tank_protos.kafka.record_batch import (
    HEADER_BYTES,
    RecordBatchHeader,
    seal,
)
from tank_protos.wire.errors import WireError

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}
_MOST_TIME = cython.declare(uint64_t, 0x7FFFFFFFFFFFFFFF)
_MOST_NUMBER = cython.declare(uint64_t, 0x7FFFFFFFFFFFFFFE)
_MOST_DELTA = cython.declare(uint64_t, 0x7FFFFFFF)
_MOST_BYTES = cython.declare(uint64_t, 0x7FFFFFFF)
_MOST_RECORDS = cython.declare(cython.Py_ssize_t, MAX_CONVERTED_RECORDS)
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, HEADER_BYTES)
_COVERED_FROM = cython.declare(cython.Py_ssize_t, 21)


@cython.final
@cython.cclass
class Converted:
    """The messages of a bundle that becomes a record batch, and the measures of that."""

    found: Found
    first: uint64_t
    # Whether empty content with a key is a null value.
    compacted: cython.bint
    last_delta: uint64_t
    base_ms: uint64_t
    most_ms: uint64_t
    bytes: cython.size_t

    @cython.cfunc
    @cython.exceptval(check=False)
    def measure(self) -> cython.bint:
        """The first walk: whether all messages fit into one batch; the size of its records."""
        message: BundleMessage
        at: cython.size_t = self.found.start
        index: cython.size_t
        number: uint64_t = self.first - 1
        stamp: uint64_t = 0
        self.bytes = 0
        for index in range(self.found.announced):
            if not read_bundle_message(
                self.found.data,
                self.found.end,
                cython.address(at),
                has_delta(cython.address(self.found), index),
                cython.address(message),
            ):
                return False
            number = number_of(cython.address(self.found), index, number, cython.address(message))
            if message.flags & SAME_TIMESTAMP == 0:
                stamp = message.timestamp
            elif index == 0:
                return False
            if index == 0:
                self.base_ms = self.most_ms = stamp
            if stamp > _MOST_TIME or number - self.first > _MOST_DELTA:
                return False
            if stamp > self.most_ms:
                self.most_ms = stamp
            length: cython.size_t = self.record_bytes(number, stamp, cython.address(message))
            self.bytes += zigzag_bytes(length) + length
            if self.bytes > _MOST_BYTES:
                return False
        self.last_delta = number - self.first
        if self.found.sparse and number != self.found.last:
            return False
        return at == self.found.end

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def record_bytes(
        self, number: uint64_t, stamp: uint64_t, message: cython.pointer[BundleMessage]
    ) -> cython.size_t:
        """The size of a record without the length before it."""
        size: cython.size_t = 2 + zigzag_bytes(cython.cast(int64_t, stamp - self.base_ms))
        size += zigzag_bytes(number - self.first)
        size += 1 if message.key_bytes == 0 else zigzag_bytes(message.key_bytes) + message.key_bytes
        if self.is_null(message):
            return size + 1
        return size + zigzag_bytes(message.value_bytes) + message.value_bytes

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def is_null(self, message: cython.pointer[BundleMessage]) -> cython.bint:
        """Whether the record's value is null."""
        return self.compacted and message.value_bytes == 0 and message.key_bytes != 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def write(self, to: cython.p_uchar) -> cython.void:
        """The second walk: the records."""
        message: BundleMessage
        at: cython.size_t = self.found.start
        index: cython.size_t
        number: uint64_t = self.first - 1
        stamp: uint64_t = 0
        for index in range(self.found.announced):
            read_bundle_message(
                self.found.data,
                self.found.end,
                cython.address(at),
                has_delta(cython.address(self.found), index),
                cython.address(message),
            )
            number = number_of(cython.address(self.found), index, number, cython.address(message))
            if message.flags & SAME_TIMESTAMP == 0:
                stamp = message.timestamp
            to = write_zigzag(to, self.record_bytes(number, stamp, cython.address(message)))
            to[0] = 0
            to = write_zigzag(to + 1, cython.cast(int64_t, stamp - self.base_ms))
            to = write_zigzag(to, number - self.first)
            if message.key_bytes == 0:
                to[0] = 1
                to += 1
            else:
                to = write_zigzag(to, message.key_bytes)
                memcpy(to, message.key, message.key_bytes)
                to += message.key_bytes
            if self.is_null(cython.address(message)):
                to[0] = 1
                to += 1
            else:
                to = write_zigzag(to, message.value_bytes)
                memcpy(to, message.value, message.value_bytes)
                to += message.value_bytes
            to[0] = 0
            to += 1


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def big_endian(to: cython.p_uchar, value: uint64_t, size: cython.int) -> cython.p_uchar:
    """Writes an integer; returns the place behind it."""
    index: cython.int
    for index in range(size):
        to[index] = value >> (8 * (size - 1 - index))
    return to + size


@cython.cfunc
def plain_batch(records: Converted, leader_epoch: int32_t) -> bytes:
    """An uncompressed record batch of no producer."""
    size: cython.Py_ssize_t = _HEADER_BYTES + records.bytes
    made: bytes = PyBytes_FromStringAndSize(cython.NULL, size)
    begin: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(made))
    records.write(begin + _HEADER_BYTES)
    to: cython.p_uchar = big_endian(begin, records.first - 1, 8)
    to = big_endian(to, size - 12, 4)
    to = big_endian(to, cython.cast(uint64_t, leader_epoch), 4)
    to = big_endian(to, 2, 1)
    crc_at: cython.p_uchar = to
    to = big_endian(to + 4, 0, 2)
    to = big_endian(to, records.last_delta, 4)
    to = big_endian(to, records.base_ms, 8)
    to = big_endian(to, records.most_ms, 8)
    to = big_endian(to, cython.cast(uint64_t, -1), 8)
    to = big_endian(to, cython.cast(uint64_t, -1), 2)
    to = big_endian(to, cython.cast(uint64_t, -1), 4)
    big_endian(to, records.found.announced, 4)
    big_endian(crc_at, crc32c(0, begin + _COVERED_FROM, size - _COVERED_FROM), 4)
    return made


@cython.cfunc
def packed_batch(records: Converted) -> bytes:
    """A record batch of no producer and no epoch, compressed by snappy."""
    payload: bytes = PyBytes_FromStringAndSize(cython.NULL, records.bytes)
    records.write(cython.cast(cython.p_uchar, PyBytes_AS_STRING(payload)))
    header: Any = RecordBatchHeader(
        records.first - 1,
        0,
        -1,
        2,
        0,
        KafkaCodec.SNAPPY,
        records.last_delta,
        records.base_ms,
        records.most_ms,
        -1,
        -1,
        -1,
        records.found.announced,
    )
    return seal(header, pack(KafkaCodec.SNAPPY, payload))


@cython.cfunc
def record_batch_of(
    batch: Any,
    first: uint64_t,
    leader_epoch: int32_t,
    compacted: cython.bint,
    packs: cython.bint,
    most: Any,
) -> Any:
    """The record batch for a bundle with its length before it; None: it is left to the plain function. packs:
    compressed, if the bundle is."""
    view: Py_buffer
    header: Header
    at: cython.size_t = 0
    length: uint32_t = 0
    records: Converted = Converted()
    records.compacted = compacted
    PyObject_GetBuffer(batch, cython.address(view), PyBUF_SIMPLE)
    try:
        data: cython.p_const_uchar = cython.cast(cython.p_const_uchar, view.buf)
        size: cython.size_t = view.len
        if not read_varint(data, size, cython.address(at), cython.address(length)) or length != size - at:
            return None
        if not read_bundle_header(data, at, size, cython.address(header)):
            return None
        if header.messages > _MOST_RECORDS:
            return None
        records.first = header.first if header.sparse else first
        if records.first < 1 or records.first > _MOST_NUMBER - header.messages:
            return None
        records.found.sparse = header.sparse
        records.found.announced, records.found.last = header.messages, header.last
        if header.codec == 0:
            records.found.data, records.found.start, records.found.end = data, header.body_offset, size
            return plain_batch(records, leader_epoch) if records.measure() else None
    finally:
        PyBuffer_Release(cython.address(view))
    bundle: Any = memoryview(batch)[at:]
    body: Any = unpacked(bundle, read_header(bundle), most)[0]
    records.found.data = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(body))
    records.found.start, records.found.end = 0, len(body)
    if not records.measure():
        return None
    return packed_batch(records) if packs else plain_batch(records, leader_epoch)


def produced_to_kafka(batch: object, *, compacted: cython.bint, max_bytes: int = MAX_UNPACKED_BYTES) -> bytes:
    """A TANK client's batch for a topic of Kafka's format. Raises InvalidBundle, InvalidRecords."""
    made: Any = None
    try:
        made = record_batch_of(batch, 1, -1, compacted, True, max_bytes)
    except WireError:
        made = None
    if made is None:
        return PLAIN["produced_to_kafka"](batch, compacted=compacted, max_bytes=max_bytes)
    return made


def stored_to_kafka(
    batch: object,
    first: uint64_t,
    *,
    leader_epoch: int32_t,
    compacted: cython.bint,
    max_bytes: int = MAX_UNPACKED_BYTES,
) -> bytes:
    """A stored batch of TANK's for a Kafka client. Raises InvalidBundle."""
    made: Any = None
    try:
        made = record_batch_of(batch, first, leader_epoch, compacted, False, max_bytes)
    except WireError:
        made = None
    if made is None:
        return PLAIN["stored_to_kafka"](
            batch, first, leader_epoch=leader_epoch, compacted=compacted, max_bytes=max_bytes
        )
    return made
