"""The compiled twin of `tank_protos.storage.record_run`: one pass over the batches' bytes, by the
processor's own instruction where it has one.

Memory safety: every length is checked against what is left of the batches before their bytes are read.
"""

from collections.abc import Callable
from typing import Any

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.libc.stdint import uint8_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy
from cython.cimports.tank_protos.compiled.crc32c_header import crc32c
from cython.cimports.tank_protos.compiled.produce_places import Record

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Filled by `tank_protos.kernel.twin`.
PLAIN: dict[str, Callable[..., Any]] = {}

# Above it numbers are refused, and positions: see the plain function.
MOST_NUMBER = cython.declare(uint64_t, (1 << 63) - 1)
MOST_POSITION = cython.declare(uint64_t, (1 << 32) - 1)


@cython.cfunc
@cython.exceptval(check=False)
def _place(
    out: cython.p_uchar,
    count: cython.Py_ssize_t,
    content: cython.pointer[uint8_t],
    size: uint64_t,
    position: uint64_t,
    last: uint64_t,
    lowest_epoch: uint64_t,
    highest_epoch: uint64_t,
    batch_format: uint64_t,
) -> cython.bint:
    """Whether all records are good; gives each its place."""
    record: Record
    end: uint64_t = 0
    wanted: uint32_t
    at: cython.Py_ssize_t
    for at in range(count):
        memcpy(cython.address(record), out + 64 * at, 64)
        if record.first <= last or record.length == 0 or record.length > size - end:
            return False
        if record.first > MOST_NUMBER or record.first + record.span > MOST_NUMBER:
            return False
        if not lowest_epoch <= record.leader_epoch <= highest_epoch or record.format != batch_format:
            return False
        wanted = record.crc32c
        record.position = record.crc32c = 0
        if crc32c(crc32c(0, content + end, record.length), cython.address(record), 64) != wanted:
            return False
        record.crc32c = wanted
        record.position = cython.cast(uint32_t, position + end)
        memcpy(out + 64 * at, cython.address(record), 64)
        end += record.length
        last = record.first + record.span
        lowest_epoch = record.leader_epoch
    return end == size


def placed(
    records: object,
    batches: object,
    position: uint64_t,
    last: uint64_t,
    lowest_epoch: uint64_t,
    highest_epoch: uint64_t,
    batch_format: uint64_t,
) -> bytes:
    """The records with the positions that their batches get when they are stored from `position` on."""
    packed: Py_buffer
    content: Py_buffer
    good: cython.bint = False
    stored: bytes = b""
    PyObject_GetBuffer(records, cython.address(packed), PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(batches, cython.address(content), PyBUF_SIMPLE)
        try:
            if packed.len % 64 == 0 and position + cython.cast(uint64_t, content.len) <= MOST_POSITION:
                stored = PyBytes_FromStringAndSize(cython.cast(cython.p_char, packed.buf), packed.len)
                good = _place(
                    cython.cast(cython.p_uchar, PyBytes_AS_STRING(stored)),
                    packed.len // 64,
                    cython.cast(cython.pointer[uint8_t], content.buf),
                    content.len,
                    position,
                    last,
                    lowest_epoch,
                    highest_epoch,
                    batch_format,
                )
        finally:
            PyBuffer_Release(cython.address(content))
    finally:
        PyBuffer_Release(cython.address(packed))
    if good:
        return stored
    return PLAIN["placed"](records, batches, position, last, lowest_epoch, highest_epoch, batch_format)
