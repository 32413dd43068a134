"""The compiled twin of `tank_protos.kafka.records.encode_columns`: columns to records.

It takes lists, tuples and ranges of bytes, None and numbers, and headers in tuples. Everything else, good
or bad, is left to the plain function. Columns are walked twice: the size of the records is found first, then
they are written into bytes of that size.

Memory safety: both walks go over tuples of our own, made of the caller's columns before the first, and over
the headers' tuples, which are kept. All they hold is immutable.
"""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.tank_protos.compiled.record_walk import write_zigzag, zigzag_bytes

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}
_MOST_BYTES = cython.declare(cython.Py_ssize_t, 0x7FFFFFFF)


@cython.cfunc
@cython.exceptval(-1, check=True)
def exact(number: object) -> int64_t:
    """A plain number that fits. Raises OverflowError, TypeError."""
    if type(number) is not int:
        raise TypeError
    return number


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def content_bytes(content: object) -> cython.Py_ssize_t:
    """The size of a length and its content, which is bytes or None."""
    if content is None:
        return 1
    size: cython.Py_ssize_t = PyBytes_GET_SIZE(content)
    return zigzag_bytes(size) + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def write_content(to: cython.p_uchar, content: object) -> cython.p_uchar:
    """Writes a length and its content; returns the place behind them."""
    if content is None:
        to[0] = 1
        return to + 1
    size: cython.Py_ssize_t = PyBytes_GET_SIZE(content)
    to = write_zigzag(to, size)
    memcpy(to, PyBytes_AS_STRING(content), size)
    return to + size


@cython.final
@cython.cclass
class MeasuredRecords:
    """The columns of records, and the size of them all."""

    count: cython.Py_ssize_t
    # None: 0, 1, 2 and so on.
    offsets: tuple
    stamps: tuple
    keys: tuple
    values: tuple
    # None: no record has any; else a tuple or None for each.
    headers: list
    bytes: cython.Py_ssize_t

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=True)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def offset_at(self, index: cython.Py_ssize_t) -> int64_t:
        return index if self.offsets is None else exact(self.offsets[index])

    @cython.cfunc
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def headers_of(self, index: cython.Py_ssize_t) -> Any:
        return None if self.headers is None else self.headers[index]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def record_bytes(self, index: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The size of a record without the length before it. Raises OverflowError, TypeError."""
        size: cython.Py_ssize_t = 1 + zigzag_bytes(exact(self.stamps[index]))
        size += zigzag_bytes(self.offset_at(index))
        size += content_bytes(self.keys[index]) + content_bytes(self.values[index])
        headers: tuple = self.headers_of(index)
        if headers is None:
            return size + 1
        size += zigzag_bytes(len(headers))
        for name, value in headers:
            size += content_bytes(name) + content_bytes(value)
        return size

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def measure(self) -> cython.bint:
        """The first walk: whether these columns are for this module; how large the records become. Raises
        OverflowError, TypeError."""
        index: cython.Py_ssize_t
        size: cython.Py_ssize_t
        self.bytes = 0
        for index in range(self.count):
            key: object = self.keys[index]
            value: object = self.values[index]
            if (key is not None and type(key) is not bytes) or (
                value is not None and type(value) is not bytes
            ):
                return False
            headers: tuple = self.headers_of(index)
            if headers is not None and not are_headers(headers):
                return False
            size = self.record_bytes(index)
            self.bytes += zigzag_bytes(size) + size
            if self.bytes > _MOST_BYTES:
                return False
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def write(self, to: cython.p_uchar) -> cython.int:
        """The second walk: the records."""
        index: cython.Py_ssize_t
        for index in range(self.count):
            to = write_zigzag(to, self.record_bytes(index))
            to[0] = 0
            to = write_zigzag(to + 1, exact(self.stamps[index]))
            to = write_zigzag(to, self.offset_at(index))
            to = write_content(to, self.keys[index])
            to = write_content(to, self.values[index])
            headers: tuple = self.headers_of(index)
            if headers is None:
                to[0] = 0
                to += 1
                continue
            to = write_zigzag(to, len(headers))
            for name, value in headers:
                to = write_content(write_content(to, name), value)
        return 0


@cython.cfunc
@cython.exceptval(-1)
def are_headers(headers: tuple) -> cython.bint:
    """Whether these are pairs of a name and a value or None."""
    for each in headers:
        if type(each) is not tuple or len(cython.cast(tuple, each)) != 2:
            return False
        name, value = cython.cast(tuple, each)
        if type(name) is not bytes or (value is not None and type(value) is not bytes):
            return False
    return True


@cython.cfunc
def column(given: Any) -> Any:
    """A copy; None: it is left to the plain function."""
    if type(given) is tuple:
        return given
    return tuple(given) if type(given) is list or type(given) is range else None


@cython.cfunc
def rows_of(
    offset_deltas: object, timestamp_deltas: object, keys: object, values: object, headers: Any
) -> Any:
    """The columns, measured; None: they are left to the plain function. Raises OverflowError, TypeError."""
    rows: MeasuredRecords = MeasuredRecords()
    rows.values, rows.keys, rows.stamps = column(values), column(keys), column(timestamp_deltas)
    if rows.values is None or rows.keys is None or rows.stamps is None:
        return None
    rows.count = len(rows.values)
    if len(rows.keys) != rows.count or len(rows.stamps) != rows.count:
        return None
    if type(offset_deltas) is not range or offset_deltas != range(rows.count):
        rows.offsets = column(offset_deltas)
        if rows.offsets is None or len(rows.offsets) != rows.count:
            return None
    if headers:
        if type(headers) is not dict:
            return None
        index: cython.Py_ssize_t
        rows.headers = []
        for index in range(rows.count):
            found: object = headers.get(index)
            if found is not None and type(found) is not tuple:
                return None
            rows.headers.append(found)
    return rows if rows.measure() else None


def encode_columns(
    offset_deltas: object,
    timestamp_deltas: object,
    keys: object,
    values: object,
    headers: object = None,
) -> bytes:
    """Records as a batch holds them, uncompressed."""
    rows: Any
    try:
        rows = rows_of(offset_deltas, timestamp_deltas, keys, values, headers)
    except (OverflowError, TypeError):
        rows = None
    if rows is None:
        return PLAIN["encode_columns"](offset_deltas, timestamp_deltas, keys, values, headers)
    measured: MeasuredRecords = rows
    made: bytes = PyBytes_FromStringAndSize(cython.NULL, measured.bytes)
    measured.write(cython.cast(cython.p_uchar, PyBytes_AS_STRING(made)))
    return made
