# The headers of a stored record as the user headers of Iggy's clients (`tank_protos.iggy.polled_messages`), for the twins:
# inline C over pointers, without Python objects. Each function returns whether a client can have what was read.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memcpy
from tank_protos.compiled.iggy_walk cimport (
    DEFAULT_KINDS, ID_BYTES, MAX_FIELD_BYTES, MAX_HEADERS_BYTES, OURS_KINDS_AT, STRING, UserHeader, is_ascii, is_ours,
    is_reserved, is_zero,
)
from tank_protos.compiled.record_walk cimport Record, read_content

# A stored message on its way to a client.
cdef struct Polled:
    uint64_t offset
    int64_t time_ms
    # What the time has beside whole milliseconds.
    uint16_t rest_us
    # NULL: it has none.
    const uint8_t *id
    const uint8_t *payload
    size_t payload_bytes
    # The user headers of a record: the place of the first, their count, the bytes that they have on the wire.
    size_t headers_at
    int32_t headers
    size_t map_bytes
    const uint8_t *kinds
    size_t kinds_count


cdef inline bint next_header(
    const uint8_t *data, size_t stop, size_t *at, size_t place, const Polled *polled, UserHeader *header
) noexcept nogil:
    """Reads the user header at `at`, which moves behind it; `place`: among those behind ours."""
    cdef int32_t key_bytes = 0, value_bytes = 0
    if not read_content(data, stop, at, False, &header.key, &key_bytes):
        return False
    if not read_content(data, stop, at, True, &header.value, &value_bytes):
        return False
    if not 0 < key_bytes <= MAX_FIELD_BYTES or not 0 < value_bytes <= MAX_FIELD_BYTES:
        return False
    header.key_bytes = key_bytes
    header.value_bytes = value_bytes
    header.kinds = polled.kinds[place] if place < polled.kinds_count else DEFAULT_KINDS
    return True


cdef inline bint read_headers(
    const uint8_t *data, const Record *record, bint has_key_kinds, Polled *polled
) noexcept nogil:
    """Reads what is in the reserved header, and measures the others."""
    cdef const uint8_t *name = NULL
    cdef const uint8_t *value = NULL
    cdef int32_t name_bytes = 0, value_bytes = 0
    cdef size_t at = record.headers_at, place
    cdef UserHeader header
    if not read_content(data, record.stop, &at, False, &name, &name_bytes):
        return False
    if not read_content(data, record.stop, &at, True, &value, &value_bytes):
        return False
    polled.kinds_count = 0
    polled.headers_at = record.headers_at
    polled.headers = record.headers
    if is_reserved(name, name_bytes) and value_bytes > 0 and is_ours(value, value_bytes):
        if not is_zero(value + 1):
            polled.id = value + 1
        memcpy(&polled.rest_us, value + 1 + ID_BYTES, 2)
        polled.kinds = value + OURS_KINDS_AT
        polled.kinds_count = value_bytes - OURS_KINDS_AT
        polled.headers_at = at
        polled.headers -= 1
    at = polled.headers_at
    for place in range(<size_t>polled.headers):
        if not next_header(data, record.stop, &at, place, polled, &header):
            return False
        if (header.kinds >> 4 == STRING or not has_key_kinds) and not is_ascii(header.key, header.key_bytes):
            return False
        polled.map_bytes += 9 + has_key_kinds + header.key_bytes + header.value_bytes
        if polled.map_bytes > MAX_HEADERS_BYTES:
            return False
    return True
