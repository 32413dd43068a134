"""CRC-32C of a buffer, by the header that the other twins use.

It imports no other module: `tank_protos.kernel` loads it first, to find out whether there is a compiled
kernel.
"""

import cython
from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.libc.stdint import uint8_t, uint32_t
from cython.cimports.tank_protos.compiled.crc32c_header import crc32c as continued
from cython.cimports.tank_protos.compiled.crc32c_header import crc32c_by_tables, crc32c_has_instruction

if not cython.compiled:
    raise ImportError("this is the source of a compiled module; `make kernel` builds it")

# Whether this processor has an instruction for it.
HARDWARE: bool = crc32c_has_instruction()


def crc32c(data: object, start: uint32_t = 0) -> int:
    """The CRC-32C of a buffer, continued from `start`."""
    view: Py_buffer
    PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
    value: uint32_t = continued(start, view.buf, view.len)
    PyBuffer_Release(cython.address(view))
    return value


def crc32c_software(data: object, start: uint32_t = 0) -> int:
    """The same without the instruction: what processors that lack it take."""
    view: Py_buffer
    PyObject_GetBuffer(data, cython.address(view), PyBUF_SIMPLE)
    value: uint32_t = crc32c_by_tables(start, cython.cast(cython.pointer(uint8_t), view.buf), view.len)
    PyBuffer_Release(cython.address(view))
    return value
