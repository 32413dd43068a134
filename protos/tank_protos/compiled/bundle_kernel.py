"""The compiled twins of `tank_protos.bundle.kernel`: message sets to columns, columns to tuples.

A set is walked twice: first every length is checked and the messages are counted, then the lists are made, of
the right size at once, by the same reading function. A set that the first walk can't read goes to the plain
function, which raises the error.

Memory safety: other code may write into the bytes between the walks, because making lists may run finalizers.
So the second walk checks everything again, and never writes behind a list's end. A set that has changed goes
to the plain function, which takes a copy.
"""

from collections.abc import Callable, Sequence
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
from cython.cimports.cpython.list import PyList_New, PyList_SET_ITEM
from cython.cimports.cpython.ref import Py_INCREF
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.tank_protos.compiled.bundle_walk import (
    KEY,
    SAME_TIMESTAMP,
    Found,
    Message,
    has_delta,
    number_of,
    read_message,
)
from cython.cimports.tank_protos.compiled.named_tuples import new_tuple, put

from tank_protos.bundle.kernel import MessageSet

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}
_MESSAGE_SET: type = MessageSet
# The u64 above it are more than there can be messages in memory.
_MOST_COUNTED = cython.declare(uint64_t, 1 << 63)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def count(found: cython.pointer[Found], first: uint64_t) -> cython.bint:
    """The first walk: whether the set is good. Numbers cannot overflow: each message takes bytes."""
    message: Message
    at: cython.size_t = found.start
    number: uint64_t = first - 1
    found.messages = found.keyed = found.stamped = 0
    while at < found.end:
        if not read_message(
            found.data,
            found.end,
            cython.address(at),
            has_delta(found, found.messages),
            cython.address(message),
        ):
            return False
        if message.flags & SAME_TIMESTAMP == 0:
            found.stamped += 1
        elif found.messages == 0:
            return False
        number = number_of(found, found.messages, number, cython.address(message))
        found.keyed += message.flags & KEY
        found.messages += 1
    if found.sparse:
        return found.messages == found.announced and number == found.last
    return found.messages != 0


@cython.cfunc
def columns(found: cython.pointer[Found], numbers: list | None, first: uint64_t) -> Any:
    """The second walk: a MessageSet, and, when it is sparse, the numbers into a list of their count.

    None: the bytes are others than in the first."""
    message: Message
    at: cython.size_t = found.start
    number: uint64_t = first - 1
    stamped: cython.size_t = 0
    index: cython.size_t
    values: list = PyList_New(found.messages)
    stamps: list = PyList_New(found.stamped)
    starts: list = PyList_New(found.stamped)
    keys: list | None = PyList_New(found.messages) if found.keyed else None
    for index in range(found.messages):
        if not read_message(
            found.data, found.end, cython.address(at), has_delta(found, index), cython.address(message)
        ):
            return None
        set_item(values, index, content(message.value, message.value_bytes))
        if message.flags & SAME_TIMESTAMP == 0:
            if stamped == found.stamped:
                return None
            set_item(stamps, stamped, message.timestamp)
            set_item(starts, stamped, index)
            stamped += 1
        if found.keyed:
            set_item(keys, index, content(message.key, message.key_bytes) if message.key_bytes else None)
        if found.sparse:
            number = number_of(found, index, number, cython.address(message))
            set_item(numbers, index, number)
    if stamped != found.stamped:
        return None
    row: object = new_tuple(_MESSAGE_SET, 4)
    put(row, 0, values)
    put(row, 1, keys)
    put(row, 2, stamps)
    put(row, 3, starts)
    return row


@cython.cfunc
@cython.inline
def content(data: cython.p_const_uchar, size: cython.size_t) -> bytes:
    """A copy."""
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, data), size)


@cython.cfunc
@cython.inline
def set_item(target: list, place: cython.Py_ssize_t, item: object) -> cython.void:
    """Fills a place of a new list, to which no other code has a reference."""
    Py_INCREF(item)
    PyList_SET_ITEM(target, place, item)


def parse_dense(data: object, start: cython.Py_ssize_t) -> MessageSet:
    """The messages of a dense bundle from `start` to the end of `data`. Raises InvalidBundle."""
    view: Py_buffer
    found: Found
    PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
    try:
        found.data = cython.cast(cython.p_const_uchar, view.buf)
        found.start, found.end, found.sparse = start, view.len, False
        if start >= 0 and count(cython.address(found), 1):
            dense: Any = columns(cython.address(found), None, 1)
            if dense is not None:
                return dense
    finally:
        PyBuffer_Release(cython.address(view))
    return PLAIN["parse_dense"](data, start)


def parse_sparse(
    data: object, start: cython.Py_ssize_t, messages: cython.size_t, first: uint64_t, last: uint64_t
) -> tuple[MessageSet, list[int]]:
    """The messages of a sparse bundle and their numbers. Raises InvalidBundle."""
    view: Py_buffer
    found: Found
    PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
    try:
        found.data = cython.cast(cython.p_const_uchar, view.buf)
        found.start, found.end, found.sparse = start, view.len, True
        found.announced, found.last = messages, last
        if start >= 0 and count(cython.address(found), first):
            numbers: list = PyList_New(found.messages)
            sparse: Any = columns(cython.address(found), numbers, first)
            if sparse is not None:
                return sparse, numbers
    finally:
        PyBuffer_Release(cython.address(view))
    return PLAIN["parse_sparse"](data, start, messages, first, last)


def tuples(
    kind: type,
    numbers: Sequence[int],
    timestamps: list,
    keys: list | None,
    values: list,
) -> list[Any]:
    """Columns as rows of a named tuple of four places."""
    size: cython.Py_ssize_t = len(values)
    index: cython.Py_ssize_t
    if not issubclass(kind, tuple) or len(timestamps) != size or (keys is not None and len(keys) != size):
        return PLAIN["tuples"](kind, numbers, timestamps, keys, values)
    if type(numbers) is not range and type(numbers) is not list:
        return PLAIN["tuples"](kind, numbers, timestamps, keys, values)
    if len(numbers) != size:
        return PLAIN["tuples"](kind, numbers, timestamps, keys, values)
    # Numbers are counted in C where none of them is beyond it.
    counting: cython.bint = (
        size != 0 and type(numbers) is range and numbers.step == 1 and 0 <= numbers[0] < _MOST_COUNTED
    )
    first: uint64_t = numbers[0] if counting else 0
    rows: list = PyList_New(size)
    for index in range(size):
        row: object = new_tuple(kind, 4)
        put(row, 0, first + index if counting else numbers[index])
        put(row, 1, timestamps[index])
        put(row, 2, None if keys is None else keys[index])
        put(row, 3, values[index])
        set_item(rows, index, row)
    return rows
