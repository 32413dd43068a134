"""The compiled twins of `tank_protos.kafka.transcode` that make bundles of record batches.

They take batches in which every record fits as it is. All others, good or bad, are left to the plain
functions. Records are walked twice: the size of the result is found first, then it is written into bytes of
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
    COUNT_MASK,
    COUNT_SHIFT,
    KEY,
    SAME_TIMESTAMP,
    varint_bytes,
    write_varint,
)
from cython.cimports.tank_protos.compiled.record_walk import (
    Record,
    read_record,
)

from tank_protos.bundle import as_batch
from tank_protos.bundle.encoding import finish
from tank_protos.kafka.limits import MAX_CONVERTED_RECORDS, MAX_UNPACKED_BYTES
from tank_protos.kafka.record_batch import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    RecordBatchHeader,
    payload_of,
)
from tank_protos.kafka.transcode import Losses, TankBatch

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}
_NO_LOSSES: Any = Losses()
# Sums of two of these numbers cannot overflow.
_FAR = cython.declare(int64_t, 1 << 61)
_MOST_BYTES = cython.declare(uint64_t, 0x7FFFFFFF)
_MOST_RECORDS = cython.declare(cython.Py_ssize_t, MAX_CONVERTED_RECORDS)
_MOST_KEY_BYTES = cython.declare(int32_t, 255)
_HEADER_BYTES = cython.declare(cython.Py_ssize_t, HEADER_BYTES)


@cython.final
@cython.cclass
class Wanted:
    """The demands on the records of a batch that becomes a bundle."""

    count: cython.Py_ssize_t
    base_ms: int64_t
    append_ms: int64_t
    # -1: each record has its own time.
    one_time_ms: int64_t
    # Whether the offset deltas have to be 0, 1, 2 and so on.
    dense: cython.bint
    needs_keys: cython.bint
    takes_nulls: cython.bint
    takes_empty: cython.bint
    body_bytes: cython.Py_ssize_t

    @cython.cfunc
    @cython.exceptval(check=False)
    def time_of(self, delta: int64_t) -> int64_t:
        """The timestamp of a record; -1: it does not fit."""
        if self.one_time_ms >= 0:
            return self.one_time_ms
        stamp: int64_t = self.base_ms + delta
        if stamp == -1:
            return self.append_ms
        return stamp if stamp >= 0 else -1

    @cython.cfunc
    @cython.exceptval(check=False)
    def measure(self, data: cython.p_const_uchar, size: cython.size_t) -> cython.bint:
        """The first walk: whether every record fits as it is; the size of the message set."""
        record: Record
        at: cython.size_t = 0
        index: cython.Py_ssize_t
        previous: int64_t = -1
        self.body_bytes = 0
        for index in range(self.count):
            if not read_record(data, size, cython.address(at), cython.address(record)):
                return False
            if record.headers != 0 or record.key_bytes == 0 or record.key_bytes > _MOST_KEY_BYTES:
                return False
            if record.key_bytes < 0 and self.needs_keys:
                return False
            if record.value_bytes < 0 and not self.takes_nulls:
                return False
            if record.value_bytes == 0 and not self.takes_empty:
                return False
            if self.dense and record.offset_delta != index:
                return False
            if record.timestamp_delta > _FAR or record.timestamp_delta < -_FAR:
                return False
            stamp: int64_t = self.time_of(record.timestamp_delta)
            if stamp < 0:
                return False
            if stamp != previous:
                self.body_bytes += 8
                previous = stamp
            if record.key_bytes > 0:
                self.body_bytes += 1 + record.key_bytes
            length: uint32_t = 0 if record.value_bytes < 0 else record.value_bytes
            self.body_bytes += 1 + varint_bytes(length) + length
        return at == size

    @cython.cfunc
    @cython.exceptval(check=False)
    def write(self, data: cython.p_const_uchar, size: cython.size_t, to: cython.p_uchar) -> cython.void:
        """The second walk: the message set, of `body_bytes`."""
        record: Record
        at: cython.size_t = 0
        previous: int64_t = -1
        for _ in range(self.count):
            read_record(data, size, cython.address(at), cython.address(record))
            flags_at: cython.p_uchar = to
            flags: uint32_t = 0
            to += 1
            stamp: int64_t = self.time_of(record.timestamp_delta)
            if stamp != previous:
                memcpy(to, cython.address(stamp), 8)
                to += 8
                previous = stamp
            else:
                flags |= SAME_TIMESTAMP
            if record.key_bytes > 0:
                flags |= KEY
                to[0] = record.key_bytes
                memcpy(to + 1, record.key, record.key_bytes)
                to += 1 + record.key_bytes
            length: uint32_t = 0 if record.value_bytes < 0 else record.value_bytes
            to = write_varint(to, length)
            if length != 0:
                memcpy(to, record.value, length)
                to += length
            flags_at[0] = flags


@cython.cfunc
def dense_batch(wanted: Wanted, data: cython.p_const_uchar, size: cython.size_t, packs: cython.bint) -> Any:
    """A dense bundle with its length before it; None: a record does not fit as it is. packs: compressed."""
    if not wanted.measure(data, size):
        return None
    head_bytes: cython.size_t = 1
    if wanted.count > COUNT_MASK:
        head_bytes += varint_bytes(wanted.count)
    if head_bytes + wanted.body_bytes > _MOST_BYTES:
        return None
    head: cython.uchar[6]
    if wanted.count > COUNT_MASK:
        head[0] = 0
        write_varint(cython.address(head[1]), wanted.count)
    else:
        head[0] = cython.cast(uint32_t, wanted.count) << COUNT_SHIFT
    made: bytes
    if packs:
        made = PyBytes_FromStringAndSize(cython.NULL, wanted.body_bytes)
        wanted.write(data, size, cython.cast(cython.p_uchar, PyBytes_AS_STRING(made)))
        front: bytes = PyBytes_FromStringAndSize(cython.cast(cython.p_char, head), head_bytes)
        return as_batch(finish(front, made, 1, sampled=False))
    length: uint32_t = head_bytes + wanted.body_bytes
    made = PyBytes_FromStringAndSize(cython.NULL, varint_bytes(length) + length)
    to: cython.p_uchar = write_varint(cython.cast(cython.p_uchar, PyBytes_AS_STRING(made)), length)
    memcpy(to, head, head_bytes)
    wanted.write(data, size, to + head_bytes)
    return made


@cython.cfunc
def tank_batch(batch: Any, header: Any, wanted: Wanted, append_ms: Any, max_bytes: Any, payload: Any) -> Any:
    """The batch as a TankBatch; None: it is left to the plain function. payload: the records, if they are
    unpacked already, or None."""
    if not 0 < header.records_count <= _MOST_RECORDS or not 0 <= append_ms <= _FAR:
        return None
    if not -1 <= header.base_timestamp_ms <= _FAR or header.max_timestamp_ms > _FAR:
        return None
    wanted.count, wanted.append_ms = header.records_count, append_ms
    wanted.base_ms, wanted.one_time_ms = header.base_timestamp_ms, -1
    if header.attributes & LOG_APPEND_TIME:
        wanted.one_time_ms = max(header.max_timestamp_ms, 0)
    packs: cython.bint = header.codec != 0
    start: cython.Py_ssize_t = 0
    source: object = payload
    if payload is None and packs:
        source = payload_of(batch, header, max_bytes=max_bytes)
    elif payload is None:
        source = batch
        start = _HEADER_BYTES
    view: Py_buffer
    PyObject_GetBuffer(source, cython.address(view), PyBUF_SIMPLE)
    try:
        if view.len < start or view.len - start > max_bytes:
            return None
        data: Any = dense_batch(
            wanted, cython.cast(cython.p_const_uchar, view.buf) + start, view.len - start, packs
        )
    finally:
        PyBuffer_Release(cython.address(view))
    return None if data is None else TankBatch(data, _NO_LOSSES)


def produced_to_tank(
    batch: object,
    header: RecordBatchHeader,
    *,
    append_ms: int,
    compacted: cython.bint,
    lenient: object,
    payload: object = None,
    max_bytes: int = MAX_UNPACKED_BYTES,
) -> TankBatch:
    """A Kafka client's batch for a topic of TANK's format. Raises InvalidRecords."""
    wanted: Wanted = Wanted()
    wanted.dense = False
    wanted.needs_keys = wanted.takes_nulls = compacted
    wanted.takes_empty = not compacted
    made: Any = tank_batch(batch, header, wanted, append_ms, max_bytes, payload)
    if made is None:
        return PLAIN["produced_to_tank"](
            batch,
            header,
            append_ms=append_ms,
            compacted=compacted,
            lenient=lenient,
            payload=payload,
            max_bytes=max_bytes,
        )
    return made


def stored_to_tank(
    batch: object,
    header: RecordBatchHeader,
    *,
    append_ms: int,
    sparse: cython.bint,
    max_bytes: int = MAX_UNPACKED_BYTES,
) -> TankBatch:
    """A stored record batch for a TANK client. Raises InvalidRecords."""
    made: Any = None
    if not sparse and not header.attributes & CONTROL:
        wanted: Wanted = Wanted()
        wanted.dense = wanted.takes_nulls = wanted.takes_empty = True
        wanted.needs_keys = False
        made = tank_batch(batch, header, wanted, append_ms, max_bytes, None)
    if made is None:
        return PLAIN["stored_to_tank"](batch, header, append_ms=append_ms, sparse=sparse, max_bytes=max_bytes)
    return made
