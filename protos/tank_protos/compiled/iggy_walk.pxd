# How Iggy's messages lie in memory (`tank_protos.iggy`), for the twins: inline C over pointers, without Python objects.
#
# Every function returns whether the bytes are right, and reads nothing at or behind `end`. A twin that meets wrong bytes,
# or good ones that are rare, calls the plain function.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef enum:
    # Of `MessageLayout`, in its order.
    SEED = 1
    HEADER_56 = 2
    HEADER_64 = 3
    BATCH = 4
    # The index before the messages of HEADER_56 and HEADER_64: position, end, timestamp.
    INDEX_BYTES = 16
    INDEX_END_AT = 4
    BATCH_HEAD_BYTES = 256
    BATCH_MESSAGE_BYTES = 48
    ID_BYTES = 16
    MAX_PAYLOAD_BYTES = 64000000
    MAX_HEADERS_BYTES = 100000
    MAX_FIELD_BYTES = 255
    # The reserved header of a record: version, id, microseconds, then a byte of kinds for each user header.
    OURS_BYTES = 19
    OURS_VERSION = 1
    OURS_KINDS_AT = 19
    US_PER_MS = 1000
    STRING = 2
    LAST_KIND = 15
    # The key is a text, and the value raw.
    DEFAULT_KINDS = 0x21

# A message of a send.
cdef struct Sent:
    const uint8_t *id
    uint64_t time_us
    const uint8_t *payload
    uint32_t payload_bytes
    const uint8_t *headers
    uint32_t headers_bytes

# A user header.
cdef struct UserHeader:
    const uint8_t *key
    uint32_t key_bytes
    const uint8_t *value
    uint32_t value_bytes
    uint8_t kinds


cdef inline uint32_t u32_at(const uint8_t *p) noexcept nogil:
    """Little-endian, as every machine is that this is built for."""
    cdef uint32_t value
    memcpy(&value, p, 4)
    return value


cdef inline uint64_t u64_at(const uint8_t *p) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, p, 8)
    return value


cdef inline uint8_t *put_u32(uint8_t *to, uint32_t value) noexcept nogil:
    """Writes a number; returns the place behind it."""
    memcpy(to, &value, 4)
    return to + 4


cdef inline uint8_t *put_u64(uint8_t *to, uint64_t value) noexcept nogil:
    memcpy(to, &value, 8)
    return to + 8


cdef inline uint8_t *put_bytes(uint8_t *to, const uint8_t *data, size_t size) noexcept nogil:
    memcpy(to, data, size)
    return to + size


cdef inline bint is_zero(const uint8_t *message_id) noexcept nogil:
    """Whether an id is none."""
    return (u64_at(message_id) | u64_at(message_id + 8)) == 0


cdef inline bint takes_sizes(uint32_t headers_bytes, uint32_t payload_bytes) noexcept nogil:
    """Whether a message may be so large."""
    return 0 < payload_bytes <= MAX_PAYLOAD_BYTES and headers_bytes <= MAX_HEADERS_BYTES


cdef inline bint read_seed(const uint8_t *data, size_t end, size_t *at, Sent *message) noexcept nogil:
    """Reads the message at `at`, which moves behind it: id, headers, payload."""
    cdef size_t here = at[0]
    if end - here < ID_BYTES + 4:
        return False
    message.id = data + here
    message.headers_bytes = u32_at(data + here + ID_BYTES)
    here += ID_BYTES + 4
    if end - here < message.headers_bytes:
        return False
    message.headers = data + here
    here += message.headers_bytes
    if end - here < 4:
        return False
    message.payload_bytes = u32_at(data + here)
    here += 4
    if end - here < message.payload_bytes or not takes_sizes(message.headers_bytes, message.payload_bytes):
        return False
    message.payload = data + here
    at[0] = here + message.payload_bytes
    return True


cdef inline bint read_body(
    const uint8_t *data, size_t end, size_t *here, uint32_t headers_bytes, uint32_t payload_bytes, Sent *message
) noexcept nogil:
    """Reads a payload, and the headers behind it."""
    if not takes_sizes(headers_bytes, payload_bytes) or end - here[0] < <size_t>payload_bytes + headers_bytes:
        return False
    message.payload, message.payload_bytes = data + here[0], payload_bytes
    here[0] += payload_bytes
    message.headers, message.headers_bytes = data + here[0], headers_bytes
    here[0] += headers_bytes
    return True


