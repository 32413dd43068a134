"""The compiled twins of `tank_protos.bundle.encoding`: columns of messages to bundles.

They take lists, tuples and ranges of bytes, None and numbers. Everything else, good or bad, is left to the
plain function. Columns are walked twice: the size of the bundle is found first, then it is written into bytes
of that size.

Memory safety: lists may be the caller's own. From the moment when their lengths are compared (`rows_of`) to
the end of the second walk nothing runs that could change them: no code of Python's, and no garbage
collection, which runs finalizers. So no object that the collector knows is made there, but for the error that
ends the first walk.
"""

from collections.abc import Callable, Sequence
from typing import Any

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.libc.stdint import uint32_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.tank_protos.compiled.bundle_walk import (
    COUNT_MASK,
    COUNT_SHIFT,
    KEY,
    MAX_MESSAGE_SET_BYTES,
    NEXT_NUMBER,
    SAME_TIMESTAMP,
    SPARSE,
    varint_bytes,
    write_varint,
)

from tank_protos.bundle.encoding import COMPRESS_ABOVE_BYTES, COMPRESS_ABOVE_MESSAGES, finish

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}
# `declare`: an annotated name outside of functions would be an object of Python's.
_LARGEST = cython.declare(uint64_t, 0x7FFFFFFFFFFFFFFE)
_U32 = cython.declare(uint64_t, 0xFFFFFFFF)
_MOST_BYTES = cython.declare(cython.Py_ssize_t, 0xFFFFFFFF)
_COMPRESS_MESSAGES = cython.declare(cython.Py_ssize_t, COMPRESS_ABOVE_MESSAGES)
_COMPRESS_BYTES = cython.declare(cython.Py_ssize_t, COMPRESS_ABOVE_BYTES)


@cython.cfunc
@cython.exceptval(-1, check=True)
def exact(number: object) -> uint64_t:
    """A plain number: others' conversion could run code that changes the columns."""
    if type(number) is not int:
        raise TypeError
    return number


@cython.final
@cython.cclass
class Rows:
    """The columns of a bundle, each of them a list, and what the first walk found."""

    count: cython.Py_ssize_t
    values: list
    # None: no message has one.
    keys: list
    # None: all have `stamp`.
    stamps: list
    stamp: uint64_t
    # None: the bundle is dense.
    numbers: list
    first: uint64_t
    last: uint64_t
    # Of contents and keys, and of the whole message set.
    content_bytes: cython.Py_ssize_t
    body_bytes: cython.Py_ssize_t

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def stamp_at(self, index: cython.Py_ssize_t) -> uint64_t:
        """The timestamp of a message. OverflowError, TypeError: it is no u64."""
        return self.stamp if self.stamps is None else exact(self.stamps[index])

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def distance_to(self, index: cython.Py_ssize_t) -> uint64_t:
        """How many numbers are missing before message `index`, not the first, of a sparse bundle.

        OverflowError, TypeError: one of the two is no u64. They do not rise: something above 2^32.
        """
        before: uint64_t = exact(self.numbers[index - 1])
        number: uint64_t = exact(self.numbers[index])
        return number - before - 1 if number > before else _U32 + 1

    @cython.cfunc
    @cython.exceptval(-1)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def measure(self) -> cython.bint:
        """The first walk: whether these columns are for this module; how large the message set becomes."""
        index: cython.Py_ssize_t
        length: cython.Py_ssize_t
        last: cython.Py_ssize_t = self.count - 1
        previous: uint64_t = 0
        for index in range(self.count):
            value: object = self.values[index]
            length = 0
            if type(value) is bytes:
                length = PyBytes_GET_SIZE(value)
            elif value is not None:
                return False
            self.content_bytes += length
            self.body_bytes += 1 + varint_bytes(length)
            stamp: uint64_t = self.stamp_at(index)
            if index == 0 or stamp != previous:
                self.body_bytes += 8
                previous = stamp
            if self.keys is not None:
                key: object = self.keys[index]
                if type(key) is bytes and PyBytes_GET_SIZE(key) <= 255:
                    length = PyBytes_GET_SIZE(key)
                    self.content_bytes += length
                    self.body_bytes += length != 0
                elif key is not None:
                    return False
            # A batch's length is a u32; larger sums, which could overflow, are never made.
            if self.content_bytes > _MOST_BYTES:
                return False
            if self.numbers is not None and index != 0:
                if self.distance_to(index) > _U32:
                    return False
                if index != last and self.distance_to(index) != 0:
                    self.body_bytes += varint_bytes(self.distance_to(index))
        self.body_bytes += self.content_bytes
        return True

    @cython.cfunc
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def write(self, to: cython.p_uchar) -> cython.p_uchar:
        """The second walk: the message set, of `body_bytes`; where it ends."""
        index: cython.Py_ssize_t
        length: cython.Py_ssize_t
        last: cython.Py_ssize_t = self.count - 1
        previous: uint64_t = 0
        for index in range(self.count):
            flags_at: cython.p_uchar = to
            flags: uint32_t = 0
            to += 1
            if self.numbers is not None and index != 0 and index != last:
                distance: uint64_t = self.distance_to(index)
                if distance == 0:
                    flags |= NEXT_NUMBER
                else:
                    to = write_varint(to, distance)
            stamp: uint64_t = self.stamp_at(index)
            if index == 0 or stamp != previous:
                memcpy(to, cython.address(stamp), 8)
                to += 8
                previous = stamp
            else:
                flags |= SAME_TIMESTAMP
            if self.keys is not None:
                key: object = self.keys[index]
                if key is not None and PyBytes_GET_SIZE(key) != 0:
                    flags |= KEY
                    length = PyBytes_GET_SIZE(key)
                    to[0] = length
                    memcpy(to + 1, PyBytes_AS_STRING(key), length)
                    to += 1 + length
            value: object = self.values[index]
            length = 0 if value is None else PyBytes_GET_SIZE(value)
            to = write_varint(to, length)
            if length != 0:
                memcpy(to, PyBytes_AS_STRING(value), length)
                to += length
            flags_at[0] = flags
        return to


