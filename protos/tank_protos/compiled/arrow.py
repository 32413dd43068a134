"""The compiled twin of `bundle.arrow.gathered_columns`: message sets straight into buffers as Arrow has them.

Every message is checked before it is written, and no more messages are taken of a set than its header says:
the buffers are made for those, and for all bytes of the sets. What is not good goes to the plain function,
which refuses it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import int32_t, int64_t, uint8_t, uint64_t
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.tank_protos.compiled.bundle_walk import (
    SAME_TIMESTAMP,
    Found,
    Message,
    has_delta,
    number_of,
    read_message,
)

from tank_protos.bundle.arrow import MAX_TIMESTAMP_MS, ArrowColumns, keys_over
from tank_protos.bundle.header import MAX_KEY_BYTES

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}
_LATEST_MS = cython.declare(uint64_t, MAX_TIMESTAMP_MS)
_KEY_BYTES = cython.declare(cython.Py_ssize_t, MAX_KEY_BYTES)

# Where the next row goes, and for how much there is room; `keys` is null as long as no message had a key.
# Invariant: count <= most_rows, value_bytes + key_bytes <= most_bytes.
Rows = cython.struct(
    most_rows=cython.size_t,
    most_bytes=cython.size_t,
    count=cython.size_t,
    ends=cython.pointer(int32_t),
    values=cython.pointer(uint8_t),
    value_bytes=cython.size_t,
    numbers=cython.pointer(int64_t),
    timestamps=cython.pointer(int64_t),
    validity=cython.pointer(uint8_t),
    key_ends=cython.pointer(int32_t),
    keys=cython.pointer(uint8_t),
    key_bytes=cython.size_t,
)


@cython.cfunc
def room(size: cython.Py_ssize_t) -> bytes:
    """Bytes to be filled."""
    return PyBytes_FromStringAndSize(cython.NULL, size)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_key(rows: cython.pointer[Rows], message: cython.pointer[Message]) -> cython.void:
    """The row's key, or that it has none."""
    if message.key_bytes:
        rows.validity[rows.count >> 3] |= cython.cast(uint8_t, 1 << (rows.count & 7))
        memcpy(rows.keys + rows.key_bytes, message.key, message.key_bytes)
        rows.key_bytes += message.key_bytes
    rows.key_ends[rows.count + 1] = rows.key_bytes


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def take(
    rows: cython.pointer[Rows],
    found: cython.pointer[Found],
    first: uint64_t,
    lower: uint64_t,
    upper: uint64_t,
) -> cython.int:
    """Puts the set's wanted messages into the rows. 0: it is bad; 1: good; 2: it has keys, and there is no
    room for them yet (what was put is to be forgotten).
    """
    message: Message
    at: cython.size_t = found.start
    number: uint64_t = first - 1
    stamp: uint64_t = 0
    index: cython.size_t = 0
    message.key, message.timestamp = cython.NULL, 0
    while at < found.end:
        if index == found.announced:
            return 0
        if not read_message(
            found.data, found.end, cython.address(at), has_delta(found, index), cython.address(message)
        ):
            return 0
        if message.flags & SAME_TIMESTAMP == 0:
            stamp = message.timestamp if message.timestamp < _LATEST_MS else _LATEST_MS
        elif index == 0:
            return 0
        number = number_of(found, index, number, cython.address(message))
        index += 1
        if number < lower or number > upper:
            continue
        if rows.keys != cython.NULL:
            put_key(rows, cython.address(message))
        elif message.key_bytes:
            return 2
        memcpy(rows.values + rows.value_bytes, message.value, message.value_bytes)
        rows.value_bytes += message.value_bytes
        rows.numbers[rows.count] = number
        rows.timestamps[rows.count] = stamp
        rows.count += 1
        rows.ends[rows.count] = rows.value_bytes
    return index == found.announced and (not found.sparse or number == found.last)


@cython.cfunc
def take_part(rows: cython.pointer[Rows], part: Any) -> cython.int:
    """`take` of a Part."""
    view: Py_buffer
    found: Found
    first: uint64_t
    lower: uint64_t
    upper: uint64_t
    good: cython.int
    data, found.start, found.announced, found.sparse, first, found.last, lower, upper = part
    PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
    found.data, found.end = cython.cast(cython.p_const_uchar, view.buf), view.len
    good = 0
    if (
        found.start <= found.end
        and found.end - found.start <= rows.most_bytes - rows.value_bytes - rows.key_bytes
        and found.announced <= rows.most_rows - rows.count
    ):
        with cython.nogil:
            good = take(rows, cython.address(found), first, lower, upper)
    PyBuffer_Release(cython.address(view))
    return good


def gathered_columns(parts: Sequence[tuple]) -> Any:
    """The wanted messages of all parts. Raises InvalidBundle."""
    rows: Rows
    before: Rows
    size: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    key_bytes: cython.Py_ssize_t
    good: cython.int
    for part in parts:
        size += len(part[0]) - part[1]
        count += part[2]
    ends: bytes = room(4 * (count + 1))
    values: bytes = room(size)
    numbers: bytes = room(8 * count)
    timestamps: bytes = room(8 * count)
    validity: bytes = b""
    key_ends: bytes = b""
    keys: bytes = b""
    rows.most_rows, rows.most_bytes = count, size
    rows.count = rows.value_bytes = rows.key_bytes = 0
    rows.ends = cython.cast(cython.pointer(int32_t), PyBytes_AS_STRING(ends))
    rows.values = cython.cast(cython.pointer(uint8_t), PyBytes_AS_STRING(values))
    rows.numbers = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(numbers))
    rows.timestamps = cython.cast(cython.pointer(int64_t), PyBytes_AS_STRING(timestamps))
    rows.validity = rows.keys = cython.NULL
    rows.key_ends = cython.NULL
    rows.ends[0] = 0
    for part in parts:
        before = rows
        good = take_part(cython.address(rows), part)
        if good == 2:
            rows = before
            key_bytes = _KEY_BYTES * count
            keys, key_ends, validity = room(min(size, key_bytes)), room(4 * (count + 1)), room(count // 8 + 1)
            rows.keys = cython.cast(cython.pointer(uint8_t), PyBytes_AS_STRING(keys))
            rows.key_ends = cython.cast(cython.pointer(int32_t), PyBytes_AS_STRING(key_ends))
            rows.validity = cython.cast(cython.pointer(uint8_t), PyBytes_AS_STRING(validity))
            memset(rows.validity, 0, len(validity))
            memset(rows.key_ends, 0, 4 * (rows.count + 1))
            good = take_part(cython.address(rows), part)
        if good == 0:
            return PLAIN["gathered_columns"](parts)
    column: object = None
    if rows.keys != cython.NULL:
        column = keys_over(rows.count, validity, key_ends, keys)
    return ArrowColumns(0, rows.count, ends, values, column, numbers, timestamps)
