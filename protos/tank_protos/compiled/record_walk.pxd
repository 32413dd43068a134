# How the records of Kafka's batches lie in memory (`tank_protos.kafka.records`), for the twins: inline C over pointers,
# without Python objects.
#
# Every function returns whether the bytes are right, and reads nothing at or behind `end`. A twin that meets wrong bytes
# calls the plain function, which finds the fault again and raises its error.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef struct Record:
    int64_t timestamp_delta
    int32_t offset_delta
    const uint8_t *key
    # -1: null, as in `value_bytes`.
    int32_t key_bytes
    const uint8_t *value
    int32_t value_bytes
    int32_t headers
    # The place of the first header's name, and the place behind the record.
    size_t headers_at
    size_t stop


cdef inline bint read_zigzag(
    const uint8_t *data, size_t end, size_t *at, uint32_t most_bytes, uint64_t *raw
) noexcept nogil:
    """Reads the bits of an integer of at most `most_bytes` bytes at `at`, which moves behind it."""
    cdef uint64_t found = 0, part
    cdef uint32_t count
    cdef uint8_t byte
    for count in range(most_bytes):
        if at[0] >= end:
            return False
        byte = data[at[0]]
        at[0] += 1
        part = byte & 0x7F
        # The tenth byte has room for one bit.
        if count == 9 and part > 1:
            return False
        found |= part << (7 * count)
        if byte < 0x80:
            raw[0] = found
            return True
    return False


cdef inline bint read_i32(const uint8_t *data, size_t end, size_t *at, int32_t *value) noexcept nogil:
    """Reads a signed integer of five bytes at most."""
    cdef uint64_t raw
    # Nearly all have one byte or two.
    if at[0] < end and data[at[0]] < 0x80:
        raw = data[at[0]]
        at[0] += 1
    elif end - at[0] >= 2 and at[0] < end and data[at[0] + 1] < 0x80:
        raw = data[at[0]] & 0x7F | <uint64_t>data[at[0] + 1] << 7
        at[0] += 2
    elif not read_zigzag(data, end, at, 5, &raw) or raw > 0xFFFFFFFFu:
        return False
    value[0] = <int32_t>(<uint32_t>(raw >> 1) ^ (0 - <uint32_t>(raw & 1)))
    return True


cdef inline bint read_i64(const uint8_t *data, size_t end, size_t *at, int64_t *value) noexcept nogil:
    """Reads a signed integer of ten bytes at most."""
    cdef uint64_t raw
    # Nearly all have one byte or two.
    if at[0] < end and data[at[0]] < 0x80:
        raw = data[at[0]]
        at[0] += 1
    elif end - at[0] >= 2 and at[0] < end and data[at[0] + 1] < 0x80:
        raw = data[at[0]] & 0x7F | <uint64_t>data[at[0] + 1] << 7
        at[0] += 2
    elif not read_zigzag(data, end, at, 10, &raw):
        return False
    value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return True


cdef inline bint read_content(
    const uint8_t *data, size_t end, size_t *at, bint may_be_null, const uint8_t **content, int32_t *size
) noexcept nogil:
    """Reads a length and that many bytes; the length -1 is null."""
    if not read_i32(data, end, at, size):
        return False
    if size[0] < 0:
        return may_be_null and size[0] == -1
    if end - at[0] < <size_t>size[0]:
        return False
    content[0] = data + at[0]
    at[0] += size[0]
    return True


cdef inline bint read_record(const uint8_t *data, size_t end, size_t *at, Record *record) noexcept nogil:
    """Reads the record at `at`, which moves behind it."""
    cdef int32_t length, size
    cdef const uint8_t *content
    cdef int32_t index
    cdef size_t here = at[0]
    if not read_i32(data, end, &here, &length) or length < 1 or end - here < <size_t>length:
        return False
    record.stop = here + length
    here += 1  # the attributes have no meaning
    if (
        not read_i64(data, end, &here, &record.timestamp_delta)
        or not read_i32(data, end, &here, &record.offset_delta)
        or not read_content(data, end, &here, True, &record.key, &record.key_bytes)
        or not read_content(data, end, &here, True, &record.value, &record.value_bytes)
        or not read_i32(data, end, &here, &record.headers)
    ):
        return False
    if record.headers != 0:
        # Each takes two bytes at least.
        if record.headers < 0 or here > record.stop or 2 * <size_t>record.headers > record.stop - here:
            return False
        record.headers_at = here
        for index in range(record.headers):
            if not read_content(data, end, &here, False, &content, &size):
                return False
            if not read_content(data, end, &here, True, &content, &size):
                return False
    at[0] = here
    return here == record.stop


cdef inline bint are_good(
    const uint8_t *data, size_t size, Py_ssize_t count, Py_ssize_t last, bint dense, bint keyed
) noexcept nogil:
    """Whether the bytes are `count` records, whose offset deltas rise up to `last`; dense: they are 0, 1, 2 and so on;
    keyed: each record has a key."""
    cdef Record record
    cdef size_t at = 0
    cdef Py_ssize_t index, previous = -1
    for index in range(count):
        if not read_record(data, size, &at, &record):
            return False
        if keyed and record.key_bytes < 0:
            return False
        if dense:
            if record.offset_delta != index:
                return False
        elif record.offset_delta <= previous or record.offset_delta > last:
            return False
        previous = record.offset_delta
    return at == size


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    """The bits of a signed integer, with its sign in the lowest."""
    return (<uint64_t>value << 1) ^ (0 - <uint64_t>(value < 0))


cdef inline size_t zigzag_bytes(int64_t value) noexcept nogil:
    """The number of bytes that an integer takes."""
    cdef uint64_t raw = zigzag(value)
    cdef size_t size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t *write_zigzag(uint8_t *to, int64_t value) noexcept nogil:
    """Writes an integer; returns the place behind it."""
    cdef uint64_t raw = zigzag(value)
    while raw > 0x7F:
        to[0] = raw & 0x7F | 0x80
        to += 1
        raw >>= 7
    to[0] = raw
    return to + 1
