"""The compiled twins of `tank_protos.kafka.record_batch`: they check a batch by its header and checksum, and
write the broker's own fields.

The plain functions take what the twins refuse, and raise the error.

Memory safety: every field is read and written in the first 61 bytes of a buffer that has them, and the buffer
is held meanwhile.
"""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t
from cython.cimports.tank_protos.compiled.crc32c_header import crc32c
from cython.cimports.tank_protos.compiled.named_tuples import new_tuple, put
from cython.cimports.tank_protos.compiled.record_batch_head import (
    COVERED_FROM,
    HEADER_BYTES,
    LENGTH_END,
    may_be_sent,
    may_be_stored,
    read_i16,
    read_i32,
    read_i64,
    read_u32,
    write_i64,
    write_u32,
)
from fastcrc.crc32 import iscsi

from tank_protos.kafka.limits import MAX_BATCH_BYTES
from tank_protos.kafka.record_batch import ANY_TIME, RecordBatchHeader

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}

MAX_I32 = cython.declare(cython.Py_ssize_t, 2**31 - 1)
# From here on the other library's checksum is faster than the call of it costs.
LONG = cython.declare(cython.Py_ssize_t, 8 * 1024)
_HEADER: type = RecordBatchHeader


@cython.cfunc
def matches(batch: Any, p: cython.p_const_uchar, size: cython.Py_ssize_t) -> cython.bint:
    """Whether the checksum is that of the bytes behind it."""
    wanted: uint32_t = read_u32(p + 17)
    if size < LONG:
        return crc32c(0, p + COVERED_FROM, size - COVERED_FROM) == wanted
    return iscsi(memoryview(batch)[COVERED_FROM:]) == wanted


@cython.cfunc
def header_of(p: cython.p_const_uchar) -> object:
    """The header's fields."""
    row: Any = new_tuple(_HEADER, 13)
    put(row, 0, read_i64(p))
    put(row, 1, read_i32(p + 8))
    put(row, 2, read_i32(p + 12))
    put(row, 3, cython.cast(cython.schar, p[16]))
    put(row, 4, read_u32(p + 17))
    put(row, 5, read_i16(p + 21))
    put(row, 6, read_i32(p + 23))
    put(row, 7, read_i64(p + 27))
    put(row, 8, read_i64(p + 35))
    put(row, 9, read_i64(p + 43))
    put(row, 10, read_i16(p + 51))
    put(row, 11, read_i32(p + 53))
    put(row, 12, read_i32(p + 57))
    return row


def verify(batch: object) -> RecordBatchHeader:
    """The header of a batch that a log may hold. Raises InvalidRecords."""
    view: Py_buffer
    PyObject_GetBuffer(batch, cython.address(view), PyBUF_SIMPLE)
    try:
        data: cython.p_const_uchar = cython.cast(cython.p_const_uchar, view.buf)
        if may_be_stored(data, view.len) and matches(batch, data, view.len):
            return header_of(data)
    finally:
        PyBuffer_Release(cython.address(view))
    return PLAIN["verify"](batch)


def check(
    batch: object, *, max_bytes: cython.Py_ssize_t = MAX_BATCH_BYTES, latest_ms: int64_t = ANY_TIME
) -> RecordBatchHeader:
    """The header of a batch that a producer may send. Raises InvalidRecords."""
    view: Py_buffer
    PyObject_GetBuffer(batch, cython.address(view), PyBUF_SIMPLE)
    try:
        data: cython.p_const_uchar = cython.cast(cython.p_const_uchar, view.buf)
        if (
            view.len <= max_bytes
            and may_be_stored(data, view.len)
            and may_be_sent(data, latest_ms)
            and matches(batch, data, view.len)
        ):
            return header_of(data)
    finally:
        PyBuffer_Release(cython.address(view))
    return PLAIN["check"](batch, max_bytes=max_bytes, latest_ms=latest_ms)


def patch(batch: object, base_offset: int64_t, leader_epoch: int32_t) -> None:
    """Writes base offset and leader epoch into a batch that was checked."""
    view: Py_buffer
    PyObject_GetBuffer(batch, cython.address(view), PyBUF_SIMPLE)
    try:
        fits: cython.bint = not view.readonly and view.len >= HEADER_BYTES
        if fits and view.len - LENGTH_END <= MAX_I32:
            data: cython.p_uchar = cython.cast(cython.p_uchar, view.buf)
            write_i64(data, base_offset)
            write_u32(data + 8, cython.cast(uint32_t, view.len - LENGTH_END))
            write_u32(data + 12, cython.cast(uint32_t, leader_epoch))
            return
    finally:
        PyBuffer_Release(cython.address(view))
    PLAIN["patch"](batch, base_offset, leader_epoch)
