"""The compiled twin of `tank_protos.bundle.cut`. Columns that are no lists are the plain function's."""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.bytes import PyBytes_GET_SIZE

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}


@cython.boundscheck(False)
@cython.wraparound(False)
def fill(
    values: object,
    keys: object,
    start: cython.Py_ssize_t,
    most: cython.Py_ssize_t,
    room: cython.Py_ssize_t,
) -> tuple[int, int]:
    """How far messages from `start` on fill `room` bytes: (index behind the last, bytes of all of them)."""
    if type(values) is not list or not (keys is None or type(keys) is list):
        return PLAIN["fill"](values, keys, start, most, room)
    contents: list = values
    column: list | None = keys
    end: cython.Py_ssize_t = len(contents)
    if start < 0 or most < 1 or start >= end or not (column is None or len(column) == end):
        return PLAIN["fill"](values, keys, start, most, room)
    if most < end - start:
        end = start + most
    size: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = start
    while at < end:
        value: object = contents[at]
        if type(value) is not bytes:
            return PLAIN["fill"](values, keys, start, most, room)
        size += PyBytes_GET_SIZE(value)
        if column is not None:
            key: object = column[at]
            if type(key) is bytes:
                size += PyBytes_GET_SIZE(key)
            elif key is not None:
                return PLAIN["fill"](values, keys, start, most, room)
        at += 1
        if size >= room:
            break
    return at, size
