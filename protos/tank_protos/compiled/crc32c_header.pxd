# `crc32c.h` for the twins: `from cython.cimports.tank_protos.compiled.crc32c_header import crc32c`.
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "crc32c.h" nogil:
    # Continues the CRC (0 to begin with) over more bytes.
    uint32_t crc32c(uint32_t crc, const void *data, size_t size)
    uint32_t crc32c_by_tables(uint32_t crc, const uint8_t *data, size_t size)
    # The CRC of two pieces by that of each, and the second one's size.
    uint32_t crc32c_joined(uint32_t first, uint32_t second, size_t size)
    bint crc32c_has_instruction()