cdef inline bint read_headed(
    const uint8_t *data, size_t end, size_t *at, size_t head_bytes, Sent *message
) noexcept nogil:
    """Reads the message at `at`, which moves behind it: a head of 56 or 64 bytes, payload, headers."""
    cdef size_t here = at[0]
    cdef const uint8_t *head
    if end - here < head_bytes:
        return False
    head = data + here
    message.id = head + 8
    message.time_us = u64_at(head + 40)
    here += head_bytes
    if not read_body(data, end, &here, u32_at(head + 48), u32_at(head + 52), message):
        return False
    at[0] = here
    return True


cdef inline bint read_in_batch(
    const uint8_t *data, size_t end, size_t *at, uint64_t origin_us, Sent *message
) noexcept nogil:
    """Reads the message at `at`, which moves behind it, of a batch of V11: a head of 48 bytes, payload, headers."""
    cdef size_t here = at[0]
    cdef const uint8_t *head
    if end - here < BATCH_MESSAGE_BYTES:
        return False
    head = data + here
    if u64_at(head + 40) != 0:
        return False
    message.id = head + 8
    message.time_us = origin_us + u32_at(head + 28)
    here += BATCH_MESSAGE_BYTES
    if not read_body(data, end, &here, u32_at(head + 32), u32_at(head + 36), message):
        return False
    at[0] = here
    return True


cdef inline bint read_field(
    const uint8_t *data, size_t end, size_t *at, const uint8_t **content, uint32_t *size
) noexcept nogil:
    """Reads a length from 1 to 255 and that many bytes."""
    if end - at[0] < 4:
        return False
    size[0] = u32_at(data + at[0])
    at[0] += 4
    if size[0] == 0 or size[0] > MAX_FIELD_BYTES or end - at[0] < size[0]:
        return False
    content[0] = data + at[0]
    at[0] += size[0]
    return True


cdef inline bint read_user_header(
    const uint8_t *data, size_t end, size_t *at, bint has_key_kinds, UserHeader *header
) noexcept nogil:
    """Reads the user header at `at` of a map on the wire, which moves behind it."""
    cdef uint32_t key_kind = STRING, value_kind
    if has_key_kinds:
        if at[0] >= end:
            return False
        key_kind = data[at[0]]
        at[0] += 1
    if not read_field(data, end, at, &header.key, &header.key_bytes) or at[0] >= end:
        return False
    value_kind = data[at[0]]
    at[0] += 1
    if not 0 < key_kind <= LAST_KIND or not 0 < value_kind <= LAST_KIND:
        return False
    header.kinds = key_kind << 4 | value_kind
    return read_field(data, end, at, &header.value, &header.value_bytes)


cdef inline uint8_t *write_user_header(uint8_t *to, const UserHeader *header, bint has_key_kinds) noexcept nogil:
    """Writes a user header as a map on the wire has it; returns the place behind it."""
    if has_key_kinds:
        to[0] = header.kinds >> 4
        to += 1
    to = put_bytes(put_u32(to, header.key_bytes), header.key, header.key_bytes)
    to[0] = header.kinds & 0x0F
    return put_bytes(put_u32(to + 1, header.value_bytes), header.value, header.value_bytes)


cdef inline bint is_reserved(const uint8_t *name, size_t size) noexcept nogil:
    """Whether a header has the reserved name."""
    return size == 4 and memcmp(name, b"iggy", 4) == 0


cdef inline bint is_ours(const uint8_t *value, size_t size) noexcept nogil:
    """Whether the value of a header of that name is one that a broker has written."""
    cdef size_t at
    cdef uint16_t rest_us
    if size < OURS_BYTES or value[0] != OURS_VERSION:
        return False
    memcpy(&rest_us, value + 1 + ID_BYTES, 2)
    if rest_us >= US_PER_MS:
        return False
    for at in range(OURS_KINDS_AT, size):
        if value[at] >> 4 == 0 or value[at] & 0x0F == 0:
            return False
    return True


cdef inline bint is_ascii(const uint8_t *data, size_t size) noexcept nogil:
    cdef size_t at
    for at in range(size):
        if data[at] > 0x7F:
            return False
    return True
