"""The compiled twins of `tank_protos.kafka.records`: they check the records of a batch, and read them into
columns.

A payload is walked twice for columns: first every record is checked, then the lists are made. The plain
functions take what the first walk refuses, and raise the error.

Memory safety: a payload to read is `bytes`, which no code can change between the walks.
"""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.cpython.list import PyList_New, PyList_SET_ITEM
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.libc.stdint import int32_t
from cython.cimports.libc.string import memcmp
from cython.cimports.tank_protos.compiled.named_tuples import new_tuple, put
from cython.cimports.tank_protos.compiled.record_walk import Record, are_good, read_content, read_record

from tank_protos.kafka.records import RecordColumns

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}
_COLUMNS: type = RecordColumns


def walk(
    payload: object,
    count: cython.Py_ssize_t,
    last_offset_delta: cython.Py_ssize_t,
    *,
    dense: cython.bint = True,
    keyed: cython.bint = False,
) -> None:
    """Checks all records of a payload without making objects of them. Raises InvalidRecords."""
    view: Py_buffer
    PyObject_GetBuffer(payload, cython.address(view), PyBUF_SIMPLE)
    good: cython.bint = count >= 0 and are_good(
        cython.cast(cython.p_const_uchar, view.buf), view.len, count, last_offset_delta, dense, keyed
    )
    PyBuffer_Release(cython.address(view))
    if not good:
        PLAIN["walk"](payload, count, last_offset_delta, dense=dense, keyed=keyed)


@cython.cfunc
@cython.inline
def set_item(target: list, place: cython.Py_ssize_t, item: object) -> cython.void:
    """Fills a place of a new list, to which no other code has a reference."""
    Py_INCREF(item)
    PyList_SET_ITEM(target, place, item)


@cython.cfunc
@cython.inline
def content(data: cython.p_const_uchar, size: int32_t) -> object:
    """A copy; None for null."""
    return None if size < 0 else PyBytes_FromStringAndSize(cython.cast(cython.p_char, data), size)


@cython.cfunc
def headers_of(data: cython.p_const_uchar, record: cython.pointer[Record]) -> tuple:
    """The names and values of a record's headers."""
    at: cython.size_t = record.headers_at
    name: cython.p_const_uchar = data
    value: cython.p_const_uchar = data
    name_bytes: int32_t = 0
    value_bytes: int32_t = 0
    found: list = []
    for _ in range(record.headers):
        read_content(
            data,
            record.stop,
            cython.address(at),
            False,
            cython.address(name),
            cython.address(name_bytes),
        )
        read_content(
            data,
            record.stop,
            cython.address(at),
            True,
            cython.address(value),
            cython.address(value_bytes),
        )
        found.append((content(name, name_bytes), content(value, value_bytes)))
    return tuple(found)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def can_be_read(data: cython.p_const_uchar, size: cython.size_t, count: cython.Py_ssize_t) -> cython.bint:
    """Whether the bytes are `count` records, with whatever offset deltas."""
    record: Record
    at: cython.size_t = 0
    for _ in range(count):
        if not read_record(data, size, cython.address(at), cython.address(record)):
            return False
    return at == size


def read_columns(payload: object, count: cython.Py_ssize_t) -> RecordColumns:
    """All records of a payload, which must be `count`. Raises InvalidRecords."""
    if type(payload) is not bytes or count < 0:
        return PLAIN["read_columns"](payload, count)
    data: cython.p_const_uchar = cython.cast(cython.p_const_uchar, PyBytes_AS_STRING(payload))
    size: cython.size_t = PyBytes_GET_SIZE(payload)
    if not can_be_read(data, size, count):
        return PLAIN["read_columns"](payload, count)
    record: Record
    at: cython.size_t = 0
    index: cython.Py_ssize_t
    offsets: list = PyList_New(count)
    timestamps: list = PyList_New(count)
    keys: list = PyList_New(count)
    values: list = PyList_New(count)
    headers: dict = {}
    # Records in a row often have the same headers: they share one tuple.
    shared: tuple = ()
    shared_at: cython.size_t = 0
    shared_bytes: cython.size_t = 0
    headers_bytes: cython.size_t
    for index in range(count):
        read_record(data, size, cython.address(at), cython.address(record))
        set_item(offsets, index, record.offset_delta)
        set_item(timestamps, index, record.timestamp_delta)
        set_item(keys, index, content(record.key, record.key_bytes))
        set_item(values, index, content(record.value, record.value_bytes))
        if record.headers != 0:
            headers_bytes = record.stop - record.headers_at
            if (
                headers_bytes != shared_bytes
                or record.headers != len(shared)
                or memcmp(data + shared_at, data + record.headers_at, headers_bytes) != 0
            ):
                shared = headers_of(data, cython.address(record))
                shared_at = record.headers_at
                shared_bytes = headers_bytes
            headers[index] = shared
    row: Any = new_tuple(_COLUMNS, 5)
    put(row, 0, offsets)
    put(row, 1, timestamps)
    put(row, 2, keys)
    put(row, 3, values)
    put(row, 4, headers)
    return row