@cython.cfunc
def as_list(column: object, count: cython.Py_ssize_t) -> Any:
    """A column as a list; None when it is not for this module."""
    if type(column) is tuple or (type(column) is range and len(column) == count):
        column = list(column)
    if type(column) is not list or (count >= 0 and len(column) != count):
        return None
    return column


@cython.cfunc
def rows_of(values: object, timestamps: object, keys: object, numbers: object) -> Rows | None:
    """The columns, measured; None when they are not for this module."""
    rows: Rows = Rows()
    rows.values = as_list(values, -1)
    if rows.values is None or len(rows.values) == 0:
        return None
    rows.count = len(rows.values)
    if rows.count > _MOST_BYTES:
        return None
    if keys is not None:
        rows.keys = as_list(keys, rows.count)
        if rows.keys is None:
            return None
    try:
        if numbers is not None:
            rows.numbers = as_list(numbers, rows.count)
            if rows.numbers is None:
                return None
            rows.first, rows.last = exact(rows.numbers[0]), exact(rows.numbers[rows.count - 1])
            if rows.first < 1 or rows.last > _LARGEST or rows.last - rows.first > _U32:
                return None
        if type(timestamps) is int:
            rows.stamp = timestamps
        else:
            rows.stamps = as_list(timestamps, rows.count)
            if rows.stamps is None:
                return None
        # Making lists above may have run others' finalizers.
        if len(rows.values) != rows.count or (rows.keys is not None and len(rows.keys) != rows.count):
            return None
        if rows.numbers is not None and len(rows.numbers) != rows.count:
            return None
        return rows if rows.measure() else None
    except (TypeError, OverflowError):
        return None


@cython.cfunc
@cython.exceptval(-2, check=True)
def codec_of(codec: object) -> cython.int:
    """Whether to compress; -1: as the official client would. Before the columns are measured, for asking an
    object runs its code."""
    return -1 if codec is None else 1 if codec else 0


@cython.cfunc
def bundle_of(rows: Rows, asked: cython.int) -> bytes:
    """Head and message set, compressed where that was `asked` for (`codec_of`)."""
    head: bytes = head_of(rows)
    packed: cython.bint = asked > 0
    if asked < 0:
        packed = rows.content_bytes > _COMPRESS_BYTES or rows.count > _COMPRESS_MESSAGES
    packed = packed and rows.body_bytes <= MAX_MESSAGE_SET_BYTES
    before: cython.Py_ssize_t = 0 if packed else len(head)
    bundle: bytes = PyBytes_FromStringAndSize(cython.NULL, before + rows.body_bytes)
    to: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(bundle))
    if before != 0:
        memcpy(to, PyBytes_AS_STRING(head), before)
    rows.write(to + before)
    return finish(head, bundle, 1, sampled=asked < 0) if packed else bundle


@cython.cfunc
def head_of(rows: Rows) -> bytes:
    """Flags, count, and in a sparse bundle the first number and the span; the codec is left open."""
    head: cython.uchar[19]
    to: cython.p_uchar = head
    to[0] = 0 if rows.numbers is None else SPARSE
    if rows.count <= COUNT_MASK:
        to[0] |= cython.cast(uint32_t, rows.count) << COUNT_SHIFT
        to += 1
    else:
        to = write_varint(to + 1, rows.count)
    if rows.numbers is not None:
        memcpy(to, cython.address(rows.first), 8)
        to += 8
        if rows.count > 1:
            to = write_varint(to, rows.last - rows.first - 1)
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, head), to - cython.address(head[0]))


def encode(
    values: Sequence[Any],
    *,
    timestamps: Sequence[int] | int,
    keys: Sequence[Any] | None = None,
    codec: Any = None,
    topic: str = "",
) -> bytes:
    """A dense bundle of these messages, without length prefix. Raises OutOfRange."""
    asked: cython.int = codec_of(codec)
    rows: Rows | None = rows_of(values, timestamps, keys, None)
    if rows is None:
        return PLAIN["encode"](values, timestamps=timestamps, keys=keys, codec=codec, topic=topic)
    return bundle_of(rows, asked)


def encode_sparse(
    numbers: Sequence[int],
    values: Sequence[Any],
    *,
    timestamps: Sequence[int] | int,
    keys: Sequence[Any] | None = None,
    codec: Any = None,
    topic: str = "",
) -> bytes:
    """A sparse bundle: each message has the number given for it. Raises OutOfRange."""
    asked: cython.int = codec_of(codec)
    rows: Rows | None = rows_of(values, timestamps, keys, numbers)
    if rows is not None:
        return bundle_of(rows, asked)
    return PLAIN["encode_sparse"](numbers, values, timestamps=timestamps, keys=keys, codec=codec, topic=topic)
