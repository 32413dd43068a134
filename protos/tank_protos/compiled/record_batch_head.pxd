# The header of a record batch in memory (`tank_protos.kafka.record_batch`), for the twins: inline C over pointers, without
# Python objects. The caller has checked that 61 bytes are there, but for `may_be_stored`, which does.
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t

cdef enum:
    HEADER_BYTES = 61
    LENGTH_END = 12
    # From here on the checksum covers the bytes.
    COVERED_FROM = 21
    MAGIC = 2
    CODEC_MASK = 0x07
    MOST_CODEC = 4
    ZSTD = 4
    TRANSACTIONAL = 0x10
    # The time of the append, a control batch, a delete horizon: what no client may send.
    OF_BROKERS = 0x68
    KNOWN = 0x7F
    # The least bytes of an uncompressed record.
    LEAST_RECORD_BYTES = 7


cdef inline uint32_t read_u32(const unsigned char *p) noexcept nogil:
    """An unsigned integer of four bytes."""
    return <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]


cdef inline int32_t read_i32(const unsigned char *p) noexcept nogil:
    """A signed integer of four bytes."""
    return <int32_t>read_u32(p)


cdef inline int64_t read_i64(const unsigned char *p) noexcept nogil:
    """A signed integer of eight bytes."""
    return <int64_t>(<uint64_t>read_u32(p) << 32 | read_u32(p + 4))


cdef inline int16_t read_i16(const unsigned char *p) noexcept nogil:
    """A signed integer of two bytes."""
    return <int16_t>(<unsigned int>p[0] << 8 | p[1])


cdef inline void write_u32(unsigned char *p, uint32_t raw) noexcept nogil:
    """Writes four bytes of an integer, the high ones first."""
    p[0] = raw >> 24
    p[1] = raw >> 16 & 0xFF
    p[2] = raw >> 8 & 0xFF
    p[3] = raw & 0xFF


cdef inline void write_i64(unsigned char *p, int64_t value) noexcept nogil:
    """Writes a signed integer of eight bytes."""
    write_u32(p, <uint32_t>(<uint64_t>value >> 32))
    write_u32(p + 4, <uint32_t>value)


cdef inline int attributes_of(const unsigned char *p) noexcept nogil:
    return read_i16(p + 21)


cdef inline int32_t last_delta_of(const unsigned char *p) noexcept nogil:
    """The offset delta of the last record."""
    return read_i32(p + 23)


cdef inline int64_t greatest_time_of(const unsigned char *p) noexcept nogil:
    return read_i64(p + 35)


cdef inline int64_t producer_id_of(const unsigned char *p) noexcept nogil:
    return read_i64(p + 43)


cdef inline int16_t producer_epoch_of(const unsigned char *p) noexcept nogil:
    return read_i16(p + 51)


cdef inline int32_t sequence_of(const unsigned char *p) noexcept nogil:
    """The producer's sequence number of the first record."""
    return read_i32(p + 53)


cdef inline int32_t count_of(const unsigned char *p) noexcept nogil:
    """The count of records."""
    return read_i32(p + 57)


cdef inline bint may_be_stored(const unsigned char *p, Py_ssize_t size) noexcept nogil:
    """Whether the header's own fields allow a log to hold the batch; its checksum is not looked at."""
    cdef int attributes
    cdef int32_t last_delta, count
    if size < HEADER_BYTES or read_i32(p + 8) != size - LENGTH_END or p[16] != MAGIC:
        return False
    attributes = attributes_of(p)
    last_delta = last_delta_of(p)
    count = count_of(p)
    if attributes & ~KNOWN or attributes & CODEC_MASK > MOST_CODEC:
        return False
    if count < 0 or last_delta < 0 or last_delta < count - 1:
        return False
    return (attributes & CODEC_MASK) != 0 or <Py_ssize_t>count * LEAST_RECORD_BYTES <= size - HEADER_BYTES


cdef inline bint may_be_sent(const unsigned char *p, int64_t latest_ms) noexcept nogil:
    """Whether a client may send such a batch, besides what a log demands."""
    cdef int attributes = attributes_of(p)
    cdef int32_t count = count_of(p)
    cdef int64_t producer_id = producer_id_of(p)
    if attributes & OF_BROKERS or count < 1 or last_delta_of(p) != count - 1 or greatest_time_of(p) > latest_ms:
        return False
    if producer_id > 0:
        return producer_epoch_of(p) >= 0 and sequence_of(p) >= 0
    return producer_id == -1 and not attributes & TRANSACTIONAL
