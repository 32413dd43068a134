# The checksums of Iggy's messages for the twins: `from cython.cimports.tank_protos.compiled.iggy_sums import xxh3_64`.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from "xxh3.h" nogil:
    uint64_t xxh3_64(const uint8_t *data, size_t size)

cdef extern from "gzip_crc.h" nogil:
    uint32_t gzip_crc(const uint8_t *data, size_t size)
