"""The compiled twins of `tank_protos.bundle.header`. What they do not take, the plain functions refuse."""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.tank_protos.compiled.bundle_walk import (
    KEY,
    NEXT_NUMBER,
    Header,
    begins_a_block,
    read_bundle_header,
    read_varint,
    walk_messages,
)
from cython.cimports.tank_protos.compiled.named_tuples import new_tuple, put

from tank_protos.bundle.header import BundleHeader, Codec

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}
_HEADER: type = BundleHeader
_CODECS: tuple = tuple(Codec)


@cython.cfunc
def header_tuple(header: cython.pointer[Header]) -> object:
    """The same as a BundleHeader."""
    row: object = new_tuple(_HEADER, 6)
    put(row, 0, _CODECS[header.codec])
    put(row, 1, header.messages)
    put(row, 2, True if header.sparse else False)  # noqa: SIM210  # C's truth is a number
    put(row, 3, header.first)
    put(row, 4, header.last)
    put(row, 5, header.body_offset)
    return row


def read_header(bundle: object, offset: cython.Py_ssize_t = 0) -> BundleHeader:
    """The header of the bundle that lies from `offset` to the end of the buffer. Raises InvalidBundle."""
    view: Py_buffer
    header: Header
    PyObject_GetBuffer(bundle, cython.address(view), PyBUF_SIMPLE)
    size: cython.size_t = view.len
    good: cython.bint = offset >= 0 and read_bundle_header(
        cython.cast(cython.p_const_uchar, view.buf), offset, size, cython.address(header)
    )
    PyBuffer_Release(cython.address(view))
    return header_tuple(cython.address(header)) if good else PLAIN["read_header"](bundle, offset)


def validate(batch: object, walk: cython.bint = False) -> BundleHeader:
    """Judges a produced batch without decoding its messages. Raises InvalidBundle."""
    view: Py_buffer
    header: Header
    PyObject_GetBuffer(batch, cython.address(view), PyBUF_SIMPLE)
    good: cython.bint = read_batch(
        cython.cast(cython.p_const_uchar, view.buf), view.len, cython.address(header), walk
    )
    PyBuffer_Release(cython.address(view))
    return header_tuple(cython.address(header)) if good else PLAIN["validate"](batch, walk)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_batch(
    data: cython.p_const_uchar, size: cython.size_t, header: cython.pointer[Header], walk: cython.bint
) -> cython.bint:
    """Whether the bytes are one good batch; its header."""
    at: cython.size_t = 0
    length: cython.uint = 0
    if not read_varint(data, size, cython.address(at), cython.address(length)) or length != size - at:
        return False
    if not read_bundle_header(data, at, size, header):
        return False
    if header.codec:
        return begins_a_block(data, size, header.body_offset)
    # A message set has ten bytes at least: there is a first one to look at.
    if data[header.body_offset] & ~(KEY | NEXT_NUMBER):
        return False
    return not walk or walk_messages(data, size, header)
